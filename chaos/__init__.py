"""`make chaos`: real processes on real databases, killed, stopped and cut off, and what must hold afterwards."""
