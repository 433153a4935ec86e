"""Changes that depend on an instant or on an epoch, details that are forgotten, and jobs that follow."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from oncue.engine import settler
from oncue.engine.settler import Settler
from oncue.model import Applied, Change
from oncue.policy import lifecycle
from oncue.policy.lifecycle import Ended
from oncue.sim.executor import ScriptedExecutor
from oncue.store import shared
from oncue.store.shared import Endings
from oncue.store.sqlite.jobs import SqliteJobs
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug


@bug(
    "a success that counts by the time at which it was noted",
    seen_in="batch windows whose jobs stamp their own success: one that waits for the database is written in the name "
    "of an hour that is over",
    run=runs.cutoffs,
    caught_by="a success counts only before its instant",
)
def stamped_early(patch: Patch) -> None:
    """The change is sent again and again with the time of the first try."""

    def by_its_end(changes: Any, latest: datetime) -> Endings:
        made = Endings([], [])
        for change in changes:
            one = endings([change], change.ended_at or latest)
            made.places.extend([len(made.places) and made.places[-1] + 1] * len(one.rows))
            made.rows.extend(one.rows)
        return made

    endings = patch.replace(shared, "endings", by_its_end)
    patch.replace(__import__("oncue.store.sqlite.jobs", fromlist=["endings"]), "endings", by_its_end)


@bug(
    "an instant that is compared with the lower bound of the time",
    seen_in="leases and cutoffs that are compared with the time of the last answer: it is as old as its trip",
    run=runs.cutoffs,
    caught_by="a success counts only before its instant",
    seeds=120,
)
def lower_bound(patch: Patch) -> None:
    async def hasty(*args: Any, **options: Any) -> Any:
        options.pop("latest")
        return await real(*args, **options)

    real = patch.replace(settler, "apply_past_refusals", hasty)


@bug(
    "a deposed leader whose work counts",
    seen_in="locks without a fencing token: the holder stands still, its lease ends, and it writes all the same "
    "(Kleppmann, How to do distributed locking)",
    run=runs.deposed,
    caught_by="under an old epoch nothing is written but a release",
)
def unfenced_leader(patch: Patch) -> None:
    patch.sql(
        "drop_unled_changes",
        "leads <> exists (select 1 from oncue_leases where name = 'leader' and holder = c.leader and epoch = c.epoch)",
        "leads = 0",
    )


@bug(
    "a release under an old epoch that is charged",
    seen_in="queues that count every return of a job as an attempt: a change of leader uses up the retries of the jobs "
    "that it interrupts",
    run=runs.deposed,
    caught_by="retries keep to their policy",
)
def charged_release(patch: Patch) -> None:
    def charged(change: Change, ended: Ended, *rest: Any) -> Change:
        made: Change = real(change, ended, *rest)
        if made.released is None:
            return made
        return made._replace(released=made.released._replace(retry_count=made.released.retry_count + 1))

    real = patch.replace(lifecycle, "_on_terms", charged)


@bug(
    "jobs that are enqueued once the reply has come",
    seen_in="Celery: the next task of a chain is sent after the first has been marked as done, and is lost if the "
    "worker dies in between",
    run=runs.chains,
    caught_by="jobs follow exactly from the ending that brings them",
)
def followed_later(patch: Patch) -> None:
    def without(self: SqliteJobs, connection: Any, made: Endings, now: datetime) -> set[int]:
        bare = Endings([row._replace(follow_ups=()) for row in made.rows], made.places)
        took: set[int] = write(self, connection, bare, now)
        return took

    async def forget(self: Settler, batch: list[Ended], changes: list[Change], took: list[Applied]) -> None:
        written = [change.as_written(answer) for change, answer in zip(changes, took, strict=True) if answer]
        batches = [one for change in written for one in change.follow_ups]
        if batches:
            await self._store.jobs.enqueue(batches)
        await real(self, batch, changes, took)

    write = patch.replace(SqliteJobs, "write_changes", without)
    real = patch.replace(Settler, "_forget", forget)


@bug(
    "jobs that are enqueued before the change is written",
    seen_in="Sidekiq: a job that enqueues the next one and is then interrupted runs again, and enqueues it once more",
    run=runs.chains,
    caught_by="jobs follow exactly from the ending that brings them",
)
def followed_before(patch: Patch) -> None:
    async def early(self: Settler, batch: list[Ended], now: datetime, **options: bool) -> list[Ended]:
        following = [one for ended in batch if ended.terms for one in ended.terms.follow_ups]
        if following:
            await self._store.jobs.enqueue(following, in_doubt=True)
        locked: list[Ended] = await settle(self, batch, now, **options)
        return locked

    def bare(self: SqliteJobs, connection: Any, made: Endings, now: datetime) -> set[int]:
        took: set[int] = write(
            self, connection, Endings([row._replace(follow_ups=()) for row in made.rows], made.places), now
        )
        return took

    settle = patch.replace(Settler, "_settle", early)
    write = patch.replace(SqliteJobs, "write_changes", bare)


@bug(
    "details that a rescue forgets",
    seen_in="systems that write what a task told only with its result: of an attempt whose worker died nothing is left "
    "but that it died",
    run=runs.talkative,
    caught_by="an attempt keeps the details that were told",
)
def forgotten_by_the_rescue(patch: Patch) -> None:
    patch.sql("apply", "details = coalesce(c.details, oncue_jobs.details)", "details = c.details")
    patch.sql("history", "coalesce(c.details, j.details)", "c.details")


@bug(
    "details that only a success keeps",
    seen_in="result back ends: what an attempt learned is stored with its result, and a failed one has none",
    run=runs.talkative,
    caught_by="an attempt keeps the details that were told",
)
def only_of_successes(patch: Patch) -> None:
    def again(ended: Ended, *rest: Any, **more: Any) -> Change:
        made: Change = real(ended, *rest, **more)
        return made._replace(details=None)

    real = patch.replace(lifecycle, "_again", again)


@bug(
    "details of the attempt before",
    seen_in="rows that are updated field by field: a retry that says nothing shows the status code of the last try",
    run=runs.talkative,
    caught_by="an attempt keeps the details that were told",
)
def of_the_attempt_before(patch: Patch) -> None:
    """The claim does not clear them. Later attempts tell nothing here."""
    patch.sql("take", "error = null,\n       details = null", "error = null")

    def silent(self: ScriptedExecutor, attempt: Any, **details: Any) -> None:
        if attempt.claim.attempt:
            attempt.act = dataclasses.replace(attempt.act, details=False)
        say(self, attempt, **details)

    say = patch.replace(ScriptedExecutor, "_say", silent)
