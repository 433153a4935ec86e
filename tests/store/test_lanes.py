"""How work reaches SQLite: together, and yet each on its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

from oncue.errors import StoreError, StoreUnavailable
from oncue.store import sqlite_file
from oncue.store.lanes import InlineLane, Lane, ThreadLane


def connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("create table if not exists note (text text primary key)")
    return connection


@pytest.fixture(params=["thread", "inline"])
def lane(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path):  # type: ignore[no-untyped-def]
    path = tmp_path / "notes.db"
    if request.param == "inline":
        lane: Lane = InlineLane(connected(path))
    else:
        thread = ThreadLane(lambda: connected(path), "test-lane")
        runner.run(thread.open())
        lane = thread
    yield lane
    runner.run(lane.close())


def note(text: str):  # type: ignore[no-untyped-def]
    return lambda connection: connection.execute("insert into note values (?)", (text,)).rowcount


async def notes(lane: Lane) -> list[str]:
    return await lane.read(
        lambda connection: [row[0] for row in connection.execute("select text from note order by 1")]
    )


async def test_one_bad_piece_of_work_does_not_take_the_others_down(lane: Lane) -> None:
    def bad(connection: sqlite3.Connection) -> None:
        connection.execute("insert into note values ('half of it')")
        raise RuntimeError("it broke")

    work = [note("a"), bad, note("b"), note("a"), note("c")]
    results = await asyncio.gather(*(lane.write(piece) for piece in work), return_exceptions=True)
    assert results[0] == results[2] == results[4] == 1
    assert isinstance(results[1], RuntimeError)
    assert isinstance(results[3], StoreError)
    assert await notes(lane) == ["a", "b", "c"]


async def test_what_waits_is_committed_together(tmp_path: Path) -> None:
    commits = 0

    def watched() -> sqlite3.Connection:
        connection = connected(tmp_path / "notes.db")

        def count(statement: str) -> None:
            nonlocal commits
            commits += statement.lower() == "commit"

        connection.set_trace_callback(count)
        return connection

    lane = ThreadLane(watched, "test-lane")
    await lane.open()
    try:
        await asyncio.gather(*(lane.write(note(str(number))) for number in range(200)))
        assert len(await notes(lane)) == 200
    finally:
        await lane.close()
    assert commits <= 20


async def test_a_write_goes_on_when_the_one_who_asked_gives_up(tmp_path: Path) -> None:
    lane = ThreadLane(lambda: connected(tmp_path / "notes.db"), "test-lane")
    await lane.open()
    try:
        asked = asyncio.ensure_future(lane.write(note("a")))
        await asyncio.sleep(0)
        asked.cancel()
        await lane.write(note("b"))
        assert await notes(lane) == ["a", "b"]
    finally:
        await lane.close()


async def test_a_closed_lane_says_so(tmp_path: Path) -> None:
    lane = ThreadLane(lambda: connected(tmp_path / "notes.db"), "test-lane")
    await lane.open()
    await lane.close()
    await lane.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await notes(lane)


async def test_a_lane_finishes_what_it_was_asked_before_it_closes(tmp_path: Path) -> None:
    lane = ThreadLane(lambda: connected(tmp_path / "notes.db"), "test-lane")
    await lane.open()
    asked = [asyncio.ensure_future(lane.write(note(str(number)))) for number in range(100)]
    await asyncio.sleep(0)
    await lane.close()
    assert await asyncio.gather(*asked) == [1] * 100


def test_a_database_in_memory_ends_with_its_lane() -> None:
    connection = sqlite3.connect(":memory:")
    lane = InlineLane(connection)
    del lane
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")


def test_a_file_that_cannot_be_used_is_not_held_open(tmp_path: Path) -> None:
    path = tmp_path / "poem.db"
    path.write_text("no database, but long enough to be taken for one at first" * 100)
    with pytest.raises(sqlite3.DatabaseError) as refused:
        sqlite_file.connect(str(path), 1.0, checkpoints=True, hurried=False)
    steps = (step.tb_frame.f_locals for step in traceback_of(refused.value))
    (connection,) = {local["connection"] for local in steps if "connection" in local}
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")


def traceback_of(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next
