"""A real worker's telemetry becomes a history that the checker takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path

from oncue import Ladder, Oncue, Retry
from oncue.clock import DatabaseClock
from oncue.model import TERMINAL
from oncue.sim import history
from oncue.sim.checker import Final, check
from oncue.sim.history import History, TelemetryRecorder


async def test_a_real_worker_keeps_every_promise(tmp_path: Path) -> None:
    app = Oncue(f"sqlite:///{tmp_path / 'oncue.db'}")

    @app.task
    async def fine() -> None:
        await asyncio.sleep(0)

    @app.task(retry=Ladder("20ms", "40ms"))
    def flaky() -> None:
        raise Retry("not yet")

    with (tmp_path / "worker.jsonl").open("w", encoding="utf-8") as file:
        TelemetryRecorder(
            app.internals.telemetry, History(DatabaseClock(), file), "worker", timedelta(seconds=app.settings.lease)
        )
        receipts = [*await fine.aenqueue_many([()] * 20), *await flaky.aenqueue_many([()] * 3)]
        async with app.worker(), asyncio.timeout(60):
            while len(await app.jobs.list(["succeeded", "failed"])) < len(receipts):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    jobs, queues = await app.jobs.list(limit=100), await app.queues.list()
    await app.aclose()
    totals = {state: sum(getattr(queue, state) for queue in queues) for state in TERMINAL}
    events = history.read(tmp_path / "worker.jsonl")
    kinds = Counter(event.kind for event in events)
    assert (kinds["job"], kinds["start"], kinds["change"]) == (23, 29, 29)
    assert kinds["lease"] >= 1
    violations = check(events, Final(tuple(jobs), totals), ordered=False, tolerance=0.1, drained_within=20)
    assert not violations, "\n".join(map(str, violations))
