"""Addresses: claims that do not ask whose name it is or who leads, and ends that no epoch guards."""

from __future__ import annotations

from oncue.engine.claimer import Claimer
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

THERE = "a job with an address is claimed only there"


@bug(
    "a claim by a name that another node has",
    seen_in="brokers whose queues are called after a host: two workers that are told the same name share the queue "
    "(celery -n worker1@host twice)",
    run=runs.addressed,
    caught_by=THERE,
)
def name_that_is_only_asked_for(patch: Patch) -> None:
    for statement in ("best", "mine", "few", "alone"):
        patch.sql(statement, "where id = :node and named and lost_at is null", "where id = :node")


@bug(
    "a leader that is not asked whether it leads",
    seen_in="schedulers that check for leadership once, when they start",
    run=runs.addressed,
    caught_by=THERE,
)
def leader_once(patch: Patch) -> None:
    for statement in ("best", "mine", "few", "alone"):
        patch.sql(statement, "and holder = :node and epoch = :epoch and expires_at > :now", "")


@bug(
    "a leader's job that ends without its epoch",
    seen_in="leaders whose last write arrives after their successor's (the reason why leases need fencing tokens)",
    run=runs.addressed,
    caught_by="a job for the leader ends under the epoch of its claim",
)
def no_epoch(patch: Patch) -> None:
    async def claim_jobs(self: Claimer, *wanted: object, **options: object) -> object:
        return await self._store.jobs.claim(*wanted, **options, epoch=self._epoch())  # type: ignore[arg-type]

    patch.replace(Claimer, "_claim_jobs", claim_jobs)


@bug(
    "a job for a node that waits for seats for ever",
    seen_in="oncue itself: a node asked for seats of a limited queue only if a job for any node waited",
    run=runs.addressed_and_limited,
    caught_by="once faults stop, everything ends in time",
)
def no_seats_for_the_addressed(patch: Patch) -> None:
    patch.sql("seating", "j.address in (select value from json_each(:addresses))", "false")
