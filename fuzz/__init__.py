"""Requests that nobody should send, and the admin API's answers to them."""
