"""Decisions without I/O: every module here is arithmetic over values that are handed in."""
