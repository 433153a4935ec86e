"""A socket that listens, made before anything is announced: a taken port is told in one line."""

from __future__ import annotations

import os
import socket
import sys


def listen(command: str, host: str, port: int) -> socket.socket:
    """A listening socket, or the end of the command."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or 0
        sys.exit(f"{command}: cannot listen on {host}:{port}: {os.strerror(number) if number > 0 else error}")
