"""How work reaches SQLite: together, and yet each on its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

from oncue.errors import StoreError, StoreUnavailable
from oncue.store.sqlite import file
from oncue.store.sqlite.threads import Access, ConnectionThread, InlineConnection


def connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("create table if not exists note (text text primary key)")
    return connection


@pytest.fixture(params=["thread", "inline"])
def access(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path):  # type: ignore[no-untyped-def]
    path = tmp_path / "notes.db"
    if request.param == "inline":
        access: Access = InlineConnection(connected(path))
    else:
        thread = ConnectionThread(lambda: connected(path), "test-thread")
        runner.run(thread.open())
        access = thread
    yield access
    runner.run(access.close())


def note(text: str):  # type: ignore[no-untyped-def]
    return lambda connection: connection.execute("insert into note values (?)", (text,)).rowcount


async def notes(access: Access) -> list[str]:
    return await access.read(
        lambda connection: [row[0] for row in connection.execute("select text from note order by 1")]
    )


async def test_one_bad_piece_of_work_does_not_take_the_others_down(access: Access) -> None:
    def bad(connection: sqlite3.Connection) -> None:
        connection.execute("insert into note values ('half of it')")
        raise RuntimeError("it broke")

    work = [note("a"), bad, note("b"), note("a"), note("c")]
    results = await asyncio.gather(*(access.write(piece) for piece in work), return_exceptions=True)
    assert results[0] == results[2] == results[4] == 1
    assert isinstance(results[1], RuntimeError)
    assert isinstance(results[3], StoreError)
    assert await notes(access) == ["a", "b", "c"]


async def test_what_waits_is_committed_together(tmp_path: Path) -> None:
    commits = 0

    def watched() -> sqlite3.Connection:
        connection = connected(tmp_path / "notes.db")

        def count(statement: str) -> None:
            nonlocal commits
            commits += statement.lower() == "commit"

        connection.set_trace_callback(count)
        return connection

    access = ConnectionThread(watched, "test-thread")
    await access.open()
    try:
        await asyncio.gather(*(access.write(note(str(number))) for number in range(200)))
        assert len(await notes(access)) == 200
    finally:
        await access.close()
    assert commits <= 20


async def test_a_write_goes_on_when_the_one_who_asked_gives_up(tmp_path: Path) -> None:
    access = ConnectionThread(lambda: connected(tmp_path / "notes.db"), "test-thread")
    await access.open()
    try:
        asked = asyncio.ensure_future(access.write(note("a")))
        await asyncio.sleep(0)
        asked.cancel()
        await access.write(note("b"))
        assert await notes(access) == ["a", "b"]
    finally:
        await access.close()


async def test_a_closed_thread_says_so(tmp_path: Path) -> None:
    access = ConnectionThread(lambda: connected(tmp_path / "notes.db"), "test-thread")
    await access.open()
    await access.close()
    await access.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await notes(access)


async def test_a_thread_finishes_what_it_was_asked_before_it_closes(tmp_path: Path) -> None:
    access = ConnectionThread(lambda: connected(tmp_path / "notes.db"), "test-thread")
    await access.open()
    asked = [asyncio.ensure_future(access.write(note(str(number)))) for number in range(100)]
    await asyncio.sleep(0)
    await access.close()
    assert await asyncio.gather(*asked) == [1] * 100


def test_a_database_in_memory_ends_with_its_connection() -> None:
    connection = sqlite3.connect(":memory:")
    access = InlineConnection(connection)
    del access
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")


def test_a_file_that_cannot_be_used_is_not_held_open(tmp_path: Path) -> None:
    path = tmp_path / "poem.db"
    path.write_text("no database, but long enough to be taken for one at first" * 100)
    with pytest.raises(sqlite3.DatabaseError) as refused:
        file.connect(str(path), 1.0, checkpoints=True, hurried=False)
    steps = (step.tb_frame.f_locals for step in traceback_of(refused.value))
    (connection,) = {local["connection"] for local in steps if "connection" in local}
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")


def traceback_of(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next
