"""What both stores do in the same way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

from oncue.model import (
    KINDS,
    UNFINISHED,
    Age,
    AlertState,
    Applied,
    Batch,
    Change,
    ClusterJob,
    Count,
    DuePosition,
    Group,
    GroupSettings,
    Job,
    JobFilter,
    LimitedQueue,
    Limits,
    NodeSeats,
    Note,
    Part,
    Queue,
    Rate,
    Receipt,
    Sample,
    State,
    Step,
    Subject,
    Webhook,
    known,
)
from oncue.store.statements import SHORTENED, SUBJECT_COLUMNS, WEBHOOK_FIELDS

P = ParamSpec("P")
T = TypeVar("T")

LARGEST_ID = 2**63 - 1
MANY_COUNTS = 2000
"""Of more rows than that, values are made in a thread: the event loop has others to serve."""

NAMED_FOR = timedelta(days=1)
"""How much longer than finished jobs a node is kept that is gone: its last jobs may have been settled after its end."""

ROW = Change._fields.index("follow_ups")
"""So many of the fields of a change are columns of its statement."""
PLAIN: tuple[tuple[int, Any], ...] = tuple(
    (Change._fields.index(field), value)
    for field, value in {
        "from_state": "running", "state": "succeeded", "reason": None, "outcome": "succeeded", "retry_count": 0,
        "attempt": 1, "crashes": 0, "result": None, "day_status": None, "follow_ups": (), "before": None,
        "leader": None, "ending": None,
    }.items()
)  # fmt: skip
"""What the fields of a change are that asks for nothing but its state."""
OWN = tuple(Change._fields.index(field) for field in ("id", "claim_no"))
"""What each change says of its own, of changes that are alike otherwise."""
SAME = (*(place for place in range(ROW) if place not in OWN), Change._fields.index("leader"))
NEXT_DAY = Change._fields.index("next_day")
DETAILS = Change._fields.index("details")
PLAIN_COLUMNS = [Change._fields.index(field) for field in ("id", "claim_no", "started_at", "ended_at")]

DAYS_OFF = SUBJECT_COLUMNS.split(", ").index("days_off")
"""Where a subject's row has them, as JSON."""

BEGINNING: DuePosition = (datetime(1970, 1, 1, tzinfo=UTC), 0)


def queue_rows(
    rows: Iterable[Iterable[Any]], live: Sequence[Count], totals: Iterable[Iterable[Any]], sample: Sample | None
) -> list[Queue]:
    """The queues that were ever used, from what is set for them, what waits in them and what finished."""
    settings = {name: (paused_at, *limits) for name, paused_at, *limits in rows}
    counts: dict[str, dict[str, int]] = {name: {} for name in settings}
    waiting, counted_at = known(live, sample)
    for queue, kind, jobs, *_ in (*waiting, *totals):
        of_queue = counts.setdefault(queue, {})
        of_queue[kind] = of_queue.get(kind, 0) + jobs
    return [_queue(name, counts[name], settings.get(name, (None,)), counted_at) for name in sorted(counts)]


def _queue(name: str, counts: dict[str, int], settings: Sequence[Any], counted_at: datetime | None) -> Queue:
    fields = (*KINDS, "succeeded", "failed", "cancelled", "skipped")
    numbers: dict[str, Any] = {field: counts.get(field, 0) for field in fields}
    paused_at, *columns = settings
    limits = queue_limits(*columns)
    return Queue(
        name, paused_at, **numbers, global_limit=limits.globally, node_limit=limits.per_node,
        group_limit=limits.per_group, rate=text_or_none(limits.rate), group_rate=text_or_none(limits.rate_per_group),
        counted_at=counted_at,
    )  # fmt: skip


def queue_limits(
    globally: int | None = None,
    per_node: int | None = None,
    per_group: int | None = None,
    rate_count: int | None = None,
    rate_seconds: int | None = None,
    group_rate_count: int | None = None,
    group_rate_seconds: int | None = None,
) -> Limits:
    """The limits of a queue, from the columns of its row."""
    return Limits(
        globally, per_node, per_group, rate(rate_count, rate_seconds), rate(group_rate_count, group_rate_seconds)
    )


def limits_row(limits: Limits) -> tuple[int | None, ...]:
    """The columns of a queue's row, from its limits."""
    rates = (limits.rate or (None, None), limits.rate_per_group or (None, None))
    return (limits.globally, limits.per_node, limits.per_group, *rates[0], *rates[1])


