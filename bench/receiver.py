"""A receiver of webhooks as a child of its own: `serve PORT` answers until it is told to stop, and says what it saw.

It does as little as a receiver can, since it shares the processors with what is measured. What it does depends on the
path: `/ok/…` is answered at once, `/slow/…` after two seconds, `/dead/…` never. How long a delivery was on its way is
known from its body: `"sent":N` is the reading of the monotonic clock when it was enqueued (processes share that clock),
and `"scheduled_for":"…"` the slot of its schedule.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any

from bench import child, timing

SLOW_SECONDS = 2.0
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SENT = re.compile(rb'"sent":(\d+)')
SLOT = re.compile(rb'"scheduled_for":"([^"]+)"')


class Tally:
    """What arrived: how much, the last of it, and how late what says when it was sent."""

    def __init__(self) -> None:
        self.answered = self.slow = self.dead = self.last = 0
        self.delays_ms: list[float] = []

    def took(self, body: bytes) -> None:
        self.answered += 1
        self.last = time.monotonic_ns()
        if sent := SENT.search(body):
            self.delays_ms.append((self.last - int(sent[1])) / 1e6)
        elif slot := SLOT.search(body):
            due_at = datetime.fromisoformat(slot[1].decode())
            self.delays_ms.append((datetime.now(UTC) - due_at).total_seconds() * 1000)

    def answer(self) -> None:
        delays = sorted(self.delays_ms)
        child.answer(
            answered=self.answered, slow=self.slow, dead=self.dead, last=self.last, delays=len(delays),
            p50=_percentile(delays, 50), p99=_percentile(delays, 99), longest=_percentile(delays, 100),
        )  # fmt: skip


def _percentile(ascending: list[float], percent: int) -> float:
    return ascending[min(len(ascending) * percent // 100, len(ascending) - 1)] if ascending else 0.0


class Connection(asyncio.Protocol):
    """HTTP/1.1 with kept connections and one request at a time, as far as a client that is known needs it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport  # uvloop's are not of asyncio's classes

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(END)
        if not end:
            return
        length = LENGTH.search(head)
        if length is None or len(body) >= int(length[1]):
            self._read = b""
            self._take(head, body)

    def _take(self, head: bytes, body: bytes) -> None:
        tally, path = self._tally, head[head.index(b" ") + 1 :]
        if path.startswith(b"/ok/"):
            tally.took(body)
            self._answer()
        elif path.startswith(b"/slow/"):
            tally.slow += 1
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._answer)
        else:
            tally.dead += 1

    def _answer(self) -> None:
        self._transport.write(ANSWER)


async def serve(port: int) -> None:
    loop, tally, stop = asyncio.get_running_loop(), Tally(), asyncio.Event()
    server = await loop.create_server(lambda: Connection(tally), "127.0.0.1", port, backlog=4096)
    loop.add_reader(sys.stdin, stop.set)
    child.announce()
    await stop.wait()
    server.close()
    tally.answer()


if __name__ == "__main__":
    child.dispatch({"serve": lambda port: timing.run(serve(int(port)))})
