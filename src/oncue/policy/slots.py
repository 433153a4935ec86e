"""What becomes of the slots of a schedule that are due: the one place where slots are decided.

A schedule's `cursor` says how far its slots are decided. When the next one has come, everything from there up to now is
decided at once, and the cursor moves. Usually that is one slot, and it fires. After an outage it may be many:

    |cursor ........ stale ........|........ fresh ........|now
              missed: misfire        missed="latest": the last one fires, the others are coalesced into it
                                     missed="each":   each one fires
                                     missed="none":   as "each", but with no more grace than `punctual`

A slot is stale when its grace is over. A slot that would fire while as many of the schedule's jobs are unfinished as
`max_instances` allows is skipped, with the job in the way; so is one whose job would have a key that another unfinished
job has. Slots that were decided by hand stay as they are. Runs of slots that did not fire are told as one row, so
that an outage costs one row however long it was.

At most `MOST` slots get a row of their own in one step; what is cut is picked up by the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from oncue.model import Decided, Due, Step, Verdict
from oncue.policy import triggers
from oncue.policy.triggers import TICK, Rule, Trigger, trigger_of

MOST = 1000
UNANCHORED = datetime(1970, 1, 1, tzinfo=UTC)
"""For rules whose slots do not depend on when their schedule was made."""

MISFIRE = "misfire"
MAX_INSTANCES = "max_instances"
KEY_HELD = "key_held"
MOST_GROUPS = 8


class Plan(NamedTuple):
    """A step that lacks only the ids of the jobs that it makes, and whether it was cut short."""

    due: Due
    cursor: datetime
    next_run_at: datetime | None
    decided: Sequence[Decided]
    fires: int
    cut: bool


def plan(due: Due, now: datetime, punctual: timedelta) -> Plan:
    """Decide everything that is due for one schedule."""
    anchor = due.started_at if due.expression.startswith("@") else UNANCHORED
    rule = (due.expression, due.tz, due.dst, anchor)
    first, following = _next_two(*rule, due.cursor)  # not `next_run_at`, which may have been put off
    if first is None or first > now:
        return Plan(due, due.cursor, first, (), 0, False)
    if (following is None or following > now) and not due.taken:
        return _plan_one(due, first, following, now, punctual)
    return _plan_many(due, trigger_of(due), now, punctual)


@lru_cache(maxsize=1024)
def _next_two(
    expression: str, tz: str, dst: str, anchor: datetime, cursor: datetime
) -> tuple[datetime | None, datetime | None]:
    """Schedules that are due together mostly share a rule and a cursor: midnight is midnight for all of them."""
    trigger = triggers.trigger(Rule(expression, tz, dst), anchor)  # type: ignore[arg-type]
    first = trigger.after(cursor)
    return first, None if first is None else trigger.after(first)


def put_off(due: Due, until: datetime) -> Plan:
    """Decide nothing yet: the schedule keeps its cursor, and is looked at again later."""
    return Plan(due, due.cursor, until, (), 0, False)


def step(planned: Plan, take_id: Callable[[], int]) -> Step:
    """The write that a plan leads to. `take_id` hands out reserved ids of jobs."""
    decided = planned.decided
    if planned.fires and len(decided) == 1:
        decided = (Decided(decided[0].scheduled_for, "fired", None, take_id()),)
    elif planned.fires:
        decided = list(_with_jobs(decided, take_id))
    return Step(planned.due.id, planned.due.version, planned.cursor, planned.next_run_at, decided, planned.due.key)


def _with_jobs(decided: Sequence[Decided], take_id: Callable[[], int]) -> Iterator[Decided]:
    latest = None
    for slot in decided:
        if slot.verdict == "fired":
            latest = take_id()
            yield slot._replace(job_id=latest)
        elif slot.verdict == "skipped" and slot.blocked_by is None:
            yield slot._replace(blocked_by=latest)  # the job that was made a moment ago, for the slot before
        else:
            yield slot


def together(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps in groups, to be written one after the other: those without a key, then those with one.

    Two steps with one key are in two groups. If their tasks differ, both fire; if not, the first one's job stands in
    the way of the second, which stays due. So do the steps that are left when there are MOST_GROUPS. A key may be held
    by a transaction that has not ended: then only the steps of its group wait for it.
    """
    plain = [step for step in steps if step.key is None]
    keyed: list[list[Step]] = []
    seen: Counter[str] = Counter()
    for step in steps:
        if step.key is None or (turn := seen[step.key]) == MOST_GROUPS:
            continue
        seen[step.key] += 1
        keyed += [[]] if turn == len(keyed) else []
        keyed[turn].append(step)
    return [group for group in (plain, *keyed) if group]


