"""Every promise can be broken: one thing is spoiled in a clean history, and the promise that it breaks says so."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from oncue.sim.checker import CHAPTERS, PROMISES, Final, Violation, check, report
from oncue.sim.checker.promises import MOST_EVENTS, MOST_VIOLATIONS
from oncue.sim.history import Event
from tests.sim.bugs.catalogue import BUGS
from tests.sim.spoiled import Case
from tests.sim.spoiled_deliveries import CASES, some_deliveries
from tests.sim.story import LEASE, SECOND, Story, some_hours


def judged(story: Story, drained_within: float = 60) -> list[Violation]:
    """With everything that can be asked for."""
    return check(story.events, story.final(), drained_within=drained_within, late=2, lease=LEASE / SECOND, prompt=8)


def promises(found: list[Violation]) -> set[str]:
    return {violation.promise for violation in found}


@pytest.mark.parametrize("hours", [1, 3])
def test_a_clean_history_raises_no_alarm(hours: int) -> None:
    assert report(judged(some_hours(hours))) == ""


def test_a_clean_history_of_deliveries_raises_no_alarm() -> None:
    story = some_hours()
    some_deliveries(story)
    assert report(judged(story, drained_within=600)) == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.spoil.__name__)
def test_what_is_spoiled_is_seen(case: Case) -> None:
    story = some_hours()
    case.spoil(story)
    found = [violation.message for violation in judged(story) if violation.promise == case.promise]
    assert any(case.says in message for message in found), found


def test_every_promise_can_be_broken() -> None:
    """By a history that is spoiled, or by a seeded bug that no other promise is to catch."""
    by_bugs = {bug.caught_by[0] for bug in BUGS if len(bug.caught_by) == 1}
    assert {case.promise for case in CASES} | by_bugs == set(PROMISES)


@pytest.mark.parametrize("lost", ["b", "client", "world"])
def test_a_clean_history_with_a_hole_raises_no_alarm(lost: str) -> None:
    story = some_hours()
    left = [event for event in story.events if event.node != lost]
    assert check(left, story.final(), complete=False, ordered=False, tolerance=1.0) == []
    assert check(left, story.final(), complete=False) == []


# --- the database's clock is set ------------------------------------------------------------------------------------


def with_a_step(story: Story, seconds: float) -> Story:
    """The same history, but somebody sets the clock when b is taken for lost, and all that follows is told by it."""
    place = story.place(story.find("lease.end"))
    at, until = story.events[place].at, story.events[place].at + 10 * SECOND
    step = Event(at, "world", "fault", {"what": "clock", "node": None, "until": until})
    after = [_told_by_another_clock(event, round(seconds * SECOND)) for event in story.events[place:]]
    story.events[place:] = [step, *after]
    for row in story.rows.values():
        for name in ("started_at", "ended_at"):
            if row[name] is not None and row[name] > at:
                row[name] += round(seconds * SECOND)
    return story


def _told_by_another_clock(event: Event, by: int) -> Event:
    instants = ("until", "visible_at", "started_at", "ended_at", "deadline_at", "before")
    moved = {name: event.fields[name] + by for name in instants if name in event.fields}
    return event._replace(at=event.at + by, fields={**event.fields, **moved})


@pytest.mark.parametrize("seconds", [-3600, -30, 30, 3600])
def test_a_clean_history_in_which_the_clock_is_set_raises_no_alarm(seconds: int) -> None:
    assert report(judged(with_a_step(some_hours(), seconds))) == ""


@pytest.mark.parametrize("seconds", [-3600, -30, 30, 3600])
@pytest.mark.parametrize(
    "spoiled",
    [
        "a_late_write", "ended_twice", "claimed_while_it_runs", "started_after_its_end", "company_for_one_alone",
        "one_too_many", "answered_before_it_was_done", "a_stale_edit", "a_late_claim", "slow", "nobody_in_the_end",
        "ended_late",
    ],
)  # fmt: skip
def test_what_is_spoiled_is_seen_though_the_clock_is_set(spoiled: str, seconds: int) -> None:
    story = some_hours()
    case = next(case for case in CASES if case.spoil.__name__ == spoiled)
    case.spoil(story)
    assert case.promise in promises(judged(with_a_step(story, seconds)))


def test_the_time_before_everybody_knows_the_clock_is_not_judged() -> None:
    """The clock is set back by a minute: a process that does not know claims what is due by the time it remembers."""
    story = with_a_step(some_hours(), -60)
    early = story.find("claim", id=4, claim_no=2)
    story.find("change", id=4).fields["visible_at"] += 60 * SECOND
    assert judged(story) == []
    story.find("fault").fields["until"] = None
    assert promises(judged(story)) == {"a job is claimed only when it waits"}
    assert early in judged(story)[0].events


# --- a node that finds its own jobs among the lost -------------------------------------------------------------------


def test_only_a_node_whose_lease_is_over_may_rescue_what_it_has_ended_itself() -> None:
    """It stood still, was declared lost, and looks after the lost before it hears of its fate."""
    story = some_hours()
    rescue, outcome = story.find("change", id=4), {"outcome": "Succeeded", "delay": None, "final": False}
    story.drop(story.find("crash"))
    story.change_event(rescue, node="b")
    story.put(story.find("lease.end"), "b", "outcome", id=4, claim_no=1, **outcome)
    broken = "what an attempt came to is what is written"
    assert broken not in promises(judged(story))
    story.drop(story.find("lease.end"))
    story.put(story.find("start", id=4), "b", "lease", until=rescue.at + SECOND, renewed=True)
    assert broken in promises(judged(story))


# --- what people want ------------------------------------------------------------------------------------------------


def test_whoever_starts_a_cancelled_job_over_takes_the_cancel_back() -> None:
    story = some_hours()
    story.change("operator", 14, "queued", outcome="cancelled", attempt=1)
    story.rows[14]["cancel"] = False
    story.run("a", 14)
    assert check(story.events, story.final()) == []


def test_what_may_have_been_raised_for_its_age_is_not_held_against_the_order() -> None:
    story = some_hours()
    story.find("job", id=2).fields["priority"] = 50
    story.put(story.find("job", id=2), "a", "age", queue="default", priority=0, jobs=1)
    assert check(story.events, story.final()) == []


def test_a_plain_node_may_begin_what_it_had_when_another_became_exclusive() -> None:
    story = some_hours()
    story.put(story.find("claim", id=1), "b", "hold", name="exclusive", epoch=1, until=story.find("outcome", id=1).at)
    assert check(story.events, story.final()) == []


# --- limits that change ---------------------------------------------------------------------------------------------


def test_a_lower_limit_lets_what_runs_go_on() -> None:
    """Nobody is stopped. Once every node knows, the limit holds for what is claimed, beside the old jobs."""
    story = some_hours()
    for job_id in range(200, 203):
        _begin(story, job_id)
    story.tell("world", "limit", queue="default", globally=1)
    story.wait(20)
    _begin(story, 210)
    assert check(story.events, story.final()) == []
    _begin(story, 211)
    assert promises(check(story.events, story.final())) == {"a limited queue keeps its limit"}


def test_a_limit_that_is_lifted_holds_no_more() -> None:
    story = some_hours()
    story.tell("world", "limit", queue="default", globally=None)
    for job_id in range(200, 210):
        _begin(story, job_id)
    assert check(story.events, story.final()) == []


def _begin(story: Story, job_id: int) -> None:
    story.enqueue(job_id)
    story.claim("a", job_id)
    story.start("a", job_id)


# --- the report, and the work that it takes -------------------------------------------------------------------------


def test_a_report_shows_a_few_of_many() -> None:
    def start(job_id: int) -> Event:
        return Event(job_id, f"node{job_id}", "start", {"id": job_id, "claim_no": 1, "crashes": 5})

    found = check([start(job_id) for job_id in range(10)], Final(()), complete=False)
    assert len(found) == 10
    lines = report(found).splitlines()
    assert len(lines) == 2 * MOST_VIOLATIONS + 1
    assert lines[-1] == f"poison takes two deaths alone: and {10 - MOST_VIOLATIONS} more of these"
    many = Violation("a promise", "is broken", tuple(start(job_id) for job_id in range(MOST_EVENTS + 4)))
    assert str(many).splitlines()[-1].strip() == "and 4 more events"


def test_the_work_grows_with_the_history_and_no_faster() -> None:
    few, many = work(some_hours(4)), work(some_hours(16))
    assert 3.5 < many / few < 4.5


def work(story: Story) -> int:
    """How many lines the interpreter runs to check a history. (Python 3.12 does not trace instructions so late.)"""
    final, steps = story.final(), 0

    def count(frame: FrameType, event: str, told: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        assert check(story.events, final, drained_within=60, late=2, lease=LEASE / SECOND) == []
    finally:
        sys.settrace(before)
    return steps


# --- the documentation ----------------------------------------------------------------------------------------------


def listing() -> list[str]:
    """The promises as the documentation lists them, chapter by chapter."""
    lines = ["| promise | what that means |", "| --- | --- |"]
    for chapter in CHAPTERS:
        lines.append(f"| **{_first_sentence(chapter)}** | |")
        lines += [
            f"| {name} | {_first_sentence(kept)} |"
            for name, kept in PROMISES.items()
            if kept.__module__ == chapter.__name__
        ]
    return lines


def _first_sentence(explained: object) -> str:
    return " ".join((explained.__doc__ or "").split("\n\n")[0].split())


def test_the_documentation_lists_every_promise() -> None:
    text = (Path(__file__).parents[2] / "docs/guarantees.md").read_text("utf-8")
    listed = text.partition("<!-- promises -->\n")[2].partition("<!-- end of promises -->")[0]
    assert listed.splitlines() == listing()
