"""Names become addresses in threads of their own, so that a name server that hangs holds up nobody else.

Each lookup has a daemon thread: one that hangs delays neither the end of the process nor, as one of a pool's few, other
work. Their number is bounded. A name whose last lookup was slow waits for one of a few threads for slow names, so that
many dead names cannot take all the room of the healthy ones; nor do those of which it is not known yet, since a lookup
that takes long gives its place to the next. Names of one domain have a part of the room only: its owner has any number
of names in it. How long a delivery waits is bounded by its own time-out.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

Lookup = Callable[[str, int], Sequence[str]]
"""The addresses of a host, found in a thread; the port is the one that will be dialled."""

MOST_LOOKUPS = 32
MOST_SLOW_LOOKUPS = 8
MOST_OF_A_DOMAIN = 4
MOST_LINGERING = 128
"""Lookups that have given up their place and go on."""
PATIENCE = 0.25
"""Seconds for which a lookup keeps its place."""
SLOW = 5.0
MOST_SLOW_NAMES = 10_000
MOST_ADDRESSES = 4
"""Of each family: a name may have thousands, and each one that does not answer costs time."""


def system_lookup(host: str, port: int) -> list[str]:
    flags = socket.AI_ADDRCONFIG
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [str(address[0]) for _, _, _, _, address in found]


class NameLookups(AbstractResolver):
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._room = asyncio.Semaphore(MOST_LOOKUPS)
        self._room_for_slow = asyncio.Semaphore(MOST_SLOW_LOOKUPS)
        self._slow: dict[str, None] = {}
        self._domains: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Of each domain in which names are being looked up, its room."""
        self._lingering = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        room = self._room_for_slow if host in self._slow else self._room
        of_domain = self._room_of(host)
        await of_domain.acquire()
        try:
            await room.acquire()
        except BaseException:
            of_domain.release()
            raise
        began = loop.time()
        found: asyncio.Future[Sequence[str]] = loop.create_future()
        lingers = False

        def linger() -> None:
            nonlocal lingers
            if room is self._room and self._lingering < MOST_LINGERING:
                lingers = True
                self._lingering += 1
                self._slow[host] = None
                room.release()

        waiting = loop.call_later(PATIENCE, linger)

        def ended(addresses: Sequence[str] | None, error: BaseException | None) -> None:
            waiting.cancel()
            of_domain.release()
            if lingers:
                self._lingering -= 1
            else:
                room.release()
            self._note(host, loop.time() - began)
            if found.cancelled():
                return
            if error is not None:
                found.set_exception(error if isinstance(error, OSError) else OSError(f"lookup failed: {error}"))
            else:
                found.set_result(addresses or ())

        def look() -> None:
            outcome: tuple[Sequence[str] | None, BaseException | None]
            try:
                outcome = self._lookup(host, port), None
            except Exception as error:
                outcome = None, error
            with suppress(RuntimeError):  # the loop may have been closed meanwhile
                loop.call_soon_threadsafe(ended, *outcome)

        threading.Thread(target=look, name="oncue-lookup", daemon=True).start()
        return _answered(host, port, await found)

    async def close(self) -> None:
        """Lookups that still run end by themselves, unheard."""

    def _room_of(self, host: str) -> asyncio.Semaphore:
        return self._domains.setdefault(_domain(host), asyncio.Semaphore(MOST_OF_A_DOMAIN))

    def _note(self, host: str, seconds: float) -> None:
        self._slow.pop(host, None)
        if seconds >= SLOW:
            self._slow[host] = None
        if len(self._slow) > MOST_SLOW_NAMES:
            del self._slow[next(iter(self._slow))]


def _domain(host: str) -> str:
    """The part of a name that one owner has, nearly: `shop.example`, and `shop.co.uk`, where `co.uk` is everybody's."""
    labels = host.rsplit(".", 3)[-3:]
    is_shared = len(labels) == 3 and len(labels[2]) == 2 and len(labels[1]) <= 3
    return ".".join(labels if is_shared else labels[-2:])


def _answered(host: str, port: int, addresses: Sequence[str]) -> list[ResolveResult]:
    families: dict[int, list[str]] = {socket.AF_INET6: [], socket.AF_INET: []}
    for address in dict.fromkeys(addresses):
        families[socket.AF_INET6 if ":" in address else socket.AF_INET].append(address)
    kept = {address for of_family in families.values() for address in of_family[:MOST_ADDRESSES]}
    if not kept:
        raise OSError(None, "the name has no address")
    return [
        ResolveResult(
            hostname=host,
            host=address,
            port=port,
            family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            proto=socket.IPPROTO_TCP,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for address in dict.fromkeys(addresses)
        if address in kept
    ]
