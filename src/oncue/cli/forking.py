"""What a process that a handler forks must not keep of its worker: the port, the database's connections, the signals.

Such a process may outlive the worker. With a copy of the listening socket it would keep the port taken, and with copies
of the connections the server would believe that the worker is still there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from oncue.store.postgres.connections import open_sockets

ENDED = b"oncue: a process that a handler forked went on in the worker's event loop: it is ended\n"


class Forks:
    """Looks after every fork of this process from now on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sockets: Callable[[], Iterable[int]]) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._sockets = sockets
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if getattr(signal.getsignal(number), "__module__", None) == "oncue.cli.process":
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        let_go([*self._sockets(), *open_sockets()])
        if threading.get_ident() == self._thread and not self._loop.is_closed():
            self._loop.call_soon(_end)  # an `async` handler has forked: its child must not become a second worker


def let_go(descriptors: Iterable[int]) -> None:
    """Give up sockets without a word to the other side.

    Their numbers stay taken: the objects that know them would otherwise close, or write to, what gets them next.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        with suppress(OSError):
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _end() -> None:
    with suppress(OSError):
        os.write(2, ENDED)
    os._exit(1)
