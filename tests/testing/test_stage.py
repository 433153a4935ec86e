"""What the kit does to an application, and what it leaves alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue, Task
from oncue.clock import wall
from oncue.testing import Kit, use


@pytest.fixture
def work(app: Oncue) -> Task[[int], int]:
    @app.task
    def work(n: int) -> int:
        return n

    return work


def test_the_applications_own_database_is_untouched(tmp_path: Path) -> None:
    app = Oncue(f"sqlite:///{tmp_path / 'real.db'}")

    @app.task
    def work() -> None: ...

    with use(app) as kit:
        work.enqueue()
        kit.drain()
    assert list(tmp_path.iterdir()) == []
    work.enqueue()
    assert [job.id for job in app.wait(app.jobs.list())] == [1], "afterwards it is back in its place"
    app.close()


@pytest.mark.parametrize("now", [datetime(2030, 1, 1), "2030-01-01"])
def test_a_clock_without_a_time_zone_is_refused(app: Oncue, now: Any) -> None:
    with pytest.raises(ValueError, match=r"^now: expected a datetime with a time zone, not "), use(app, now=now):
        pass


def test_every_kit_begins_empty(app: Oncue, work: Task[[int], int]) -> None:
    for _ in range(2):
        with use(app) as kit:
            assert work.enqueue(1).id == 1
            assert len(kit.jobs()) == 1


def test_a_kit_inside_a_kit_hides_it(app: Oncue, kit: Kit, work: Task[[int], int]) -> None:
    work.enqueue(1)
    with use(app) as inner:
        assert inner.jobs() == []
    assert len(kit.jobs()) == 1


def test_no_thread_is_started(app: Oncue, kit: Kit, work: Task[[int], int]) -> None:
    before = threading.enumerate()
    work.enqueue(1)
    kit.drain()
    kit.perform(work, 2)
    assert threading.enumerate() == before


def test_enqueue_refuses_to_block_a_loop_as_in_production(
    kit: Kit, work: Task[[int], int], runner: asyncio.Runner
) -> None:
    async def inside() -> None:
        work.enqueue(1)

    with pytest.raises(RuntimeError, match="aenqueue"):
        runner.run(inside())


def test_all_loops_see_the_same_jobs(kit: Kit, work: Task[[int], int]) -> None:
    asyncio.run(work.aenqueue(1))
    asyncio.run(work.aenqueue(2))
    work.enqueue(3)
    assert len(kit.jobs()) == 3


def test_threads_of_the_code_under_test_take_turns(kit: Kit, work: Task[[int], int]) -> None:
    with ThreadPoolExecutor(8) as threads:
        receipts = list(threads.map(work.enqueue, range(200)))
    assert len({receipt.id for receipt in receipts}) == 200
    assert kit.drain() == {"succeeded": 200}


def test_closing_the_application_does_not_end_the_test(app: Oncue, kit: Kit, work: Task[[int], int]) -> None:
    work.enqueue(1)
    app.close()
    asyncio.run(app.aclose())
    assert kit.drain() == {"succeeded": 1}


async def test_a_worker_in_the_start_up_code_does_nothing(app: Oncue, kit: Kit, work: Task[[int], int]) -> None:
    async with app.worker() as node:
        assert "work" in node.node.tasks
        await work.aenqueue(1)
        assert await kit.adrain() == {"succeeded": 1}


def test_only_oncues_own_verbs_can_be_waited_for(app: Oncue, kit: Kit) -> None:
    with pytest.raises(RuntimeError, match="oncue's own verbs only"):
        app.wait(_future())


class _future:
    """Something that would wait for ever."""

    def __await__(self):  # type: ignore[no-untyped-def]
        yield object()


def test_the_clock_begins_at_the_present_and_stands_still(app: Oncue) -> None:
    before = wall()
    with use(app) as kit:
        assert before <= kit.clock.now() <= wall()
        assert kit.clock.now() == kit.clock.now()


def test_the_clock_moves_by_any_duration_and_never_back(app: Oncue) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    with use(app, now=start) as kit:
        kit.clock.advance("1h30m")
        kit.clock.advance(30)
        kit.clock.advance(timedelta(days=1))
        assert kit.clock.now() == start + timedelta(days=1, hours=1, minutes=30, seconds=30)
        kit.clock.advance_to(start + timedelta(days=2))
        assert kit.clock.now() == start + timedelta(days=2)
        with pytest.raises(ValueError, match="backwards"):
            kit.clock.advance_to(start)
        with pytest.raises(ValueError, match="by: expected a duration"):
            kit.clock.advance("soon")


def test_a_hundred_years_later_jobs_still_run(kit: Kit, work: Task[[int], int]) -> None:
    work.enqueue(1)
    kit.clock.advance(timedelta(days=36500))
    assert kit.drain() == {"succeeded": 1}


def test_a_ping_finds_no_worker_and_takes_no_real_time(kit: Kit, app: Oncue) -> None:
    before = kit.clock.now()
    told = app.wait(app.nodes.ping("mail", timeout="10m"))
    assert (told.job.state, told.node) == ("queued", None)
    assert timedelta(minutes=10) <= kit.clock.now() - before < timedelta(minutes=11)
    assert asyncio.run(app.nodes.ping()).node is None
    assert [job.state for job in kit.jobs()] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("module", ["oncue", "oncue.testing", "oncue.testing.plugin"])
def test_importing_the_plugin_costs_next_to_nothing(module: str) -> None:
    """pytest imports it in every run of every project that has oncue installed."""
    heavy = "{'asyncio', 'asyncpg', 'fastapi', 'oncue.app', 'pydantic', 'sqlite3'}"
    code = f"import sys, pytest; before = set(sys.modules); import {module}; print({heavy} & set(sys.modules) - before)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
