"""Ports that nobody else takes, for processes that are told where to listen."""

from __future__ import annotations

import atexit
import socket


def free_port() -> int:
    """A port of this machine that is nobody's. It stays so: nobody else is given it, until this process ends.

    It is bound and never listened at, so that whoever is told it can listen there, and whoever calls it meanwhile is
    refused. A port that was only free for a moment may be another one's by the time that somebody wants to listen.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as those who listen do: else they could not
    kept.bind(("127.0.0.1", 0))
    atexit.register(kept.close)
    port: int = kept.getsockname()[1]
    return port
