"""Groups and rates: claims that do not count, wake-ups that are not written, and rows that go too early or stay."""

from __future__ import annotations

import sqlite3
from typing import Any

from oncue.engine.claimer import Claimer
from oncue.model import Batch
from oncue.store.sqlite import groups as sqlite_groups
from oncue.store.sqlite.jobs import SqliteJobs
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

LEFT_BEHIND = ("no job is claimed late", "once faults stop, everything ends in time")
OWN = "oncue, until its simulator had groups: "


@bug(
    "a claim that does not count what runs",
    seen_in="queues that check a concurrency key when a job is enqueued, and not when it is claimed",
    run=runs.grouped,
    caught_by="a group keeps its limit",
)
def uncounted(patch: Patch) -> None:
    patch.sql("groups_in_turn", "where j.state = 'running' and", "where false and j.state = 'running' and")


@bug(
    "a rate that begins anew with each claim",
    seen_in="limiters that keep the time of the last start in the process that claimed: every node has the whole rate",
    run=runs.grouped,
    caught_by="a group keeps its rate",
)
def rate_begins_anew(patch: Patch) -> None:
    patch.sql("keep_groups", "rate_at = g.value ->> 3", "rate_at = null")


@bug(
    "a rate of a queue that is read and not used up",
    seen_in="limiters that ask whether there is a token and take it later: two that ask at once both have it",
    run=runs.grouped,
    caught_by="a queue keeps its rate",
)
def rate_not_used(patch: Patch) -> None:
    patch.sql("use_rate", "where name = :queue", "where name = :queue and rate_at is null")


@bug(
    "turns that are given back after their time",
    seen_in=OWN + "while the turns were on their way back others had been taken, and then there was one too many",
    run=runs.rated,
    caught_by="a queue keeps its rate",
    seeds=120,
)
def turns_given_back_late(patch: Patch) -> None:
    patch.sql("return_turns", "and rate_at <= :next_at", "and rate_at <= 9e18 + :next_at")


@bug(
    "turns that are kept though there was no job",
    seen_in="limiters in which a token is spent by every look at the queue, whether it finds something or not",
    run=runs.grouped,
    caught_by="turns without a job are given back",
)
def turns_kept(patch: Patch) -> None:
    async def kept(self: Claimer, *_: object) -> None: ...

    patch.replace(Claimer, "_return_turns", kept)


@bug(
    "a job that wakes its group though that is paused",
    seen_in="queues in which a pause stops the poller, and each new job starts it again",
    run=runs.grouped,
    caught_by="a paused group hands out nothing",
)
def woken_in_a_pause(patch: Patch) -> None:
    patch.sql("wake_groups", ", coalesce(paused_until, :now)", "")


@bug(
    "a success that leaves no wake-up",
    seen_in="queues with concurrency keys whose next job waits until some other job is enqueued",
    run=runs.grouped,
    caught_by=LEFT_BEHIND,
)
def no_wake_up_by_a_success(patch: Patch) -> None:
    patch.sql("wake_plain", "and group_name is not null", "and false")


@bug(
    "a group that keeps the places of a dead worker's jobs",
    seen_in="queues that count running jobs in a semaphore, which a worker that dies never gives back",
    run=runs.grouped,
    caught_by=LEFT_BEHIND,
)
def no_wake_up_by_a_rescue(patch: Patch) -> None:
    patch.sql("wake_changed", "where j.group_name is not null", "where j.group_name is not null and c.error is null")


@bug(
    "a job that falls due and does not wake its group",
    seen_in="queues in which a retry goes back to the table, and what looks for work is told of new jobs only",
    run=runs.grouped,
    caught_by=LEFT_BEHIND,
)
def no_wake_up_when_due(patch: Patch) -> None:
    patch.sql("wake_due", "where group_name is not null", "where false")


@bug(
    "an enqueue that is asked for again and does not wake its group",
    seen_in="clients that write again after a lost reply, and tell the workers only the first time",
    run=runs.grouped_clients,
    caught_by=LEFT_BEHIND,
    seeds=200,
)
def no_wake_up_by_a_second_enqueue(patch: Patch) -> None:
    def enqueued(self: SqliteJobs, connection: sqlite3.Connection, batch: Batch, in_doubt: bool) -> Any:
        receipts = real(self, connection, batch, in_doubt)
        if in_doubt:
            connection.execute("delete from oncue_group_wakeups where has_job and name = ?", (batch.group,))
        return receipts

    real = patch.replace(SqliteJobs, "_enqueued", enqueued)


@bug(
    "a group that is forgotten while something waits in it",
    seen_in="queues that drop an idle tenant's row by a count that was read before the last job came",
    run=runs.grouped,
    caught_by=LEFT_BEHIND,
)
def forgotten_too_early(patch: Patch) -> None:
    patch.sql("more_in_groups", "where j.state = 'queued' and", "where false and j.state = 'queued' and")


@bug(
    "groups that are never forgotten",
    seen_in=OWN + "the rows of a queue with a rate stayed, and every look of every worker went through them",
    run=runs.rated,
    caught_by="of an idle group only its settings stay",
)
def never_forgotten(patch: Patch) -> None:
    patch.sql("forget_groups", "where (queue, name) in", "where false and (queue, name) in")
    patch.sql("keep_groups", "and not (g.value ->> 4)", "")


@bug(
    "settings that go with their idle group",
    seen_in="caches of limits whose entries expire: the tenant's own limit is gone when it comes back",
    run=runs.grouped,
    caught_by="of an idle group only its settings stay",
)
def settings_forgotten(patch: Patch) -> None:
    patch.sql("groups_in_turn", "g.running_limit is not null or g.rate_count is not null or", "")


@bug(
    "a group that is first by its name, and so every time",
    seen_in=OWN + "where a queue had room for one job, all its groups were put at the end of the line together",
    run=runs.grouped,
    caught_by="the groups of a queue take turns",
)
def by_name(patch: Patch) -> None:
    patch.replace(sqlite_groups, "_first_of_each_queue", lambda turns, rooms: turns)


@bug(
    "a group that hands out its jobs as they came",
    seen_in="queues with a list for each tenant: a list knows no priority",
    run=runs.grouped,
    caught_by="the best job is claimed first",
)
def by_age_alone(patch: Patch) -> None:
    patch.sql("best_of_groups", "order by j.priority desc, j.order_at, j.id", "order by j.id")
