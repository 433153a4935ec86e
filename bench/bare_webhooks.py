"""The bare loop of webhooks, as a child: so many POSTs by aiohttp, so many at once, of the size of a delivery.

It knows all requests beforehand. It has no database, signs nothing, checks no address and keeps no record.
"""

from __future__ import annotations

import asyncio
import time

import aiohttp

from bench import child, timing
from bench.oncue_webhooks import BODY, HEADERS, healthy_url


async def post(port: int, requests: int, endpoints: int, concurrency: int) -> None:
    urls = [healthy_url(port, number) for number in range(endpoints)]
    turns = iter(range(requests))

    async def seat(session: aiohttp.ClientSession) -> None:
        for turn in turns:
            async with session.post(urls[turn % endpoints], data=BODY, headers=HEADERS) as response:
                await response.read()
                assert response.status == 200

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as session:
        child.announce_and_wait()
        started, used = time.monotonic_ns(), time.process_time()
        await asyncio.gather(*(seat(session) for _ in range(concurrency)))
        child.answer(
            jobs=requests, started=started, ended=time.monotonic_ns(),
            cpu_us=(time.process_time() - used) * 1e6 / requests,
        )  # fmt: skip


if __name__ == "__main__":
    child.dispatch({"post": lambda *words: timing.run(post(*map(int, words)))})
