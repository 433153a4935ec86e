"""The simulator: the real engine under virtual time, faults on schedule, and a checker of what happened."""
