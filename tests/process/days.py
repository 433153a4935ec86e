"""Users of a daily window whose cutoff is a few seconds ahead, and what their handlers have left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from oncue.model import EVERY_DAY, Subject
from tests.process.cluster import Cluster

PROGRAM = "tests.process.window_program:app"
HOUR = 3600.0


def enrol(cluster: Cluster, users: Sequence[str], seconds: float = HOUR, window: str = "digest") -> datetime:
    """Users whose windows are open now, and over after so many seconds: when that is."""
    now = cluster.time()
    cutoff_at = now + timedelta(seconds=seconds)
    found = cluster.ask(lambda store: store.schedules.get(window))
    assert found is not None
    rows = [
        Subject(
            schedule_id=found.id, name=user, due=cutoff_at.hour * 60 + cutoff_at.minute, tz=None, weekdays=EVERY_DAY,
            days_off=(), args="{}", version=0, since=now, day=cutoff_at.date(), opens_at=now, cutoff_at=cutoff_at,
            next_at=now, job_id=None, last_date=None, status=None, reason=None, last_run_at=None, created_at=now,
            updated_at=now, removed_at=None,
        )
        for user in users
    ]  # fmt: skip
    assert all(cluster.ask(lambda store: store.windows.put(rows, now)))
    return cutoff_at


def subjects(cluster: Cluster, window: str = "digest") -> list[Subject]:
    return cluster.app.wait(cluster.app.windows.subjects(window, limit=10_000))


def marks(folder: Path, what: str) -> Counter[str]:
    """How often each user had this happen, over all processes."""
    lines = [line.split() for path in folder.glob("*.days") for line in path.read_text("ascii").splitlines()]
    return Counter(user for told, user, _ in lines if told == what)
