"""A polite crawler of linked communities, with a graph to look at. Built on oncue."""