def given_up(
    trigger: Trigger, after: datetime, until: datetime, taken: Sequence[datetime], reason: str
) -> list[Decided]:
    """Account for the slots in (after, until] that will never be: an edit has overtaken them."""
    return list(_runs(trigger, after, until, taken, "missed", reason))


def _plan_one(due: Due, slot: datetime, following: datetime | None, now: datetime, punctual: timedelta) -> Plan:
    is_stale = slot < now - _grace(due, punctual)
    decided = Decided(slot, "missed", MISFIRE) if is_stale else _fired_or_skipped(slot, due)
    return Plan(due, slot, following, (decided,), int(decided.verdict == "fired"), False)


def _plan_many(due: Due, trigger: Trigger, now: datetime, punctual: timedelta) -> Plan:
    stale_until = max(now - _grace(due, punctual) - TICK, due.cursor)
    decided = list(_runs(trigger, due.cursor, stale_until, due.taken, "missed", MISFIRE))
    end = trigger.latest(now) or now
    if due.missed == "latest":
        decided += _latest(due, trigger, stale_until, end)
        cut = False
    else:
        slots = list(islice(triggers.between(trigger, stale_until, end), MOST + 1))
        cut = len(slots) > MOST
        end = slots[MOST - 1] if cut else end
        decided += _each(due, slots[:MOST])
    fires = sum(slot.verdict == "fired" for slot in decided)
    return Plan(due, end, trigger.after(end), decided, fires, cut)


def _grace(due: Due, punctual: timedelta) -> timedelta:
    """`none` forgives only what it takes to notice a slot."""
    return min(due.grace, punctual) if due.missed == "none" else due.grace


def _latest(due: Due, trigger: Trigger, stale_until: datetime, end: datetime) -> Iterator[Decided]:
    if end <= stale_until:
        return
    reason = f"into {end.isoformat()}"
    yield from _runs(trigger, stale_until, end - TICK, due.taken, "coalesced", reason)
    if end not in due.taken:
        yield _fired_or_skipped(end, due)


def _each(due: Due, slots: Sequence[datetime]) -> Iterator[Decided]:
    taken, fired = frozenset(due.taken), 0
    for slot in slots:
        if slot in taken:
            continue
        decided = _fired_or_skipped(slot, due, fired)
        fired += decided.verdict == "fired"
        yield decided


def _fired_or_skipped(slot: datetime, due: Due, fired: int = 0) -> Decided:
    """`fired` are the jobs that are made in the same step: they are in a slot's way too, by ids that come later."""
    if len(due.unfinished) + fired >= due.max_instances:
        return Decided(slot, "skipped", MAX_INSTANCES, blocked_by=due.unfinished[0] if due.unfinished else None)
    if due.holder is not None or (due.key is not None and fired):
        return Decided(slot, "skipped", KEY_HELD, blocked_by=due.holder)
    return Decided(slot, "fired")


def _runs(
    trigger: Trigger, after: datetime, until: datetime, taken: Sequence[datetime], verdict: Verdict, reason: str
) -> Iterator[Decided]:
    """The slots in (after, until] as few rows as possible: one, unless some of them were taken by hand."""
    edges = [slot for slot in sorted(taken) if after < slot <= until]
    for edge in [*(slot - TICK for slot in edges), until]:
        run = _run(trigger, after, edge, verdict, reason)
        if run is not None:
            yield run
        after = max(after, edge + TICK)


def _run(trigger: Trigger, after: datetime, until: datetime, verdict: Verdict, reason: str) -> Decided | None:
    first = trigger.after(after)
    if first is None or first > until:
        return None
    last = trigger.latest(until)
    if last is None or last == first:
        return Decided(first, verdict, reason)
    return Decided(first, verdict, reason, until=last, slots=trigger.count(after, last))
