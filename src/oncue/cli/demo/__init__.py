"""`oncue demo`: a few thousand jobs, three workers, one of them killed, and an account of what became of every job."""

from oncue.cli.demo.command import register

__all__ = ["register"]
