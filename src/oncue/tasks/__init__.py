"""What a task knows of its arguments: their types, how they are stored, and the key that they make."""
