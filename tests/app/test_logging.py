from __future__ import annotations

import logging
import re

import pytest

from oncue import Ladder, Oncue, current_job
from tests.app.watching import Watcher


async def logged(app: Oncue, caplog: pytest.LogCaptureFixture, *ids: int) -> list[str]:
    watcher = Watcher(app)
    with caplog.at_level(logging.INFO, "oncue.job"):
        async with app.worker():
            await watcher.ended(ids)
    return [record.message for record in caplog.records if record.name == "oncue.job"]


@pytest.mark.contract("SLOT-12")
async def test_start_end_duration_and_rows_of_a_run_are_logged(app: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(queue="default")
    async def load(source: str) -> None:
        current_job().rows(10)
        current_job().rows(250)

    receipt = await load.aenqueue("rss")
    start, end = await logged(app, caplog, receipt.id)
    assert start == f"job {receipt.id} started task=load queue=default attempt=1"
    assert re.fullmatch(
        rf"job {receipt.id} succeeded task=load queue=default attempt=1 duration=\d+\.\d{{3}}s rows=250", end
    )


@pytest.mark.contract("SLOT-12")
async def test_the_lines_of_a_slots_job_name_the_slot(app: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    async def load() -> None: ...

    await app.schedules.create("loads", "0 0 1 1 *", load)
    slot = await app.schedules.run_now("loads")
    assert slot.job_id is not None
    start, end = await logged(app, caplog, slot.job_id)
    named = f"slot={slot.scheduled_for.isoformat()}"
    assert start == f"job {slot.job_id} started task=load queue=default attempt=1 {named}"
    assert f" task=load queue=default attempt=1 {named} duration=" in end


@pytest.mark.contract("SLOT-12")
async def test_the_error_of_a_run_is_logged(app: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(retry=Ladder(0))
    def load() -> None:
        current_job().rows(3)
        raise ConnectionError("the feed is down")

    receipt = await load.aenqueue()
    lines = await logged(app, caplog, receipt.id)
    ends = [line for line in lines if "started" not in line]
    assert len(lines) == 4
    assert [line.split()[2] for line in ends] == ["retrying", "failed"]
    for attempt, line in enumerate(ends, 1):
        assert f"attempt={attempt} " in line
        assert re.search(r"duration=\d+\.\d{3}s rows=3 error=ConnectionError: the feed is down$", line)


@pytest.mark.contract("SLOT-12")
async def test_rows_and_duration_reach_telemetry(app: Oncue) -> None:
    heard: list[dict[str, float]] = []
    app.internals.telemetry.subscribe(
        lambda event, measurements, metadata: heard.append(dict(measurements)), "job.stop"
    )

    @app.task
    async def load() -> None:
        current_job().rows(42)

    @app.task
    async def silent() -> None: ...

    watcher = Watcher(app)
    async with app.worker():
        await watcher.ended([(await load.aenqueue()).id])
        await watcher.ended([(await silent.aenqueue()).id])
    assert [set(measurements) for measurements in heard] == [{"duration", "rows"}, {"duration"}]
    assert heard[0]["rows"] == 42
