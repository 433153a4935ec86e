"""How it is with an endpoint, and the ladder of its attempts, for the pages that show deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from oncue.model import PARKED, WAITING, Attempt, Group, HeldBack, Job, Webhook
from oncue.policy import breaker
from oncue.policy.deliveries import execution_status
from oncue.policy.error_summary import error_summary
from oncue.records.webhooks import delivery_attempt_record
from oncue.server.dashboard.rendering import milliseconds

URL_MARK = "://"
"""What the endpoint of a delivery without a webhook has in its name, and no webhook's name."""


class EndpointState(NamedTuple):
    """Whether deliveries to an endpoint go out."""

    word: str
    kind: str
    """The colour of its badge."""
    trips: int = 0
    until: datetime | None = None
    """When a pause ends, or the next probe goes; None: not by itself, or at once."""

    @property
    def is_open(self) -> bool:
        """Whether its circuit breaker is open."""
        return self.trips > 0

    @property
    def next_cool_down(self) -> float:
        """Seconds for which it stays open if the next probe fails."""
        return breaker.cool_down(self.trips + 1)


def state_of(endpoint: Group | HeldBack, now: datetime, webhook: Webhook | None = None) -> EndpointState:
    """How it is with an endpoint, the gravest first."""
    until = None if endpoint.paused_until is None or endpoint.paused_until <= now else endpoint.paused_until
    ends = None if until == PARKED else until
    if webhook is not None and not webhook.enabled:
        return EndpointState("disabled", "disabled", endpoint.trips, ends)
    if endpoint.trips and until != PARKED:
        return EndpointState("breaker open", "open", endpoint.trips, ends)
    if until is not None:
        return EndpointState("paused", "paused", endpoint.trips, ends)
    return EndpointState("enabled", "enabled")


class Rung(NamedTuple):
    """One attempt of a ladder: one that was made, one that is to come, or one that may come."""

    number: int
    kind: str
    """`planned`, `succeeded`, `failed`, `running`, `next` or `later`: its colour."""
    wait: float | None
    """Seconds after the end of the attempt before."""
    after: float | None
    """Seconds after the first attempt, if none took any time."""
    word: str = ""
    at: datetime | None = None


def ladder(steps: Sequence[float]) -> list[Rung]:
    """When each attempt comes, if all fail at once."""
    after = accumulate(steps, initial=0.0)
    waits = [None, *steps]
    return [Rung(number, "planned", wait, at) for number, (wait, at) in enumerate(zip(waits, after, strict=True), 1)]


def climbed(job: Job, attempts: Sequence[Attempt], steps: Sequence[float]) -> list[Rung]:
    """The attempts of a delivery, and those that may follow."""
    rungs: list[Rung] = []
    ended: datetime | None = None
    for attempt in attempts:
        wait = None if ended is None else max((attempt.started_at - ended).total_seconds(), 0.0)
        kind = "running" if attempt.finished_at is None else "succeeded" if attempt.outcome == "succeeded" else "failed"
        rungs.append(Rung(len(rungs) + 1, kind, wait, None, got(attempt), attempt.started_at))
        ended = attempt.finished_at or attempt.started_at
    if job.finished:
        return rungs
    used = job.retry_count
    if job.state in WAITING and job.visible_at < PARKED:
        rungs.append(Rung(len(rungs) + 1, "next", None, None, "next", job.visible_at))
    for step in steps[used:]:
        rungs.append(Rung(len(rungs) + 1, "later", step, None))
    return rungs


def got(attempt: Attempt) -> str:
    """What an attempt got, in a word."""
    told = attempt.details or {}
    if told.get("status"):
        return str(told["status"])
    if told.get("failed"):
        return str(told["failed"])
    return "under way" if attempt.finished_at is None else attempt.outcome


class AttemptLine(NamedTuple):
    """An attempt, as its delivery's page shows it."""

    number: int
    told: dict[str, Any]
    kind: str
    word: str


def attempt_lines(attempts: Sequence[Attempt]) -> list[AttemptLine]:
    """The latest first."""
    lines = []
    for number, attempt in enumerate(attempts, 1):
        kind = "running" if attempt.finished_at is None else "succeeded" if attempt.outcome == "succeeded" else "failed"
        lines.append(AttemptLine(number, delivery_attempt_record(attempt), kind, got(attempt)))
    return lines[::-1]


class ExecutionLine(NamedTuple):
    """A delivery in a listing."""

    job: Job
    status: str
    kind: str
    endpoint: str
    is_bare: bool
    schedule: str | None
    attempts: int
    next_at: datetime | None
    got: str


def execution_line(job: Job, schedule: str | None = None) -> ExecutionLine:
    status, endpoint = execution_status(job.state), job.group or ""
    is_under_way = job.state == "running" and job.started_at is not None
    return ExecutionLine(
        job, status, kind_of(job), endpoint, URL_MARK in endpoint, schedule, job.attempt + is_under_way,
        job.visible_at if job.state in WAITING and job.visible_at < PARKED else None,
        error_summary(job.error) or job.reason or _answered(job),
    )  # fmt: skip


def _answered(job: Job) -> str:
    """What its latest attempt got."""
    told = job.details or {}
    if not told.get("status"):
        return ""
    return str(told["status"]) + (f" in {milliseconds(told['ms'])}" if told.get("ms") is not None else "")


def kind_of(job: Job) -> str:
    """The colour of a delivery: one that waits for another attempt is told from one that waits for its first."""
    return "succeeded" if job.state == "succeeded" else job.state
