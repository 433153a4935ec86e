"""What oncue answers over HTTP."""
