"""What happened, as plain values: the simulator and real processes write it, the checker reads it.

An event says when (microseconds since 1970, by the database's clock), where (a node's label) and what.

A call that changes something is an operation in the manner of Jepsen. It is invoked; it has effects, in the instant of
the database's commit; and its caller gets an answer: `ok`, `fail` (it certainly did not happen) or `unknown`. All of
these carry its number, `op`. One without an answer is as good as unknown: its caller died, or still waits. A call that
decided nothing, such as a poll of an empty queue, leaves no trace. The kinds, and their fields:

    enqueue.invoke, .fail, .unknown   op, ids: the numbers that the jobs were to have
    enqueue.ok                        op, ids, standing, created: one of each per job
    claim.invoke, .ok, .fail, .unknown, and the same for apply, decide, revise, rerun, request_cancel, prioritize,
    pause, resume, set_limits, default_limits, set, trip, write, re_emit, put, advance, create, spread and release
                                      op
    job                               id, task, queue, group, address, key, options, max_retries, args, state, priority,
                                      order_at, visible_at, deadline_at, of a slot's job start_by: a written row, of
                                      its arguments a checksum; parked: it may be due at any time; schedule, retry_of:
                                      it runs another job's slot again
    claim                             id, claim_no, crashes, retry_count, attempt, cancel_requested, claimed_at
    start                             id, claim_no, crashes
    outcome                           id, claim_no, outcome, delay, final, until, at_least: how an attempt ended; begun
                                      (false): it counts as none, it had done nothing yet
    change                            id, from_state, claim_no, state, …, accepted: a conditional write and its fate,
                                      as it was written; details; where it depends on more: ending (null, late or
                                      released), before, leader, epoch; where it ends a subject's day: day_status;
                                      where jobs may follow: brings (the ids that
                                      belong to this ending), might_bring (those of all its endings), keyed
    details                           id, claim_no, details: what a running attempt told so far was saved
    cancel                            id, claim_no: an operator wants this running claim to stop
    stop                              id, claim_no: its node has heard of that, and tells the attempt
    priority                          id, priority: an operator gave a waiting or running job another one
    age                               queue, priority, jobs: so many of these had waited for long, and got a higher one
    pause, resume                     queue: it hands out nothing from here on, or is open again
    limits                            queue, per_group, rate, rate_per_group: they hold from here on; a rate is a number
                                      of jobs and one of seconds
    group                             queue, group, limit, rate, paused_until: they hold for this group from here on;
                                      trips: its circuit breaker is open, and one of its jobs runs at a time
    webhook                           name, version, url, enabled, deleted, deleted_at, options: it is so from here on;
                                      options are what deliveries carry that are made from here on
    post                              id, claim_no, webhook_id, url, method, body: an attempt of a delivery sends this
    request                           id, claim_no, webhook_id, url, status: an endpoint got it, and answers (null: it
                                      never does); seconds, until: so long it wants to be left alone
    answer                            id, claim_no, status or failed: what the attempt heard
    breaker                           threshold: so many failures in a row open the breaker of an endpoint (0: none do)
    turns                             queue, turns: a node took so many turns of a rate, or (less than 0) gave them back
    revision                          schedule, revision, version, cursor: an edit of a schedule that was accepted
    step                              schedule, version, cursor, epoch, accepted: a decision of slots and its fate
    slot                              schedule, at, until, slots, verdict, reason, job, blocked_by, epoch
    subject                           schedule, subject, version, due, tz, weekdays, days_off, since, removed: the
                                      terms of a window's subject are so from here on
    day                               schedule, subject, date, until, days, verdict, reason, job, epoch: a day of a
                                      subject, or a run of them, was decided: it has its job, or none
    spread                            id, epoch, at, parts (node, name and job of each): the parts of a cluster
                                      job were written, and it began to wait for them
    release                           id, epoch, at, quorum: the leader action of a cluster job may begin
    deadline                          id, deadline_at: a part that runs has this deadline from here on
    address                           id, address: a job is for this address from here on
    finalize                          schedule, subject, date, status, reason, was_date, was_status; of the row that it
                                      was written to: day, cutoff_at, job
    hold, hold.end                    name, epoch, until: the node leads, or is the exclusive one, until then; where it
                                      took the lease, shown: the name that it went by
    lease                             until: the node may hold jobs until then; renewed: it could before (of the living)
    name                              name: the node goes by it, until its lease is declared lost or it leaves
    lease.end                         the node was declared lost, or left
    boot                              concurrency, name, queues, tasks: the node's process started
    crash                             the node's process died
    fault                             what, node, until: something is wrong, with one node or (null) with everybody
    limit                             queue, globally: how many of its jobs may run at once from here on
    prune                             jobs, before: so many that had ended before then were deleted
    tick.error                        service, error, expected
    faults.over                       from here on nothing disturbs the cluster
    calm                              leaders, waiting: long after the last fault, who leads, and which schedules wait

Processes each write a file of JSON lines; `merged` puts them together in the order of their instants. A process that
was killed leaves an incomplete history, and its last line may be cut: both are fine.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TextIO, TypeAlias
from uuid import UUID

from oncue.model import (
    PARKED,
    Applied,
    Batch,
    Change,
    Claim,
    ClusterJob,
    Decided,
    GroupSettings,
    Job,
    Limits,
    Receipt,
    Schedule,
    Step,
    Subject,
    Webhook,
)
from oncue.telemetry import Telemetry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Answer: TypeAlias = Literal["ok", "fail", "unknown"]


class Event(NamedTuple):
    at: int
    node: str
    kind: str
    fields: dict[str, Any]

    def line(self) -> str:
        return json.dumps([self.at, self.node, self.kind, self.fields], sort_keys=True, separators=(",", ":"))


def micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else micros(instant)


def moment(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


class Operation:
    """A call that may change something, from its invocation on."""

    __slots__ = ("at", "node", "number", "traced", "verb")

    def __init__(self, number: int, node: str, verb: str, at: int) -> None:
        self.number = number
        self.node = node
        self.verb = verb
        self.at = at
        self.traced = False
        """Whether the history tells of it."""


class Dated(Protocol):
    def now(self) -> datetime: ...


class History:
    """Events in the order in which they happened; with a file, each is written to it at once."""

    def __init__(self, clock: Dated, file: TextIO | None = None) -> None:
        self.events: list[Event] = []
        self.operation: Operation | None = None
        """The one that the database is at."""
        self.clock = clock
        self._file = file
        self._operations = 0

    def add(self, node: str, kind: str, /, **fields: Any) -> None:
        self.add_at(self.clock.now(), node, kind, **fields)

    def add_at(self, instant: datetime, node: str, kind: str, /, **fields: Any) -> None:
        """Something that happened earlier than it is told."""
        self._append(Event(micros(instant), node, kind, fields))

    def _append(self, event: Event) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.write(event.line() + "\n")
            self._file.flush()

    # --- operations ---------------------------------------------------------------------------------------------

    def invoke(self, node: str, verb: str, /, **fields: Any) -> Operation:
        """Begin an operation. One without fields is told of only once it has an effect, or goes wrong."""
        self._operations += 1
        operation = Operation(self._operations, node, verb, micros(self.clock.now()))
        if fields:
            self._trace(operation, fields)
        return operation

    def tell(self, operation: Operation) -> None:
        """This one is told of in any case."""
        self._trace(operation, {})

    def effect(self, node: str, kind: str, /, **fields: Any) -> None:
        """Something that the current operation did."""
        if (operation := self.operation) is not None:
            self._trace(operation, {})
            fields["op"] = operation.number
        self.add(node, kind, **fields)

    def answer(self, operation: Operation, result: Answer, /, **fields: Any) -> None:
        if result != "ok":
            self._trace(operation, {})
        if operation.traced:
            self.add(operation.node, f"{operation.verb}.{result}", op=operation.number, **fields)

    def _trace(self, operation: Operation, fields: dict[str, Any]) -> None:
        if not operation.traced:
            operation.traced = True
            kind = f"{operation.verb}.invoke"
            self._append(Event(operation.at, operation.node, kind, {"op": operation.number, **fields}))

    def digest(self) -> str:
        """The same for the same history, byte for byte."""
        lines = "\n".join(event.line() for event in self.events)
        return hashlib.sha256(lines.encode()).hexdigest()

    def save(self, path: Path) -> None:
        path.write_text("".join(event.line() + "\n" for event in self.events), "utf-8")


def read(path: Path) -> list[Event]:
    """The events of one process. A last line that was cut off by a crash is left out."""
    events = []
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            events.append(Event(*json.loads(line)))
        except (ValueError, TypeError):
            continue
    return events


def merged(histories: Iterable[Sequence[Event]]) -> list[Event]:
    return sorted((event for events in histories for event in events), key=lambda event: event.at)


# --- what the verbs of a store look like in a history ---------------------------------------------------------------


def checksum(args: Any) -> int:
    """Of a job's arguments, so that a history need not carry them: the same for the same values."""
    return zlib.crc32(json.dumps(args, sort_keys=True).encode())


