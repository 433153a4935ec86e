"""`oncue doctor`: is everything as it should be, and if not, what to do?"""

from oncue.cli.doctor.command import register

__all__ = ["register"]
