"""What has been: rows that take days to come about, and that stories and tests write at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from oncue import Oncue
from oncue.model import AlertBook, AlertState, Day, Decided, Minute, MinuteKind, SubjectStep, Tally
from oncue.policy.minutes import bucket, minute_of
from oncue.policy.windows import slot_of
from oncue.store.contract import LEADER
from oncue.verbs.schedules.declaring import Declaring

LEADS = timedelta(minutes=10)
TRIES = 20


async def declared(app: Oncue) -> None:
    """Windows are there as soon as a worker has declared them. A story may be told without one."""
    await Declaring(app.internals).synchronise()


async def days_of(
    app: Oncue, window: str, subject: str, days: Mapping[date, str], job_id: int, tallies: Sequence[Tally] = ()
) -> None:
    """What became of days of a subject that waits for its next one. A success is that of this job."""
    store = (await app.internals.connected()).store
    for _ in range(TRIES):
        one, found = await app.windows.subject(window, subject), await app.windows.get(window)
        step = SubjectStep(
            found.id, subject, one.version, Day(one.day, one.opens_at, one.cutoff_at), one.next_at, one.job_id,
            max(days, default=one.last_date), _status(days, one.status), None,
            decided=[_decided(day, fate, job_id) for day, fate in sorted(days.items())], tallies=tallies,
        )  # fmt: skip
        if await store.windows.advance([step], await app.now()) == [True]:
            return
    raise AssertionError(f"{subject} of {window} moves on again and again")


def _status(days: Mapping[date, str], before: Any) -> Any:
    last = days[max(days)] if days else None
    return {"success": "success", "missed": "missed", None: before}.get(last, "cutoff_reached")


def _decided(day: date, fate: str, job_id: int) -> Decided:
    if fate == "success":
        return Decided(slot_of(day), "fired", None, job_id)
    if fate == "missed":
        return Decided(slot_of(day), "missed", "outage")
    return Decided(slot_of(day), "skipped", fate)


def tallied(day: date, at: str, **events: int) -> list[Tally]:
    """So many subjects whose cutoff is at this time, in UTC."""
    hour, minute = map(int, at.split(":"))
    many = []
    for event, number in events.items():
        many += [Tally(day, hour * 60 + minute, event)] * number  # type: ignore[arg-type]
    return many


async def book_of(app: Oncue, *states: AlertState, ago: timedelta = timedelta()) -> None:
    """How SLOs and alerts stand. Those of other stories stay as they are."""
    store = (await app.internals.connected()).store
    told = {(state.alert, state.of): state for state in states}
    for _ in range(TRIES):
        now, book = await app.now() - ago, await store.alerts.book()
        node, epoch = await _leader(app, now)
        kept = tuple(one for one in book.alerts if (one.alert, one.of) not in told)
        wanted = AlertBook(book.version, None, (*kept, *told.values()))
        if await store.alerts.write(wanted, now, node=node, epoch=epoch):
            return
    raise AssertionError("the book changes again and again")


async def _leader(app: Oncue, now: datetime) -> tuple[UUID, int]:
    store = (await app.internals.connected()).store
    lease = await store.leases.get(LEADER)
    if lease is None or lease.expires_at <= now:
        lease = await store.leases.acquire(LEADER, uuid4(), "story", now, now + LEADS, respect=None)
    assert lease is not None
    return lease.holder, lease.epoch


async def minutes_of(app: Oncue, kind: MinuteKind, name: str, many: Sequence[Mapping[str, Any]]) -> None:
    """What a node measured in the minutes up to now, the last one at the end."""
    store, last, node = (await app.internals.connected()).store, minute_of(await app.now()), uuid4()
    await store.alerts.append(
        [Minute(last - timedelta(minutes=back), node, kind, name, one) for back, one in enumerate(reversed(many), 1)]
    )


def durations(*milliseconds: float) -> dict[str, int]:
    """As minutes have them."""
    found: dict[str, int] = {}
    for one in milliseconds:
        found[bucket(one)] = found.get(bucket(one), 0) + 1
    return found
