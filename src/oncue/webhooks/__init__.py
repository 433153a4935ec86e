"""Webhooks: signed deliveries over HTTP."""
