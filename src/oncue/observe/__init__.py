"""What happens in a process, made visible to machines."""
