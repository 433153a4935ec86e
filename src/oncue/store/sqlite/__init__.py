"""oncue on SQLite: one file, any number of processes on one host."""
