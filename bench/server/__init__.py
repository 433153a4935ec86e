"""How the HTTP API answers when many jobs are kept."""
