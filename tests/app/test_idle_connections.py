"""How many idle connections a worker keeps to its endpoints, after a burst of deliveries."""

from __future__ import annotations

import asyncio

import pytest

from tests.app.conftest import MakeApp
from tests.app.watching import Watcher
from tests.webhooks.servers import Got, answering, serving


class Together:
    """Answers when so many requests are there, so that each has a connection of its own."""

    def __init__(self, count: int) -> None:
        self._barrier = asyncio.Barrier(count)

    async def __call__(self, got: Got, writer: asyncio.StreamWriter) -> None:
        await self._barrier.wait()
        await answering()(got, writer)


@pytest.mark.contract("HOOK-4")
@pytest.mark.parametrize(("hosts", "each", "kept"), [(1, 40, 10), (30, 6, 100)])
async def test_a_worker_keeps_ten_for_a_host_and_a_hundred_in_all(
    make_app: MakeApp, sqlite_url: str, hosts: int, each: int, kept: int
) -> None:
    app = make_app(sqlite_url, webhooks_allow="127.0.0.0/8", webhooks_per_endpoint=each, queues="webhooks")
    watcher, names = Watcher(app), [f"127.0.1.{number}" for number in range(1, hosts + 1)]
    async with serving(Together(hosts * each), *names) as server:
        ids = [(await app.adeliver(server.url(host=name), {})).id for name in names for _ in range(each)]
        async with app.worker():
            jobs = await watcher.ended(ids)
            assert {(job.state, job.attempt) for job in jobs} == {("succeeded", 1)}
            async with asyncio.timeout(20):  # after 30 s every idle connection is closed
                await server.open_at_most(kept)
            assert server.accepted == hosts * each
