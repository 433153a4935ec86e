"""The services of a node. Each is a step that is told the time and says when it wants to be called again."""