def rate(count: int | None, seconds: int | None) -> Rate | None:
    return None if count is None or seconds is None else Rate(count, seconds)


def text_or_none(rate: Rate | None) -> str | None:
    return None if rate is None else str(rate)


def group_of(queue: str, row: Sequence[Any]) -> Group:
    name, queued, running, limit, rate_count, rate_seconds, rated_until, paused_until, has_settings, trips = row
    told = text_or_none(rate(rate_count, rate_seconds))
    return Group(queue, name, queued, running, limit, told, rated_until, paused_until, bool(has_settings), trips)


def group_settings(row: Sequence[Any]) -> GroupSettings:
    limit, rate_count, rate_seconds, paused_until, trips = row
    return GroupSettings(limit, rate(rate_count, rate_seconds), paused_until, trips)


def settings_row(settings: GroupSettings) -> tuple[Any, ...]:
    return (settings.limit, *(settings.rate or (None, None)), settings.paused_until)


def webhook_of(columns: Mapping[str, Any]) -> Webhook:
    """A webhook from the columns of its row, of which the instants and truth values are ours already."""
    parsed = {"headers": json.loads(columns["headers"]), "secrets": tuple(json.loads(columns["secrets"]))}
    return Webhook(**{**columns, **parsed})


def webhook_fields(webhook: Webhook) -> dict[str, Any]:
    """What is written of a webhook beside its name and its version, in the order of the statements."""
    fields = {name: getattr(webhook, name) for name in WEBHOOK_FIELDS.split(", ")}
    return {**fields, "headers": json.dumps(dict(webhook.headers)), "secrets": json.dumps(webhook.secrets)}


def subject_of(*row: Any) -> Subject:
    """A subject from its row, of which the dates and instants are ours already."""
    columns = list(row)
    columns[DAYS_OFF] = days_off_of(columns[DAYS_OFF])
    return Subject(*columns)


@lru_cache(maxsize=1000)
def days_off_of(text: str) -> tuple[date, ...]:
    """Most subjects have none, and a planner reads a thousand subjects at a time."""
    return tuple(date.fromisoformat(day) for day in json.loads(text))


def subject_row(subject: Subject) -> dict[str, Any]:
    """What is written of a subject; its documents are handed over as they are stored."""
    fields = {name: getattr(subject, name) for name in SUBJECT_COLUMNS.split(", ")}
    return {**fields, "days_off": [day.isoformat() for day in subject.days_off], "args": json.loads(subject.args)}


def cluster_job_of(
    job: Job, record: Sequence[Any] | None, parts: Sequence[Sequence[Any]] | None, instant: Callable[[Any], datetime]
) -> ClusterJob:
    """A cluster job with its parts, of which the instants are to be read yet."""

    def at(told: Any) -> datetime | None:
        return None if told is None else instant(told)

    def part(
        node: str, name: str, job_id: int | None, was_open: Any, state: State | None, reason: str | None,
        error: str | None, result: Any, attempt: int | None, visible_at: Any, claimed_at: Any, started_at: Any,
        finished_at: Any, is_alive: Any,
    ) -> Part:  # fmt: skip
        left = None if was_open is None else bool(was_open)
        told = (state, reason, error, result, attempt or 0)
        return Part(
            UUID(node), name, job_id, left, *told, at(visible_at), at(claimed_at), at(started_at), at(finished_at),
            bool(is_alive),
        )  # fmt: skip

    made = tuple(part(*columns) for columns in parts or ())
    if record is None:
        return ClusterJob(job, parts=made)
    spread_at, epoch, decided_at, decided_epoch, quorum = record
    decided = (at(decided_at), decided_epoch, None if quorum is None else bool(quorum))
    return ClusterJob(job, at(spread_at), epoch, *decided, parts=made)


def midnight(day: date) -> datetime:
    """How the ledger tells a day."""
    return datetime.combine(day, time(), UTC)


