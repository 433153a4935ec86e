"""What the database of a simulated cluster holds in the end."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.model import TERMINAL, Job, JobFilter, Schedule
from oncue.policy.windows import is_window
from oncue.sim.checker import Books, Final, WindowBooks
from oncue.sim.driver import finish
from oncue.sim.watched import WatchedStore
from oncue.store.contract import Store

EVERYTHING = 1_000_000
YEAR = timedelta(days=365)


def jobs(store: Store) -> list[Job]:
    return finish(store.jobs.find(JobFilter(limit=EVERYTHING)))


def books(store: Store, name: str, now: datetime) -> Books:
    """A schedule with its revisions and its whole ledger."""
    schedule = finish(store.schedules.get(name))
    assert schedule is not None
    start, end = schedule.created_at - YEAR, now + YEAR
    return Books(
        schedule,
        finish(store.schedules.revisions(schedule.id)),
        finish(store.slots.between(schedule.id, start, end, EVERYTHING)),
        finish(store.slots.doubled(schedule.id, start, end)),
    )


def window_books(store: WatchedStore, window: Schedule, now: datetime) -> WindowBooks:
    """A daily window with its whole ledger."""
    start, end = window.created_at - YEAR, now + YEAR
    ledger = {
        name: finish(store.windows.ledger(window.id, name, start, end, EVERYTHING))
        for name in finish(store.all_subjects(window.id))
    }
    return WindowBooks(window, ledger, finish(store.all_tallies(window.id)))


def final(store: WatchedStore, now: datetime) -> Final:
    """All that the checker compares a history with."""
    totals: dict[str, int] = dict.fromkeys(TERMINAL, 0)
    for queue in finish(store.queues.all()):
        for state in TERMINAL:
            totals[state] += getattr(queue, state)
    schedules = [finish(store.schedules.get(name)) for name in finish(store.all_names())]
    every = [books(store, one.name, now) for one in schedules if one is not None and not is_window(one.expression)]
    windows = tuple(window_books(store, one, now) for one in schedules if one is not None and is_window(one.expression))
    record, details = finish(store.whole_record()), finish(store.all_details())
    groups, wakeups = finish(store.all_groups()), finish(store.unread_wakeups())
    clusters = tuple(finish(store.all_cluster_jobs(now)))
    return Final(tuple(jobs(store)), totals, tuple(every), now, record, details, groups, wakeups, windows, clusters)


def waiting(store: Store, since: datetime) -> list[str]:
    """The schedules of which a slot has waited for its decision since then."""
    return [
        schedule.name
        for schedule in finish(store.schedules.page(limit=EVERYTHING))
        if schedule.next_run_at is not None and schedule.next_run_at < since
    ]
