"""A bad line to PostgreSQL: it swallows replies to commits, delays, cuts, and keeps notifications to itself.

It reads the protocol, so that it knows which of the store's statements a question is, and whether it has taken effect.
A reply is swallowed only when the server has committed something: then not a byte of it is passed on and the line is
cut. Whoever asked cannot know.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from oncue.store import statements
from tests.middleman import CHUNK, End, Middleman

WRITES = {
    "enqueue": ("enqueue", "enqueue_keyless", "enqueue_one", "touch"),
    "claim": ("claim",),
    "apply": ("apply", "apply_plain", "apply_noted", "apply_free"),
    "decide": ("decide", "decide_plain", "decide_noted", "decide_free"),
    "beat": ("beat",),
    "election": ("acquire", "renew"),
}
"""The kinds of writes, and the statements that make them."""
_KINDS = {statements.load("postgres")[name]: kind for kind, names in WRITES.items() for name in names}
_BY_SIZE = re.compile(r"\A-- \d+\n")  # what `fetch_by_size` puts before a statement
RARELY = 12  # one delay in twelve is longer than a third of the longest
_PREPARING = b"PBDEC"  # messages of which more follow until the question is whole
_HEAD = 5
_EMPTY_ARRAY = 12  # bytes: no dimensions, no nulls, the type of what is not there


@dataclass
class Weather:
    """How bad the line is. It may change at any time."""

    swallow: Mapping[str, float] = field(default_factory=dict)
    """For each kind of write, how likely the reply to its commit is swallowed."""
    cut: float = 0.0
    """How likely a question is the last one on its line: the server gets it or does not, the reply is never heard."""
    delay: float = 0.0
    longest: float = 0.05
    """How likely a question or a reply is delayed, and by how many seconds at most; nearly all by far less."""
    mute: bool = False
    """Whether notifications get lost."""


class Hangup(Exception):
    """The line is to be cut."""


class Line:
    """One connection: whose it is, what is being asked on it, and which reply is not to be heard."""

    def __init__(self) -> None:
        self.owner = ""
        self.prepared: dict[bytes, str] = {}
        self.kind: str | None = None
        self.doomed: str | None = None
        self.kept = b""
        self.effect = 0
        self.in_transaction: str | None = None

    def read(self, code: bytes, body: bytes) -> None:
        """Learn from a message of the asker which statement it is about."""
        if code == b"P":
            name, text, _ = body.split(b"\0", 2)
            self.prepared[name] = _BY_SIZE.sub("", text.decode())
        elif code == b"B":
            self.kind = _KINDS.get(self.prepared.get(body.split(b"\0", 2)[1], ""))
        elif code == b"Q":
            self.kind = self.in_transaction if body.upper().startswith(b"COMMIT") else None

    def asked(self) -> str | None:
        """The question is whole: which kind of write it is."""
        kind, self.kind = self.kind, None
        return kind


class Wire(Middleman):
    """Between an application and PostgreSQL, in a thread of its own."""

    def __init__(self, url: str, dice: Random, weather: Weather | None = None) -> None:
        super().__init__(url)
        self.weather = weather or Weather()
        self.happened: Counter[str] = Counter()
        """How often each thing was done: the kinds of writes whose replies were swallowed, cut, delay, mute."""
        self.cut_off: set[str] = set()
        """The processes that reach nothing: what one of them asks, and what it is told, ends its line."""
        self._dice = dice

    async def _between(self, asker: End, server: End) -> None:
        line = Line()
        ways = [
            asyncio.create_task(self._there(line, asker.reader, server.writer)),
            asyncio.create_task(self._back(line, server.reader, asker.writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        asker.writer.transport.abort()
        server.writer.transport.abort()

    async def _there(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!I", opening := await reader.readexactly(4))
        told = await reader.readexactly(length - 4)  # who it is, before there are typed messages
        line.owner = _owner(told)
        self._refuse(line)
        writer.write(opening + told)
        question = b""
        async for code, message in _messages(reader):
            self._refuse(line)
            line.read(code, message[_HEAD:])
            question += message
            if code in _PREPARING:
                continue
            if code in b"SQ":
                await self._ask(line, line.asked(), writer, question)
            else:
                writer.write(question)
            question = b""
            await writer.drain()

    async def _ask(self, line: Line, kind: str | None, writer: asyncio.StreamWriter, question: bytes) -> None:
        weather = self.weather
        await self._wait(weather)
        if self._dice.random() < weather.cut:
            self.happened["cut"] += 1
            if self._dice.random() < 0.5:
                writer.write(question)
                await writer.drain()
            raise Hangup
        if kind is not None:
            line.in_transaction = kind
            if self._dice.random() < weather.swallow.get(kind, 0.0):
                line.doomed, line.effect = kind, 0
        writer.write(question)

    def _refuse(self, line: Line) -> None:
        if line.owner in self.cut_off:
            self.happened["refused"] += 1
            raise Hangup

    async def _back(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for code, message in _messages(reader):
            self._refuse(line)
            if code == b"A" and self.weather.mute:
                self.happened["mute"] += 1
                continue
            if line.doomed is not None:
                message = self._kept(line, code, message)
            if code == b"Z":
                if message[_HEAD:] == b"I":
                    line.in_transaction = None
                await self._wait(self.weather)
            writer.write(message)
            await writer.drain()

    def _kept(self, line: Line, code: bytes, message: bytes) -> bytes:
        """Keep a reply until it is known what it says; what is to be passed on after all."""
        line.kept += message
        if code == b"D":
            line.effect += not _is_empty(message[_HEAD:])
        if code == b"C":
            line.effect = line.effect or _rows(message[_HEAD:])
        if code == b"E":
            line.effect = 0
        if code != b"Z":
            return b""
        kind, line.doomed = line.doomed, None
        if line.effect and kind is not None and message[_HEAD:] == b"I":
            self.happened[kind] += 1
            raise Hangup
        kept, line.kept = line.kept, b""  # nothing was committed: an empty claim, or the middle of a transaction
        return kept

    async def _wait(self, weather: Weather) -> None:
        if weather.delay and self._dice.random() < weather.delay:
            self.happened["delay"] += 1
            await asyncio.sleep(self._dice.random() ** RARELY * weather.longest)


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes]]:
    """The messages of one side, each with its code and as a whole."""
    held = bytearray()
    while data := await reader.read(CHUNK):
        held += data
        place = 0
        while len(held) - place >= _HEAD:
            end = place + 1 + struct.unpack_from("!I", held, place + 1)[0]
            if end > len(held):
                break
            yield bytes(held[place : place + 1]), bytes(held[place:end])
            place = end
        del held[:place]


def _owner(opening: bytes) -> str:
    """The name that an application gives itself as it opens a line."""
    _, _, rest = opening.partition(b"application_name\0")
    return rest.partition(b"\0")[0].decode()


def _is_empty(row: bytes) -> bool:
    """Whether all that a row says is an empty array: nothing was taken, or decided."""
    columns, length = struct.unpack_from("!HI", row)
    return bool(columns == 1 and length == _EMPTY_ARRAY)


def _rows(tag: bytes) -> int:
    """How many rows a statement is said to have returned or changed; a COMMIT has its effect."""
    words = tag.rstrip(b"\0").split()
    return int(words[-1]) if words[-1].isdigit() else int(words == [b"COMMIT"])


@contextmanager
def wired(url: str, dice: Random, weather: Weather | None = None) -> Iterator[Wire]:
    """A line to a database, from a thread of its own; whoever uses its address is at its mercy."""
    ready, holder = threading.Event(), []

    async def live() -> None:
        async with Wire(url, dice, weather) as wire:
            over = asyncio.Event()
            holder.append((wire, asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="wire", daemon=True)
    thread.start()
    ready.wait()
    wire, loop, over = holder[0]
    try:
        yield wire
    finally:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(over.set)
        thread.join()
