"""A node's own store: what a compaction keeps and drops, and that it may be interrupted and repeated anywhere."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from cluster_maintenance import compaction
from cluster_maintenance.compaction import compact
from cluster_maintenance.store import LocalStore, opened

COUNT = 5000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with opened(tmp_path) as store:
        store.write(COUNT, Random(1))
        yield store


class Interrupted(Exception):
    """Nobody catches it: the compaction ends there."""


def living(store: LocalStore) -> dict[str, str]:
    """What readers see: the last version of each key that is not deleted."""
    rows = store.connection.execute("select key, value from versions order by seq").fetchall()
    return {key: value for key, value in dict(rows).items() if value is not None}


def ignore(fraction: float, note: str) -> None:
    assert 0 <= fraction <= 1
    assert note


def test_a_compaction_drops_what_is_overwritten_and_writes_what_lives(store: LocalStore) -> None:
    before, size = living(store), store.size()
    report = compact(store, ignore)
    assert report is not None
    assert living(store) == before
    assert (report.keys, report.dropped, report.resumed) == (len(before), size.garbage, False)
    assert (store.size().versions, store.size().garbage) == (len(before), 0)
    assert report.bytes_after < report.bytes_before
    content = (store.folder / report.segment).read_bytes()
    assert hashlib.sha256(content).hexdigest() == report.checksum
    rows = [json.loads(line) for line in content.splitlines()]
    assert {key: value for key, _, value in rows} == before
    assert [path.name for path in store.folder.glob("segment-*")] == [report.segment]


def test_a_store_without_garbage_has_nothing_to_compact(store: LocalStore) -> None:
    assert compact(store, ignore) is not None
    assert compact(store, ignore) is None


@pytest.mark.parametrize("after", [1, 3, 7])
def test_an_interrupted_compaction_goes_on_where_it_stopped(store: LocalStore, after: int) -> None:
    before, steps = living(store), iter(range(100))

    def stop(fraction: float, note: str) -> None:
        if next(steps) == after:
            raise Interrupted

    with pytest.raises(Interrupted):
        compact(store, stop)
    assert living(store) == before
    store.write(100, Random(2))
    before = living(store)
    told: list[str] = []
    report = compact(store, lambda fraction, note: told.append(note))
    assert report is not None
    assert report.resumed
    assert living(store) == before
    again = compact(store, ignore)
    assert again is not None, "what was written meanwhile is for the next round"
    assert (again.segment > report.segment, store.size().garbage) == (True, 0)


def test_what_is_written_during_a_compaction_stays(store: LocalStore) -> None:
    expected: dict[str, str] = {}

    def write(fraction: float, note: str) -> None:
        store.write(50, Random(fraction))
        expected.clear()
        expected.update(living(store))

    assert compact(store, write) is not None
    assert living(store) == expected


def test_a_file_that_another_process_has_locked_is_busy(store: LocalStore) -> None:
    store.connection.execute("pragma busy_timeout = 1")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(sqlite3.OperationalError) as refused:
        compact(store, ignore)
    other.close()
    assert compaction.is_busy(refused.value)
    with pytest.raises(sqlite3.OperationalError) as wrong:
        store.connection.execute("select nonsense")
    assert not compaction.is_busy(wrong.value)
    assert compact(store, ignore) is not None