async def in_thread_if_many(rows: int, make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    return make(*args, **options) if rows < MANY_COUNTS else await asyncio.to_thread(make, *args, **options)


def sample_json(sample: Sample) -> str:
    ages = [(*age[:3], age.since.isoformat()) for age in sample.ages]
    return json.dumps({"counts": sample.counts, "ages": ages})


def kept_sample(at: datetime, text: str) -> Sample | None:
    """The sample that was kept as JSON; None if an older version of oncue kept it."""
    found = json.loads(text)
    if not isinstance(found, dict):
        return None
    ages = [Age(kind, queue, task, datetime.fromisoformat(since)) for kind, queue, task, since in found["ages"]]
    return Sample(at, [Count(*count) for count in found["counts"]], ages)


def listing(wanted: JobFilter) -> str:
    """The statement that answers a listing without reading what it does not show, where there is one."""
    return f"{_kind_of(wanted)}_short" if wanted.short else _kind_of(wanted)


def sizes(*found: int | None) -> dict[str, int] | None:
    """What a short listing left out, from the last columns of its rows."""
    left = {name: size for name, size in zip(SHORTENED, found, strict=True) if size is not None}
    return left or None


def _kind_of(wanted: JobFilter) -> str:
    if wanted.group is not None or wanted.address is not None or wanted.since is not None or wanted.until is not None:
        return "jobs_by_rows"
    if wanted.key is not None:
        elsewhere = wanted.queue is not None or wanted.before is not None or wanted.offset
        holder = wanted.task is not None and set(wanted.states) == UNFINISHED and not elsewhere
        return "job_with_key" if holder else "jobs_with_key"
    return "jobs_of_kinds" if wanted.states or wanted.queue or wanted.task else "jobs"


def seatings(rows: Iterable[Sequence[Any]]) -> list[LimitedQueue]:
    """Limited queues with their seats, from rows that come queue by queue."""
    found: dict[str, LimitedQueue] = {}
    for name, *columns, version, waiting, node, seats, wanted in rows:
        known = found.get(name) or LimitedQueue(name, queue_limits(*columns), version, (), waiting)
        held = known.seats if node is None else (*known.seats, NodeSeats(node, seats, wanted))
        found[name] = LimitedQueue(name, known.limits, version, held, waiting)
    return list(found.values())


def loaded(text: str | None) -> Any:
    """A stored document. A whole number that Python refuses to read, for having thousands of digits, stays text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_number)


def _number(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


def duplicate_record(receipt: Receipt) -> str:
    """What is stored under the id of a duplicate: a caller that asks again gets the same receipt."""
    return json.dumps({"duplicate_of": receipt.id, "created_at": receipt.created_at.isoformat()})


def recorded_receipt(text: str) -> Receipt:
    told = json.loads(text)
    return Receipt(told["duplicate_of"], datetime.fromisoformat(told["created_at"]), False)


def note_row(note: Note) -> list[str | None]:
    """A line of the audit log as it is stored."""
    facts = (None if fact is None else json.dumps(fact, ensure_ascii=False) for fact in (note.before, note.after))
    return [note.actor, note.action, note.subject, *facts]


def note_columns(notes: Sequence[Note | None]) -> list[list[str | None]]:
    """Lines of the audit log as arrays; nothing but nulls where there is none."""
    rows = [[None] * 5 if note is None else note_row(note) for note in notes]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(5)]


def plain_columns(changes: Sequence[Change], *, details: bool = False) -> list[tuple[Any, ...]] | None:
    """The ids, fences, begins and ends of changes, if each is a success at the first attempt, with nothing to keep, no
    further guard and no jobs that follow. Whole columns are compared: there are many changes, and nearly all are so.

    With `details` they may have some, which are the last column then.
    """
    columns, many = list(zip(*changes, strict=True)), len(changes)
    if any(columns[field].count(value) < many for field, value in PLAIN):
        return None
    plain = [columns[field] for field in PLAIN_COLUMNS]
    if columns[DETAILS].count(None) == many:
        return plain
    return [*plain, columns[DETAILS]] if details else None


class Endings(NamedTuple):
    """The rows that a statement gets for some changes, and for each row the place of its change."""

    rows: list[Change]
    places: list[int]

    @property
    def guards(self) -> list[tuple[UUID | None, int | None, bool | None]]:
        """For each row the holder and the epoch that it names, and whether it is written while these lead or while
        they do not."""
        return [
            (None, None, None) if row.leader is None else (*row.leader, row.ending != "released") for row in self.rows
        ]

    @property
    def next_days(self) -> list[tuple[int | None, date | None, datetime | None, datetime | None, int | None]]:
        """For each row the day that its subject moves on to: on which version, its date, its opening and its cutoff;
        and the minute under which the day that is decided is counted."""
        return [
            (None,) * 5 if (told := row.next_day) is None else (told.version, *told.day, told.bucket)
            for row in self.rows
        ]

    @property
    def are_alike(self) -> bool:
        """Whether they end days of a window and have all in common but their ids, their fences, the versions of the
        subjects and the jobs that follow. A crowd with the same cutoff is so, and the rest is told once."""
        first, many = self.rows[0], len(self.rows)
        if many == 1 or first.day_status is None or first.leader is not None:
            return False
        columns = list(zip(*self.rows, strict=True))
        if len(set(columns[0])) < many or any(columns[place].count(first[place]) < many for place in SAME):
            return False
        told = first.next_day
        if told is None:
            return columns[NEXT_DAY].count(None) == many
        return all(next_day is not None and next_day[1:] == told[1:] for next_day in columns[NEXT_DAY])

    @property
    def follow_ups(self) -> list[tuple[int, Batch]]:
        """The jobs that follow, each with the number of the row that brings them."""
        return [(number, batch) for number, row in enumerate(self.rows) for batch in row.follow_ups]

    def answers(self, took: Iterable[int], locked: Iterable[int] = ()) -> list[Applied]:
        """What became of each change, from the numbers of the rows that were written and of those that are locked."""
        found: list[Applied] = [False] * (self.places[-1] + 1)
        for number in locked:
            found[self.places[number]] = None
        for number in took:
            found[self.places[number]] = self.rows[number].ending or True
        return found


_OF_EACH = ("ids", "args", "keys")
_SHARED = itemgetter(*(place for place, field in enumerate(Batch._fields) if field not in _OF_EACH))


def _shared(batch: Batch) -> tuple[Any, ...]:
    """What all jobs of a batch have in common; whether they have keys is part of that."""
    return (*_SHARED(batch), batch.keys is None)


def alike(jobs: Iterable[tuple[T, Batch]]) -> list[tuple[list[T], Batch]]:
    """The same jobs in as few batches as they need, each with what was told with the jobs of it."""
    kinds: dict[tuple[Any, ...], tuple[list[T], list[Batch]]] = {}
    for own, batch in jobs:
        told, batches = kinds.setdefault(_shared(batch), ([], []))
        told.append(own)
        batches.append(batch)
    return [(told, _together(batches)) for told, batches in kinds.values()]


def _together(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    keys = None if batches[0].keys is None else [key for batch in batches for key in batch.keys or ()]
    ids, args = ([*chain.from_iterable(lists)] for lists in zip(*((one.ids, one.args) for one in batches), strict=True))
    return batches[0]._replace(ids=ids, args=args, keys=keys)


def endings(changes: Sequence[Change], latest: datetime) -> Endings:
    """What is to be written of these changes: each of them, or its `late` ending if its instant is over.

    The time is handed in, so it does not matter where it is compared. A change that holds while a node leads comes
    with its `released` ending, and the statement writes one of the two.
    """
    made = Endings([], [])
    for place, change in enumerate(changes):
        chosen = change
        if change.before is not None and change.before <= latest:
            assert change.late is not None, f"job {change.id}: a change that may come too late says what it is then"
            chosen = change.late
        made.rows.append(chosen)
        made.places.append(place)
        if change.leader is not None:
            assert change.released is not None, f"job {change.id}: a change under an epoch says how it is released"
            made.rows[-1:] = [chosen._replace(leader=change.leader), change.released._replace(leader=change.leader)]
            made.places.append(place)
    return made


def is_plain_step(step: Step) -> bool:
    """One slot, the one that the cursor moves to, fires, and its job has no key: nothing to say of any other."""
    if len(step.decided) != 1 or step.key is not None:
        return False
    (decided,) = step.decided
    return decided.job_id is not None and decided == (step.cursor, "fired", None, decided.job_id, None, None, 1)


_ALERT_INSTANTS = ("since", "warned_at")


def alerts_json(alerts: Iterable[AlertState]) -> str:
    """The state of all SLOs and alerts, as it is kept."""
    return json.dumps([alert._asdict() for alert in alerts], default=datetime.isoformat)


def alerts_of(text: str) -> tuple[AlertState, ...]:
    """What `alerts_json` has written. Another version of oncue may have: what this one does not know is left out."""
    return tuple(AlertState(**_alert_fields(told)) for told in json.loads(text))


def _alert_fields(told: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in told.items() if name in AlertState._fields}
    for name in _ALERT_INSTANTS:
        if known.get(name) is not None:
            known[name] = datetime.fromisoformat(known[name])
    return known
