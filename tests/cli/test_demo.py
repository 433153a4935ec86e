"""The demo holds what it says, and its account notices when the engine does not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest

from oncue import Oncue
from oncue.cli.demo.facts import Facts
from oncue.cli.demo.screen import sparkline
from oncue.cli.demo.story import Story
from oncue.cli.demo.workers import Workers
from oncue.model import Change
from oncue.server import address
from oncue.store import SqliteStore
from tests.cli.conftest import OURS, Shell, Start
from tests.store.scene import NOW, change, enter, put, take


def test_it_ends_well_and_leaves_nothing_behind(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "oncue", "demo", "--for", "5s"],
        cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": OURS, "ONCUE_ENV": "production"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    said = finished.stdout
    assert "worker-2 is killed (SIGKILL)" in said
    assert re.search(r"lost +0 ", said)
    assert re.search(r"settled twice +0 ", said)
    assert re.search(r"slots +[1-9]\d* +of a schedule for every second: .*fired", said)
    assert re.search(r"slots unaccounted +0 ", said)
    enqueued, done = (re.search(rf"{word} +([\d,]+) ", said) for word in ("enqueued", "done"))
    assert enqueued is not None
    assert done is not None
    assert enqueued[1] == done[1]
    assert list(tmp_path.iterdir()) == []


def test_its_dashboard_tells_the_story(start: Start, tmp_path: Path) -> None:
    """The usual port is taken: another one is chosen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    taken = address.parse(address.DEFAULT)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(address.CannotListen):  # another program has it: as good
            stack.enter_context(address.listen(taken))
        demo = start("nonsense", "demo", "--for", "6s", TMPDIR=str(folder))
        demo.says("until the demo ends")
        url = re.search(r"http://127\.0\.0\.1:\d+", demo.said)
        assert url is not None
        assert not url[0].endswith(f":{taken.port}")
        demo.says("is killed")
        page = httpx.get(url[0]).text
        assert "worker-2 is killed (SIGKILL)" in page
        assert re.search(r"Settled twice</span><b>0</b>", page)
        assert re.search(r"Lost</span><b>0</b>", page)
        assert demo.ends() == 0


def test_it_can_be_interrupted(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    demo = start("nonsense", "demo", TMPDIR=str(folder))
    demo.says("3 workers are alive")
    demo.process.send_signal(signal.SIGINT)
    assert demo.ends() == 130
    assert list(folder.iterdir()) == []


def test_bad_durations_are_refused(oncue: Shell) -> None:
    answer = oncue("demo", "--for", "ever")
    assert answer.code == 2
    assert "--for: expected a duration" in answer.err


# --- the account ----------------------------------------------------------------------------------------------------


@pytest.fixture
def facts(sqlite_store: SqliteStore) -> Iterator[Facts]:
    facts = Facts(Path(sqlite_store.path))
    facts.place_witness()
    yield facts
    facts.close()


async def test_a_good_end(sqlite_store: SqliteStore, facts: Facts) -> None:
    ids = await put(sqlite_store, 3)
    await run_all(sqlite_store)
    account = facts.account(ids)
    assert (account.enqueued, account.done, account.lost, account.settled_twice) == (3, 3, [], [])
    assert account.holds


async def test_an_unfinished_or_missing_job_is_lost(sqlite_store: SqliteStore, facts: Facts) -> None:
    ids = await put(sqlite_store, 2)
    await run_all(sqlite_store)
    unfinished = await put(sqlite_store)
    account = facts.account([*ids, *unfinished, 999])
    assert account.lost == [*unfinished, 999]
    assert not account.holds


async def test_a_job_that_is_settled_twice_is_noticed(sqlite_store: SqliteStore, facts: Facts) -> None:
    """Take the fence out of the store: a late outcome is then written over a final one, and the witness sees it."""
    (job_id,) = await put(sqlite_store)
    changes = await run_all(sqlite_store)
    assert await sqlite_store.jobs.apply(changes, NOW) == [False]
    assert facts.account([job_id]).holds
    sqlite_store.database.sql = {**sqlite_store.database.sql, "drop_stale_changes": "select 1"}
    assert await sqlite_store.jobs.apply(changes, NOW) == [True]
    account = facts.account([job_id])
    assert account.settled_twice == [job_id]
    assert not account.holds


async def run_all(store: SqliteStore) -> list[Change]:
    changes = [change(claim) for claim in await take(store, await enter(store))]
    assert all(await store.jobs.apply(changes, NOW))
    return changes


async def test_what_was_acknowledged_since_the_last_look_is_not_lost(facts: Facts, tmp_path: Path) -> None:
    """The page reads the story between two looks at the database."""
    story = Story(Oncue(), cast(Workers, None), facts, "20s", tmp_path)
    story.acknowledged += [1, 2, 3]
    assert story.lost == 0


def test_sparkline() -> None:
    assert sparkline([0, 4, 8], 5) == "   ▄█"
    assert sparkline([], 3) == "   "
