"""Whether the server around a mounted application is about to stop.

ASGI tells an application that its server stops only after its last request has ended: too late for streams that last.
uvicorn, on its own or under gunicorn, has the handler of the signal at its server, and the server says it. Nothing is
changed there. Servers of other kinds end open requests by themselves.
"""

from __future__ import annotations

import signal

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def is_stopping() -> bool:
    servers = (getattr(signal.getsignal(number), "__self__", None) for number in SIGNALS)
    return any(getattr(server, "should_exit", False) is True for server in servers)
