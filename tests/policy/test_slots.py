"""Every slot is decided once: what fires, what is late, what an outage costs, and what is in the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from time import thread_time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.errors import InvalidSchedule
from oncue.model import Decided, Due, Missed, Revision, Slot, Step
from oncue.policy import triggers
from oncue.policy.audit import audit
from oncue.policy.slots import MOST, MOST_GROUPS, plan, put_off, step, together

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
PUNCTUAL = timedelta(seconds=30)
MINUTELY, SECONDLY = "* * * * *", "* * * * * *"


def after(**parts: float) -> datetime:
    return NOON + timedelta(**parts)


def due(expression: str = MINUTELY, cursor: datetime = NOON, **fields: Any) -> Due:
    values = {
        "id": 1, "name": "nightly", "version": 3, "started_at": NOON, "cursor": cursor, "next_run_at": cursor,
        "expression": expression, "tz": "UTC", "dst": "debian", "missed": "latest", "grace": timedelta(seconds=300),
        "max_instances": 1, "unfinished": (), "taken": (),
    }  # fmt: skip
    return Due(**{**values, **fields})


def decided(wanted: Due, now: datetime) -> list[Decided]:
    return list(plan(wanted, now, PUNCTUAL).decided)


def told(wanted: Due, now: datetime) -> list[tuple[str, str, int]]:
    """When, what, and how many slots, in few letters."""
    return [(f"{row.scheduled_for:%H:%M:%S}", row.verdict, row.slots) for row in decided(wanted, now)]


# --- one slot -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-4")
@pytest.mark.parametrize("late", [0.0, 0.000001, 0.4, 29.0, 59.999999])
def test_a_slot_fires_under_its_own_instant_however_late_somebody_looked(late: float) -> None:
    made = plan(due(), after(seconds=60 + late), PUNCTUAL)
    assert made.decided == (Decided(after(minutes=1), "fired"),)
    assert (made.cursor, made.next_run_at, made.fires, made.cut) == (after(minutes=1), after(minutes=2), 1, False)


def test_nothing_is_decided_before_its_time() -> None:
    made = plan(due(), after(seconds=60) - TICK, PUNCTUAL)
    assert (made.decided, made.cursor, made.next_run_at) == ((), NOON, after(minutes=1))


@pytest.mark.contract("SLOT-10")
@pytest.mark.parametrize(("missed", "grace"), [("latest", 300), ("each", 300), ("none", 30)])
def test_a_slot_beyond_its_grace_is_missed(missed: Missed, grace: int) -> None:
    hourly = due("0 * * * *", missed=missed)
    slot = after(hours=1)
    assert decided(hourly, slot + timedelta(seconds=grace)) == [Decided(slot, "fired")]
    assert decided(hourly, slot + timedelta(seconds=grace) + TICK) == [Decided(slot, "missed", "misfire")]


def test_none_forgives_no_more_than_its_own_grace() -> None:
    strict = due("0 * * * *", missed="none", grace=timedelta(seconds=5))
    assert decided(strict, after(hours=1, seconds=5))[0].verdict == "fired"
    assert decided(strict, after(hours=1, seconds=5) + TICK)[0].verdict == "missed"


def test_a_rule_without_further_slots_comes_to_an_end() -> None:
    century = timedelta(days=36525)
    start = datetime(8999, 12, 31, tzinfo=UTC)
    rule = due("@every 876000h", started_at=start, cursor=start, grace=century)
    last = plan(rule, datetime(9998, 12, 31, tzinfo=UTC), PUNCTUAL)
    assert last.next_run_at is None
    assert plan(rule._replace(cursor=last.cursor), datetime(9998, 12, 31, tzinfo=UTC), PUNCTUAL).next_run_at is None


@pytest.mark.contract("SLOT-10")
def test_a_slot_that_comes_while_nothing_else_is_due_does_not_depend_on_what_is_missed() -> None:
    for missed in ("latest", "each", "none"):
        assert told(due(missed=missed), after(minutes=1)) == [("12:01:00", "fired", 1)]


# --- after an outage ------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-10")
def test_latest_fires_the_last_slot_and_folds_the_fresh_ones_into_it() -> None:
    rows = decided(due(), after(minutes=20, seconds=30))
    stale, fresh, last = rows
    assert stale == Decided(after(minutes=1), "missed", "misfire", until=after(minutes=15), slots=15)
    into = f"into {after(minutes=20).isoformat()}"
    assert fresh == Decided(after(minutes=16), "coalesced", into, until=after(minutes=19), slots=4)
    assert last == Decided(after(minutes=20), "fired")


@pytest.mark.contract("SLOT-10")
def test_each_fires_every_slot_within_its_grace() -> None:
    rows = told(due(missed="each", max_instances=100), after(minutes=20, seconds=30))
    assert rows == [("12:01:00", "missed", 15), *((f"12:{minute}:00", "fired", 1) for minute in range(16, 21))]


@pytest.mark.contract("SLOT-10")
def test_none_fires_only_what_is_just_due() -> None:
    assert told(due(missed="none"), after(minutes=20, seconds=20)) == [
        ("12:01:00", "missed", 19),
        ("12:20:00", "fired", 1),
    ]
    assert told(due(missed="none"), after(minutes=20, seconds=31)) == [("12:01:00", "missed", 20)]


@pytest.mark.contract("SLOT-10")
def test_when_all_are_stale_none_fires() -> None:
    for missed in ("latest", "each", "none"):
        late = due("*/10 * * * *", missed=missed, grace=timedelta(seconds=60))
        assert told(late, after(minutes=58)) == [("12:10:00", "missed", 5)]


def test_without_grace_only_the_very_instant_is_on_time() -> None:
    strict = due(grace=timedelta(0))
    assert told(strict, after(minutes=2)) == [("12:01:00", "missed", 1), ("12:02:00", "fired", 1)]
    assert told(strict, after(minutes=2) + TICK) == [("12:01:00", "missed", 2)]


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize("missed", ["latest", "none"])
def test_an_outage_of_thirty_days_costs_a_few_rows_and_no_time(missed: Missed) -> None:
    began = thread_time()
    made = plan(due(SECONDLY, missed=missed), after(days=30), PUNCTUAL)
    assert thread_time() - began < 0.5
    assert sum(row.slots for row in made.decided) == 30 * 86400
    assert len(made.decided) <= 33
    assert made.decided[0].slots >= 30 * 86400 - 301


def test_a_long_outage_of_a_rule_in_a_zone_counts_its_gaps_and_folds() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    hourly = due("30 * * * *", cursor=start, started_at=start, tz="Europe/Berlin")
    (row,) = decided(hourly, datetime(2031, 1, 1, tzinfo=UTC))
    assert row.slots == 365 * 24, "a rhythm goes by the instant"
    daily = due("30 2 * * *", cursor=start, started_at=start, tz="Europe/Berlin")
    (row,) = decided(daily, datetime(2031, 1, 1, 12, tzinfo=UTC))
    assert row.slots == 366


# --- taken by hand --------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-3", "SLOT-11")
def test_a_slot_that_was_taken_by_hand_is_not_decided_again() -> None:
    made = plan(due(taken=[after(minutes=1)]), after(minutes=1), PUNCTUAL)
    assert (list(made.decided), made.cursor, made.next_run_at) == ([], after(minutes=1), after(minutes=2))


@pytest.mark.contract("SLOT-11")
def test_taken_slots_split_the_runs_around_them() -> None:
    taken = [after(minutes=minute) for minute in (1, 5, 6, 18)]
    assert told(due(taken=taken), after(minutes=20)) == [
        ("12:02:00", "missed", 3),
        ("12:07:00", "missed", 8),
        ("12:15:00", "coalesced", 3),
        ("12:19:00", "coalesced", 1),
        ("12:20:00", "fired", 1),
    ]


def test_when_the_latest_one_was_taken_by_hand_nothing_more_fires() -> None:
    rows = told(due(taken=[after(minutes=3)]), after(minutes=3))
    assert rows == [("12:01:00", "coalesced", 2)]


def test_each_passes_over_what_was_taken() -> None:
    rows = told(due(missed="each", max_instances=9, taken=[after(minutes=2)]), after(minutes=3))
    assert rows == [("12:01:00", "fired", 1), ("12:03:00", "fired", 1)]


@pytest.mark.contract("SLOT-11")
def test_an_extra_run_takes_no_regular_slot() -> None:
    rows = told(due(taken=[after(seconds=90, microseconds=5)]), after(minutes=2))
    assert rows == [("12:01:00", "coalesced", 1), ("12:02:00", "fired", 1)]


# --- something in the way -------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-5")
@pytest.mark.parametrize("missed", ["latest", "each", "none"])
def test_a_slot_that_finds_a_run_is_skipped_with_the_job_in_the_way(missed: Missed) -> None:
    (row,) = decided(due(missed=missed, unfinished=[7]), after(minutes=1))
    assert row == Decided(after(minutes=1), "skipped", "max_instances", blocked_by=7)


@pytest.mark.contract("SLOT-5")
def test_more_may_run_at_once_if_the_schedule_says_so() -> None:
    assert decided(due(max_instances=3, unfinished=[7, 8]), after(minutes=1))[0].verdict == "fired"
    (row,) = decided(due(max_instances=3, unfinished=[7, 8, 9]), after(minutes=1))
    assert (row.verdict, row.blocked_by) == ("skipped", 7)


@pytest.mark.contract("SLOT-5")
def test_after_an_outage_the_latest_is_skipped_if_a_run_is_in_the_way() -> None:
    rows = decided(due(unfinished=[7]), after(minutes=3))
    assert [(row.verdict, row.blocked_by) for row in rows] == [("coalesced", None), ("skipped", 7)]


def finished_step(wanted: Due, now: datetime, first_id: int = 100) -> list[Decided]:
    numbers = count(first_id)
    return list(step(plan(wanted, now, PUNCTUAL), lambda: next(numbers)).decided)


@pytest.mark.contract("SLOT-5")
def test_jobs_made_in_the_same_step_are_in_the_way_too() -> None:
    rows = finished_step(due(missed="each", max_instances=2), after(minutes=4))
    assert [(row.verdict, row.job_id, row.blocked_by) for row in rows] == [
        ("fired", 100, None),
        ("fired", 101, None),
        ("skipped", None, 101),
        ("skipped", None, 101),
    ]


@pytest.mark.contract("SLOT-5")
def test_an_older_job_is_named_before_one_of_the_same_step() -> None:
    rows = finished_step(due(missed="each", max_instances=2, unfinished=[7]), after(minutes=2))
    assert [(row.verdict, row.job_id, row.blocked_by) for row in rows] == [("fired", 100, None), ("skipped", None, 7)]


def test_a_step_carries_the_guard_and_as_many_ids_as_it_fires() -> None:
    asked: list[int] = []

    def take_id() -> int:
        asked.append(len(asked))
        return 50

    wanted = step(plan(due(), after(minutes=1), PUNCTUAL), take_id)
    assert (wanted.schedule_id, wanted.version, wanted.cursor) == (1, 3, after(minutes=1))
    assert wanted.decided[0].job_id == 50
    step(plan(due(unfinished=[1]), after(minutes=1), PUNCTUAL), take_id)
    assert len(asked) == 1


# --- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-15")
def test_a_thousand_slots_a_step_and_the_rest_is_picked_up() -> None:
    now, wanted = after(seconds=2500), due(SECONDLY, missed="each", grace=timedelta(hours=1), max_instances=1000)
    seen: list[Decided] = []
    cuts = []
    for _ in range(3):
        made = plan(wanted, now, PUNCTUAL)
        seen += made.decided
        cuts.append(made.cut)
        assert len(made.decided) <= MOST
        assert made.next_run_at == made.cursor + timedelta(seconds=1), "what is cut is due at once"
        wanted = wanted._replace(cursor=made.cursor)
    assert cuts == [True, True, False]
    assert [row.scheduled_for for row in seen] == [after(seconds=second) for second in range(1, 2501)]
    assert made.next_run_at == after(seconds=2501)


@pytest.mark.contract("HOOK-15")
def test_exactly_a_thousand_are_not_cut() -> None:
    made = plan(
        due(SECONDLY, missed="each", grace=timedelta(hours=1), max_instances=1000), after(seconds=1000), PUNCTUAL
    )
    assert (made.cut, made.fires, made.cursor) == (False, 1000, after(seconds=1000))


def test_what_is_put_off_keeps_its_cursor() -> None:
    made = put_off(due(), after(minutes=9))
    assert (made.cursor, made.next_run_at, made.decided, made.fires) == (NOON, after(minutes=9), (), 0)
    (first, *_) = plan(due(next_run_at=after(minutes=9)), after(minutes=9), PUNCTUAL).decided
    assert first.scheduled_for == after(minutes=1), "it goes on from the cursor, not from when it was put off to"


def test_a_clock_that_stepped_back_decides_nothing() -> None:
    made = plan(due(cursor=after(hours=1)), after(minutes=1), PUNCTUAL)
    assert (made.decided, made.cursor, made.next_run_at) == ((), after(hours=1), after(hours=1, minutes=1))


def test_a_rule_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidSchedule):
        plan(due(tz="Mars/Olympus"), after(minutes=1), PUNCTUAL)


# --- whatever the rule, the outage and the hands --------------------------------------------------------------------

RULES = (
    MINUTELY, SECONDLY, "*/7 * * * *", "0 */2 * * *", "30 2 * * *", "15,45 1-3 * * MON", "0 0 29 2 *",
    "@every 1s", "@every 90s", "@every 1h7m13s", "@daily", "*/20 * * * * *",
)  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")


@st.composite
def situations(draw: st.DrawFn) -> tuple[Due, datetime]:
    """A schedule, how far it has come, what was taken by hand, and the time: near a DST change, often."""
    start = draw(
        st.sampled_from([NOON, datetime(2030, 3, 30, 22, 13, 7, 5, tzinfo=UTC), datetime(2030, 10, 26, 21, tzinfo=UTC)])
    )
    expression, tz = draw(st.sampled_from(RULES)), draw(st.sampled_from(ZONES))
    cursor = start + timedelta(seconds=draw(st.integers(0, 7200)))
    length = draw(st.sampled_from([1, 60, 400, 4000, 100_000]))
    now = cursor + timedelta(microseconds=draw(st.integers(0, length * 1_000_000)))
    dst = draw(st.sampled_from(triggers.DST_POLICIES))
    trigger = triggers.trigger(triggers.Rule(expression, tz, dst), start)
    found = [slot for slot, _ in zip(triggers.between(trigger, cursor, now), range(300), strict=False)]
    taken = draw(st.lists(st.sampled_from(found), unique=True, max_size=5)) if found else []
    extra = draw(st.lists(st.integers(1, max((now - cursor) // TICK, 1)), unique=True, max_size=2))
    offbeat = [cursor + number * TICK for number in extra]
    taken += [instant for instant in offbeat if not trigger.has(instant) and instant <= now]
    wanted = due(
        expression, cursor, tz=tz, dst=dst, started_at=start, taken=draw(st.permutations(taken)),
        missed=draw(st.sampled_from(["latest", "each", "none"])),
        grace=timedelta(seconds=draw(st.sampled_from([0, 1, 45, 300, 86400]))),
        max_instances=draw(st.sampled_from([1, 2, 1000])), unfinished=draw(st.sampled_from([[], [7], [7, 8]])),
    )  # fmt: skip
    return wanted, now


def covered(wanted: Due, rows: Sequence[Decided]) -> list[datetime]:
    """The slots that rows tell of, one by one."""
    trigger = triggers.trigger_of(wanted)
    found: list[datetime] = []
    for row in rows:
        told = list(triggers.between(trigger, row.scheduled_for - TICK, row.until or row.scheduled_for))
        assert len(told) == row.slots, row
        assert (told[0], told[-1]) == (row.scheduled_for, row.until or row.scheduled_for)
        assert (row.until is None) == (row.slots == 1)
        found += told
    return found


@pytest.mark.contract("SLOT-3", "SLOT-10")
@given(situations())
def test_every_slot_is_decided_once_and_none_early(situation: tuple[Due, datetime]) -> None:
    wanted, now = situation
    made = plan(wanted, now, PUNCTUAL)
    trigger = triggers.trigger_of(wanted)
    there = set(triggers.between(trigger, wanted.cursor, made.cursor))
    found = covered(wanted, made.decided)
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert set(found) == there - set(wanted.taken), "all but what was taken, and nothing else"
    assert wanted.cursor <= made.cursor <= max(now, wanted.cursor)
    assert made.next_run_at == trigger.after(made.cursor)
    if not made.cut:
        assert made.next_run_at is None or made.next_run_at > now
    grace = min(wanted.grace, PUNCTUAL) if wanted.missed == "none" else wanted.grace
    fired = [row for row in made.decided if row.verdict == "fired"]
    assert made.fires == len(fired) <= max(wanted.max_instances - len(wanted.unfinished), 0)
    for row in made.decided:
        is_fresh = row.scheduled_for >= now - grace
        assert (row.verdict == "missed") == (not is_fresh)
        assert row.verdict != "missed" or (row.until or row.scheduled_for) < now - grace


@given(situations())
def test_the_audit_finds_nothing_wrong_with_what_was_decided(situation: tuple[Due, datetime]) -> None:
    wanted, now = situation
    made = plan(wanted, now, PUNCTUAL)
    revision = Revision(
        1, 1, wanted.started_at, "task", "{}", "default", 0, wanted.expression, wanted.tz, wanted.dst, wanted.missed,
        wanted.grace.total_seconds(), wanted.max_instances, True, None, "tests",
    )  # fmt: skip
    trigger = triggers.trigger_of(wanted)
    rows = [as_row(row) for row in finished_step(wanted, now)]
    by_hand = [
        as_row(Decided(at, "manual", "trigger" if trigger.has(at) else "run_now", 9), state="running")
        for at in wanted.taken
    ]
    rows = sorted([*rows, *by_hand], key=lambda row: row.scheduled_for)
    found = audit([revision], rows, made.cursor, None, wanted.cursor + TICK, now)
    assert found.holds, found.problems
    total = sum(count for verdict, count in found.counts().items())
    extra = sum(not trigger.has(at) for at in wanted.taken)
    assert total - extra == trigger.count(wanted.cursor, now)


def as_row(row: Decided, state: Any = "queued") -> Slot:
    return Slot(
        schedule_id=1, scheduled_for=row.scheduled_for, until=row.until, slots=row.slots, verdict=row.verdict,
        reason=row.reason, job_id=row.job_id, blocked_by=row.blocked_by, revision=1, decided_at=NOON,
        decided_by=UUID(int=1), epoch=1, state=None if row.job_id is None else state, state_reason=None,
        started_at=None, finished_at=None, worker=None, error=None,
    )  # fmt: skip


@given(situations(), st.integers(0, 3))
def test_it_does_not_matter_how_often_somebody_looks(situation: tuple[Due, datetime], stops: int) -> None:
    """Steps in between change which slots are late, never which slots there are."""
    wanted, now = situation
    instants = [wanted.cursor + (now - wanted.cursor) * part / (stops + 1) for part in range(1, stops + 1)]
    found: list[datetime] = []
    for instant in [*instants, *[now] * 60]:
        made = plan(
            wanted._replace(taken=[at for at in wanted.taken if wanted.cursor < at <= instant]), instant, PUNCTUAL
        )
        found += covered(wanted, made.decided)
        wanted = wanted._replace(cursor=made.cursor)
        if instant == now and not made.cut:
            break
    start = situation[0].cursor
    there = set(triggers.between(triggers.trigger_of(wanted), start, wanted.cursor)) - set(situation[0].taken)
    assert set(found) == there
    assert len(found) == len(there)


# --- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-3", "SLOT-5")
def test_a_slot_whose_key_is_held_is_skipped_with_the_job_in_the_way() -> None:
    held = due(key="k", holder=7)
    assert decided(held, after(minutes=1)) == [Decided(after(minutes=1), "skipped", "key_held", blocked_by=7)]
    assert decided(due(key="k"), after(minutes=1)) == [Decided(after(minutes=1), "fired")]
    full = due(key="k", holder=7, unfinished=(7,))
    assert [row.reason for row in decided(full, after(minutes=1))] == ["max_instances"]


@pytest.mark.contract("QUE-3")
def test_of_slots_that_are_due_together_the_first_has_the_key() -> None:
    many = plan(due(key="k", missed="each", max_instances=5), after(minutes=3), PUNCTUAL)
    made = step(many, count(40).__next__)
    assert made.key == "k"
    assert [(row.verdict, row.reason, row.job_id, row.blocked_by) for row in made.decided] == [
        ("fired", None, 40, None), ("skipped", "key_held", None, 40), ("skipped", "key_held", None, 40),
    ]  # fmt: skip


@pytest.mark.contract("QUE-3")
def test_steps_with_keys_are_written_apart_and_two_of_one_key_one_after_the_other() -> None:
    steps = [Step(number, 1, NOON, None, (), key) for number, key in enumerate((None, "a", "b", None, "a", "c", "a"))]
    assert [[one.schedule_id for one in group] for group in together(steps)] == [[0, 3], [1, 2, 5], [4], [6]]
    many = [Step(number, 1, NOON, None, (), "a") for number in range(100)]
    assert [[one.schedule_id for one in group] for group in together(many)] == [[n] for n in range(MOST_GROUPS)]
    assert together([]) == []