def keys_of(batch: Batch) -> Sequence[str | None]:
    return batch.keys or [None] * len(batch.ids)


def job_events(batches: Sequence[Batch], receipts: Sequence[Receipt]) -> list[dict[str, Any]]:
    """One `job` event for each row that an enqueue wrote."""
    described: list[dict[str, Any]] = [
        {
            "task": batch.task,
            "queue": batch.queue,
            "group": batch.group,
            "address": batch.address,
            "options": batch.options,
            "max_retries": batch.max_retries,
            "args": checksum(json.loads(args)),
            "key": key,
            "state": batch.state,
            "priority": batch.priority,
            "order_at": micros(batch.order_at or batch.created_at),
            "visible_at": micros(batch.visible_at),
            "deadline_at": micros_or_none(batch.deadline_at),
        }
        for batch in batches
        for key, args in zip(keys_of(batch), batch.args, strict=True)
    ]
    return [
        {"id": receipt.id, **fields} for receipt, fields in zip(receipts, described, strict=True) if receipt.created
    ]


def left_out_events(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `job` and the `change` of a row for which another one stands: it has ended as soon as it is there.

    It never holds its key.
    """
    ended = Change(
        job.id, "queued", 0, job.state, job.reason, None, job.visible_at, 0, 0, 0, None, job.finished_at, None, None
    )
    return {**row_event(job), "state": "queued", "key": None, "left_out": True}, change_event(ended, True)


def row_event(job: Job) -> dict[str, Any]:
    """The `job` event of a row that a slot made. A parked one may be due at any time from here on."""
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "group": job.group,
        "address": job.address,
        "options": job.options,
        "max_retries": job.max_retries,
        "args": checksum(job.args),
        "key": job.key,
        "state": job.state,
        "priority": job.priority,
        "order_at": micros(job.order_at),
        "visible_at": micros(job.created_at if job.visible_at >= PARKED else job.visible_at),
        "parked": job.visible_at >= PARKED,
        "deadline_at": micros_or_none(job.deadline_at),
        "start_by": micros_or_none(job.start_by),
    }


def slot_event(schedule_id: int, decided: Decided, epoch: int | None) -> dict[str, Any]:
    return {
        "schedule": schedule_id,
        "at": micros(decided.scheduled_for),
        "until": micros(decided.until or decided.scheduled_for),
        "slots": decided.slots,
        "verdict": decided.verdict,
        "reason": decided.reason,
        "job": decided.job_id,
        "blocked_by": decided.blocked_by,
        "epoch": epoch,
    }


def step_event(step: Step, epoch: int | None, accepted: bool) -> dict[str, Any]:
    return {
        "schedule": step.schedule_id,
        "version": step.version,
        "cursor": micros(step.cursor),
        "epoch": epoch,
        "accepted": accepted,
    }


def revision_event(schedule: Schedule) -> dict[str, Any]:
    return {
        "schedule": schedule.id,
        "revision": schedule.revision,
        "version": schedule.version,
        "cursor": micros(schedule.cursor),
    }


def claim_event(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "claim_no": claim.claim_no,
        "crashes": claim.crashes,
        "retry_count": claim.retry_count,
        "attempt": claim.attempt,
        "cancel_requested": claim.cancel_requested,
    }


def limits_event(queue: str, limits: Limits) -> dict[str, Any]:
    rates = {"rate": limits.rate, "rate_per_group": limits.rate_per_group}
    return {"queue": queue, "per_group": limits.per_group, **rates}


def group_event(queue: str, group: str, settings: GroupSettings) -> dict[str, Any]:
    return {
        "queue": queue,
        "group": group,
        "limit": settings.limit,
        "rate": settings.rate,
        "paused_until": micros_or_none(settings.paused_until),
        **({"trips": settings.trips} if settings.trips else {}),
    }


def webhook_event(webhook: Webhook, version: int, options: tuple[str, int] | None) -> dict[str, Any]:
    return {
        "name": webhook.name,
        "version": version,
        "url": webhook.url,
        "enabled": webhook.enabled,
        "deleted": webhook.deleted,
        "deleted_at": micros_or_none(webhook.deleted_at),
        "options": None if options is None else options[0],
    }


def subject_event(subject: Subject) -> dict[str, Any]:
    return {
        "schedule": subject.schedule_id,
        "subject": subject.name,
        "version": subject.version + 1,
        "due": subject.due,
        "tz": subject.tz,
        "weekdays": subject.weekdays,
        "days_off": [day.isoformat() for day in subject.days_off],
        "since": micros(subject.since),
        "removed": subject.removed_at is not None,
    }


def day_event(schedule_id: int, subject: str, decided: Decided, epoch: int | None) -> dict[str, Any]:
    return {
        "schedule": schedule_id,
        "subject": subject,
        "date": decided.scheduled_for.date().isoformat(),
        "until": (decided.until or decided.scheduled_for).date().isoformat(),
        "days": decided.slots,
        "verdict": decided.verdict,
        "reason": decided.reason,
        "job": decided.job_id,
        "epoch": epoch,
    }


def spread_event(cluster: ClusterJob, epoch: int, labels: Mapping[UUID, str]) -> dict[str, Any]:
    return {
        "id": cluster.id,
        "epoch": epoch,
        "at": micros_or_none(cluster.spread_at),
        "parts": [{"node": labels[part.node_id], "name": part.node_name, "job": part.job_id} for part in cluster.parts],
    }


def start_event(claim: Claim) -> dict[str, Any]:
    return {"id": claim.id, "claim_no": claim.claim_no, "crashes": claim.crashes}


def outcome_event(claim: Claim, outcome: Any, details: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {} if details is None else {"details": details}
    if not getattr(outcome, "begun", True):
        told["begun"] = False
    return {
        **told,
        "id": claim.id,
        "claim_no": claim.claim_no,
        "outcome": type(outcome).__name__,
        "delay": getattr(outcome, "delay", None),
        "final": getattr(outcome, "final", False),
        "until": None if getattr(outcome, "until", None) is None else micros(outcome.until),
        "at_least": getattr(outcome, "at_least", False),
    }


def given_up_event(change: Change) -> dict[str, Any]:
    """The `outcome` event of an attempt of which no more is known than what was to be written."""
    return {
        "id": change.id,
        "claim_no": change.claim_no,
        "outcome": "Released",
        "delay": None,
        "final": False,
        "until": None,
        "at_least": False,
    }


def change_event(change: Change, accepted: bool) -> dict[str, Any]:
    return {
        "id": change.id,
        "from_state": change.from_state,
        "claim_no": change.claim_no,
        "state": change.state,
        "reason": change.reason,
        "outcome": change.outcome,
        "retry_count": change.retry_count,
        "attempt": change.attempt,
        "crashes": change.crashes,
        "visible_at": micros(change.visible_at),
        "started_at": micros_or_none(change.started_at),
        "ended_at": micros_or_none(change.ended_at),
        "error": change.error,
        "accepted": accepted,
        **({} if change.details is None else {"details": change.details}),
    }


def terms_event(change: Change, answer: Applied) -> dict[str, Any]:
    """What a `change` event has more if the change depends on more than its fence, or brings jobs."""
    told: dict[str, Any] = {}
    if change.before is not None or change.leader is not None:
        told["ending"] = change.as_written(answer).ending
    if change.before is not None:
        told["before"] = micros(change.before)
    if change.leader is not None:
        told["epoch"] = change.leader.epoch
    if (day_status := change.as_written(answer).day_status) is not None:
        told["day_status"] = day_status
    endings = [one for one in (change, change.late, change.released) if one is not None]
    if any(one.follow_ups for one in endings):
        told["brings"] = brought(change.as_written(answer))
        told["might_bring"] = [job_id for one in endings for job_id in brought(one)]
        told["keyed"] = any(batch.keys for one in endings for batch in one.follow_ups)
    return told


def brought(change: Change) -> list[int]:
    """The ids of the jobs that follow from a change."""
    return [job_id for batch in change.follow_ups for job_id in batch.ids]


# --- recording through telemetry, for a real process ----------------------------------------------------------------


class TelemetryRecorder:
    """Writes what a process tells its telemetry into a history. Leases are told by the node's own beats."""

    def __init__(self, telemetry: Telemetry, history: History, node: str, lease: timedelta) -> None:
        self._history = history
        self._node = node
        self._lease = lease
        self._clock = history.clock
        self._writers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "enqueue": self._enqueued,
            "claim": self._claimed,
            "job.start": lambda told: self._add("start", start_event(told["claim"])),
            "job.stop": self._stopped,
            "settle.rejected": lambda told: self._given_up(told["change"], False),
            "release": self._released,
            "rescue": lambda told: self._add("change", change_event(told["change"], True)),
            "overrun": lambda told: self._add("change", change_event(told["change"], True)),
            "expire": lambda told: self._add("change", change_event(told["change"], True)),
            "slot": lambda told: self._add("slot", slot_event(told["schedule_id"], told["decided"], None)),
            "node.beat": self._beaten,
        }
        telemetry.subscribe(self._record, *self._writers)

    def _record(self, event: str, measurements: Mapping[str, float], told: Mapping[str, Any]) -> None:
        self._writers[event]({**measurements, **told})

    def _add(self, kind: str, fields: Mapping[str, Any]) -> None:
        self._history.add(self._node, kind, **fields)

    def _enqueued(self, told: Mapping[str, Any]) -> None:
        batch, receipts = told["batch"], told["receipts"]
        for fields in job_events([batch], receipts):
            self._add("job", fields)
        self._add("enqueue.ok", ok_fields(batch, receipts))

    def _claimed(self, told: Mapping[str, Any]) -> None:
        for claim in told["claims"]:
            self._add("claim", claim_event(claim))

    def _stopped(self, told: Mapping[str, Any]) -> None:
        self._tell_end(told["change"], outcome_event(told["claim"], told["outcome"]))
        self._add("change", change_event(told["change"], True))

    def _released(self, told: Mapping[str, Any]) -> None:
        if "change" in told:
            self._given_up(told["change"], True)

    def _given_up(self, change: Change, accepted: bool) -> None:
        """An attempt that was given back, or whose outcome was rejected, has ended on its node too."""
        self._tell_end(change, given_up_event(change))
        self._add("change", change_event(change, accepted))

    def _tell_end(self, change: Change, outcome: Mapping[str, Any]) -> None:
        """It is told when its outcome is written, which may take several tries; by another clock than the node's."""
        now = self._clock.now()
        self._history.add_at(min(change.ended_at or now, now), self._node, "outcome", **outcome)

    def _beaten(self, told: Mapping[str, Any]) -> None:
        """A lease counts from when it was asked for, not from when the answer came."""
        asked_at = self._clock.now() - timedelta(seconds=told["duration"])
        self._add("lease", {"until": micros(asked_at + self._lease)})


def ok_fields(batch: Batch, receipts: Sequence[Receipt]) -> dict[str, Any]:
    return {
        "ids": batch.ids,
        "standing": [receipt.id for receipt in receipts],
        "created": [receipt.created for receipt in receipts],
    }
