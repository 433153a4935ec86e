"""A worker that dies after its POST and before the record of it: the receiver sees one id, the execution ends once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncue import Oncue
from oncue.settings import load
from tests.webhooks.servers import Got, Server, serving

LEASE = "2s"


@asynccontextmanager
async def worker(url: str, receiver: Server, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {
        **os.environ, "DATABASE_URL": url, "RECEIVER": receiver.url("/hook"), "ONCUE_LEASE": LEASE,
        "ONCUE_WEBHOOKS_ALLOW": "127.0.0.0/8",
    }  # fmt: skip
    command = [sys.executable, "-m", "oncue", "worker", "--app", "tests.process.delivery_program:app"]
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.contract("HOOK-9", "HOOK-10", "HOOK-19")
async def test_a_crash_between_the_post_and_its_record_sends_the_same_id_again(
    database_url: str, tmp_path: Path
) -> None:
    victims: list[asyncio.subprocess.Process] = []

    async def reply(got: Got, writer: asyncio.StreamWriter) -> None:
        """The first two requests have arrived, and nobody will ever record it."""
        if len(receiver.got) <= 2:
            victims[-1].send_signal(signal.SIGKILL)
            await asyncio.sleep(3600)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    app = Oncue(settings=load({"database_url": database_url, "name": "deliveries"}, environment={}, folder=tmp_path))
    async with serving(reply) as receiver, asyncio.timeout(90):
        declared = app.webhook("orders", url=receiver.url("/hook"))
        if not database_url.startswith("sqlite"):
            await (await app.internals.connected()).store.migrate()
        receipt = await declared.adeliver({"order": 42})
        for _ in range(2):
            async with worker(database_url, receiver, tmp_path) as victim:
                victims.append(victim)
                assert await victim.wait() == -signal.SIGKILL
        async with worker(database_url, receiver, tmp_path):
            while not (job := await app.jobs.get(receipt.id)).finished:  # noqa: ASYNC110 (another process ends it)
                await asyncio.sleep(0.05)
            attempts = await app.jobs.attempts(job.id)
    await app.aclose()
    assert (job.state, job.retry_count, len(receiver.got)) == ("succeeded", 0, 3), "a lost attempt costs no retry"
    assert {got.headers["webhook-id"] for got in receiver.got} == {str(receipt.uid)}
    assert len({got.body for got in receiver.got}) == 1
    assert [attempt.outcome for attempt in attempts] == ["node_lost", "node_lost", "succeeded"]
