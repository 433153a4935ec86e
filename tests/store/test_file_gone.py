"""SQLite's file is deleted, moved or replaced under an open store: nothing is acknowledged that would be lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncue import Oncue
from oncue.errors import FileGone, StoreUnavailable
from oncue.model import JobFilter
from oncue.settings import load
from oncue.store import SqliteStore
from oncue.store.sqlite import identity
from oncue.store.sqlite.threads import GROUP
from tests.store.scene import a_batch, put

OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("pragma journal_mode = wal")
connection.execute("create table kept (number)")
connection.execute("insert into kept values (1)")
connection.commit()
print("written", flush=True)
input()
print(connection.execute("select number from kept").fetchall())
connection.close()
"""


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(path))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def delete_all(path: Path) -> None:
    for file in path.parent.glob("oncue.db*"):
        file.unlink()


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def restore_a_backup(path: Path) -> None:
    backup = path.with_name("backup.db")
    source, target = sqlite3.connect(path), sqlite3.connect(backup)
    source.backup(target)
    source.close()
    target.close()
    delete_all(path)
    backup.rename(path)


def switch_the_link(path: Path) -> None:
    other = path.parent / "other"
    other.mkdir()
    sqlite3.connect(other / "oncue.db").close()
    shutil.copy(path, other / "oncue.db")
    link = path.with_name("link")
    link.symlink_to(other / "oncue.db")
    link.rename(path)


def delete_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def delete_beside(end: str) -> Callable[[Path], None]:
    return lambda path: Path(f"{path}{end}").unlink()


@pytest.mark.parametrize(
    "vanish",
    [
        delete_all, os.unlink, move_away, restore_a_backup, switch_the_link, delete_the_folder, delete_beside("-wal"),
        delete_beside("-shm"),
    ],
)  # fmt: skip
async def test_writes_and_reads_are_refused_once_the_path_leads_elsewhere(
    tmp_path: Path, vanish: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "oncue.db"
    async with opened(path) as store:
        await put(store)
        vanish(path)
        with pytest.raises(FileGone, match=r"oncue\.db.* (deleted|replaced).*restart this process"):
            await put(store)
        with pytest.raises(FileGone, match=str(path)):
            await store.jobs.find(JobFilter())
        answers = await asyncio.gather(*(put(store) for _ in range(GROUP)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {FileGone}


async def test_the_store_of_a_deleted_file_makes_no_new_one(tmp_path: Path) -> None:
    path = tmp_path / "oncue.db"
    async with opened(path) as store:
        delete_all(path)
        with pytest.raises(FileGone):
            await put(store)
        with pytest.raises(FileGone):
            async with opened(path):  # as another event loop of the same process would
                pass
    assert not os.listdir(tmp_path)
    async with opened(path) as anew:  # nothing of the old one is open any more
        await put(anew)


def test_the_log_of_another_database_is_left_alone_when_the_store_closes(
    tmp_path: Path, runner: asyncio.Runner
) -> None:
    path = tmp_path / "oncue.db"
    store = SqliteStore(str(path))
    runner.run(store.open())
    runner.run(put(store))
    delete_all(path)
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "written\n"
    runner.run(store.close())
    assert Path(f"{path}-wal").stat().st_size > 0
    assert other.communicate("\n", timeout=60)[0] == "[(1,)]\n"


async def test_a_file_that_is_moved_back_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "oncue.db"
    async with opened(path) as store:
        (before,) = await put(store)
        move_away(path)
        with pytest.raises(FileGone, match="was deleted or moved away"):
            await put(store)
        path.with_name("elsewhere.db").rename(path)
        (after,) = await put(store)
        assert {before, after} <= {job.id for job in await store.jobs.find(JobFilter())}


async def test_no_file_is_made_beside_the_log_of_one_that_was_moved_away(tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    async with opened(tmp_path / "oncue.db") as store:
        (job,) = await put(store)
        for name in ("oncue.db", "oncue.db-wal"):
            shutil.copy(tmp_path / name, moved / name)
    path = moved / "oncue.db"
    move_away(path)
    with pytest.raises(FileGone, match="put the file back; if it was deleted on purpose, delete the log too"):
        async with opened(path):
            pass
    assert not path.exists()
    path.with_name("elsewhere.db").rename(path)
    async with opened(path) as store:
        assert [found.id for found in await store.jobs.find(JobFilter())] == [job]


async def test_a_process_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    async with opened(Path("oncue.db")) as store:
        monkeypatch.chdir(tmp_path / "there")
        await put(store)
        assert len(await store.jobs.find(JobFilter())) == 1


async def test_a_link_is_followed_to_its_file_and_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "oncue.db"
    link.symlink_to(tmp_path / "data" / "real.db")
    async with opened(link) as store:
        await put(store)
        delete_beside("-wal")(tmp_path / "data" / "real.db")
        with pytest.raises(FileGone, match=r"real\.db-wal was deleted"):
            await put(store)


async def test_a_group_costs_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    really = os.stat
    async with opened(tmp_path / "oncue.db") as store:
        held = asyncio.ensure_future(store.database.write(lambda _: None))
        monkeypatch.setattr(os, "stat", lambda path, **options: (looked.append(path), really(path, **options))[1])
        await asyncio.gather(held, *(store.jobs.enqueue([a_batch()]) for _ in range(GROUP * 4)))
        monkeypatch.undo()
    assert len([path for path in looked if str(path).endswith("oncue.db")]) <= 20


async def test_two_threads_may_make_a_new_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, really = str(tmp_path / "oncue.db"), os.stat
    others: list[identity.FileConnection] = []

    def look_while_another_makes_it(asked: str) -> os.stat_result:
        try:
            return really(asked)
        finally:
            if not others:
                monkeypatch.undo()
                others.append(identity.opened(path, 1.0))

    monkeypatch.setattr(os, "stat", look_while_another_makes_it)
    connection = identity.opened(path, 1.0)
    assert connection.files == others[0].files
    connection.close()
    others[0].close()


async def test_an_enqueue_says_so_at_once_and_that_it_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "oncue.db"
    app = Oncue(settings=load({"database_url": f"sqlite:///{path}"}, environment={}, folder=tmp_path))

    @app.task
    async def add(a: int) -> int:
        return a

    try:
        await add.aenqueue(1)
        delete_all(path)
        with pytest.raises(StoreUnavailable, match=r"oncue\.db was deleted.*restart this process"):
            await add.aenqueue(2)
    finally:
        await app.aclose()


async def test_an_enqueue_on_the_callers_connection_to_a_deleted_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "oncue.db"
    app = Oncue(settings=load({"database_url": f"sqlite:///{path}"}, environment={}, folder=tmp_path))

    @app.task
    async def add(a: int) -> int:
        return a

    async with opened(path):
        pass
    connection = sqlite3.connect(path)
    try:
        with connection:
            await add.using(on=connection).aenqueue(1)
        delete_all(path)
        with pytest.raises(FileGone, match="on: the SQLite file"), connection:
            await add.using(on=connection).aenqueue(2)
    finally:
        connection.close()
        await app.aclose()
