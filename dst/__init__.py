"""Schedules across every clock change: what they answer beside an oracle that looks at every minute. See README.md."""
