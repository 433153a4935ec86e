"""Cron that calls URLs, with bounded retries: a program built on oncue."""
