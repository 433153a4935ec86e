"""What is said of a subject's day, for every way in which it can stand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from oncue.model import EVERY_DAY, Job, Revision, Slot, Subject
from oncue.policy.explain import (
    DayFacts,
    Explanation,
    JobFacts,
    WindowFacts,
    day_in_question,
    explain_day,
    explain_window,
)
from oncue.policy.options import Options, WindowOptions
from oncue.policy.windows import slot_of
from tests.policy.test_explain import (
    DESERTED,
    NOW,
    a_cluster,
    a_job,
    a_node,
    a_revision,
    a_schedule,
    about_job,
    after,
    before,
    suggestion_of,
    text_of,
)

TODAY = NOW.date()
"""A Tuesday. It is noon."""
WINDOW = a_schedule(name="digest", task="send", queue="mail", expression="@window 1h retry 10m")
REVISIONS: list[Revision] = [a_revision(expression="@window 1h retry 10m", started_at=before(days=90))]


def ann(**fields: Any) -> Subject:
    """Her window of today is from 11:30 to 12:30."""
    values: dict[str, Any] = {
        "schedule_id": 1, "name": "ann", "due": 750, "tz": None, "weekdays": EVERY_DAY, "days_off": (), "args": "{}",
        "version": 1, "since": before(days=60), "day": TODAY, "opens_at": before(minutes=30),
        "cutoff_at": after(minutes=30), "next_at": after(minutes=30), "job_id": 42, "last_date": None, "status": None,
        "reason": None, "last_run_at": None, "created_at": before(days=60), "updated_at": NOW, "removed_at": None,
    }  # fmt: skip
    return Subject(**{**values, **fields})


def later(**fields: Any) -> Subject:
    """Her window of today is from 17:00 to 18:00."""
    return ann(
        due=1080, opens_at=after(hours=5), cutoff_at=after(hours=6), next_at=after(hours=5), job_id=None, **fields
    )


def a_row(day: date = TODAY, **fields: Any) -> Slot:
    values: dict[str, Any] = {
        "schedule_id": 1, "scheduled_for": slot_of(day), "until": None, "slots": 1, "verdict": "fired", "reason": None,
        "job_id": 42, "blocked_by": None, "revision": 1, "decided_at": before(minutes=30), "decided_by": None,
        "epoch": 1, "state": "queued", "state_reason": None, "started_at": None, "finished_at": None, "worker": None,
        "error": None,
    }  # fmt: skip
    return Slot(**{**values, **fields})


def job_of_day(**fields: Any) -> Job:
    window = WindowOptions(600.0, "user", cutoff_at=after(minutes=30))
    options = replace(Options(), window=window).stored()
    return a_job(subject="ann", schedule_id=1, scheduled_for=slot_of(TODAY), options=options, **fields)


def about_facts(job: Job, **facts: Any) -> JobFacts:
    return JobFacts(job, a_cluster(), schedule="digest", **facts)


def told(subject: Subject, *rows: Slot, day: date = TODAY, **facts: Any) -> Explanation:
    cluster = facts.pop("cluster", a_cluster())
    return explain_day(DayFacts(facts.pop("window", WINDOW), REVISIONS, subject, day, cluster, rows, **facts))


# --- days that are not open -----------------------------------------------------------------------------------------


def test_a_window_that_opens_later() -> None:
    found = told(later())
    assert (found.subject, found.status, found.codes) == (
        f"day {TODAY} of ann in window digest", "not_open_yet", ["not_open_yet"],
    )  # fmt: skip
    assert text_of(found, "not_open_yet") == (
        "Its window opens at 2030-01-01T17:00:00Z (in 5h), for its cutoff at 2030-01-01T18:00:00Z (in 6h)."
    )
    assert suggestion_of(found, "not_open_yet") == "do it now: `oncue subjects run digest ann`"


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        ({"cluster": DESERTED}, ["no_leader", "no_node_alive"]),
        ({"cluster": a_cluster(nodes=[a_node(queues=("other",))])}, ["no_node_serves_queue"]),
        ({"cluster": a_cluster(nodes=[a_node(tasks=("other",))])}, ["no_node_knows_task"]),
        ({"paused_at": before(hours=1)}, ["paused_queue"]),
    ],
)
def test_what_will_be_in_the_way(facts: dict[str, Any], codes: list[str]) -> None:
    assert told(later(), **facts).codes == ["not_open_yet", *codes]


def test_a_window_that_is_open_and_waits_for_a_leader() -> None:
    found = told(ann(job_id=None), cluster=a_cluster(leader=None))
    assert found.codes == ["pending", "no_leader"]
    assert "open since 2030-01-01T11:30:00Z (30m ago)" in text_of(found, "pending")


def test_a_disabled_window() -> None:
    off = replace(WINDOW, enabled=False)
    found = explain_day(
        DayFacts(off, [*REVISIONS, a_revision(2, enabled=False, reason="a holiday", started_at=before(hours=2))],
                 later(), TODAY, a_cluster())
    )  # fmt: skip
    assert found.codes == ["disabled"]
    assert text_of(found, "disabled").startswith("The window is disabled, since 2030-01-01T10:00:00Z (2h ago)")


@pytest.mark.parametrize(
    ("subject", "day", "code"),
    [
        (later(days_off=(TODAY,), day=TODAY + timedelta(days=1)), TODAY, "day_off"),
        (later(weekdays=1, day=TODAY + timedelta(days=6)), TODAY, "weekday_left_out"),
        (later(tz="Pacific/Apia"), date(2011, 12, 30), "not_a_subject_yet"),
        (later(), TODAY - timedelta(days=70), "not_a_subject_yet"),
        (later(since=before(days=2)), TODAY - timedelta(days=20), "other_terms"),
        (later(removed_at=before(hours=1)), TODAY, "removed"),
        (later(), TODAY - timedelta(days=40), "past_retention"),
        (later(), TODAY - timedelta(days=3), "unaccounted"),
    ],
)
def test_days_without_a_row(subject: Subject, day: date, code: str) -> None:
    assert told(subject, day=day).codes == [code]


def test_a_date_that_a_zone_leaves_out() -> None:
    early = datetime(2011, 1, 1, tzinfo=UTC)
    found = told(later(tz="Pacific/Apia", since=early, created_at=early), day=date(2011, 12, 30))
    assert found.codes == ["no_such_date"]


# --- days with a row ------------------------------------------------------------------------------------------------


def test_an_open_day_tells_how_its_job_stands() -> None:
    waiting = about_facts(job_of_day(), ahead=7)
    found = told(ann(), a_row(), job=waiting)
    assert (found.status, found.codes[:2]) == ("open", ["open", "behind"])
    assert "job 42 has until its cutoff at 2030-01-01T12:30:00Z (in 30m)" in text_of(found, "open")
    assert text_of(found, "behind") == "It is behind 7 others of queue mail: 7 with the same cutoff or an earlier one."


def test_a_failed_attempt_and_when_the_next_is_due() -> None:
    retrying = job_of_day(state="retrying", error="LlmError: away", visible_at=after(minutes=5), retry_count=1)
    found = told(ann(), a_row(state="retrying"), job=about_facts(retrying))
    assert text_of(found, "next_retry") == (
        "Its last attempt failed: LlmError: away. The next one is due at 2030-01-01T12:05:00Z (in 5m); "
        "attempts go on until its cutoff 2030-01-01T12:30:00Z (in 30m)."
    )
    last = job_of_day(state="retrying", error="LlmError: away", visible_at=after(minutes=35), retry_count=6)
    assert text_of(told(ann(), a_row(state="retrying"), job=about_facts(last)), "next_retry") == (
        "Its last attempt failed: LlmError: away. There is no other: the next one would be due at "
        "2030-01-01T12:35:00Z (in 35m), after its cutoff 2030-01-01T12:30:00Z (in 30m)."
    )


def test_a_job_that_ended_leaves_the_day_to_its_cutoff() -> None:
    found = told(ann(), a_row(state="cancelled"))
    assert found.status == "ended"
    assert text_of(found, "ended").startswith("Its job 42 ended as cancelled and is not tried again; ")
    assert suggestion_of(found, "ended") == "try again before its cutoff: `oncue retry 42`"
    over = told(ann(cutoff_at=before(minutes=1)), a_row(state="cancelled"))
    assert suggestion_of(over, "ended") is None


def test_a_success() -> None:
    found = told(ann(last_date=TODAY, status="success"), a_row(state="succeeded", finished_at=before(minutes=10)))
    assert found.status == "success"
    assert "40m before its cutoff, by job 42" in text_of(found, "success")


@pytest.mark.parametrize(
    ("row", "status", "says"),
    [
        (a_row(state="skipped", state_reason="cutoff_reached"), "cutoff_reached", "no attempt of job 42 had succeeded"),
        (a_row(state="failed", reason="cutoff_reached"), "cutoff_reached", "no attempt of job 42 had succeeded"),
        (a_row(verdict="skipped", reason="cutoff_reached", job_id=None, state=None), "cutoff_reached", "no leader ran"),
        (a_row(verdict="skipped", reason="added_late", job_id=None, state=None), "added_late", "after that day"),
        (a_row(verdict="missed", reason="outage", job_id=None, state=None), "missed", "no leader ran from its cutoff"),
        (a_row(state="cancelled", reason="outage"), "missed", "Job 42 ended without it"),
        (a_row(state=None), "lost", "Job 42 is not there"),
    ],
)  # fmt: skip
def test_days_that_are_over(row: Slot, status: str, says: str) -> None:
    found = told(ann(opens_at=before(hours=3), cutoff_at=before(hours=2)), row)
    assert found.status == status
    assert says in found.findings[0].text


def test_a_run_of_missed_days_leaves_out_days_off() -> None:
    run = a_row(TODAY - timedelta(days=4), until=slot_of(TODAY - timedelta(days=1)), slots=3, verdict="missed",
                reason="outage", job_id=None, state=None)  # fmt: skip
    off = TODAY - timedelta(days=2)
    subject = later(days_off=(off,))
    assert told(subject, run, day=TODAY - timedelta(days=3)).status == "missed"
    assert told(subject, run, day=off).status == "day_off"


# --- which day, which job, which window -----------------------------------------------------------------------------


def test_the_day_in_question_is_the_open_one_else_todays() -> None:
    across = ann(day=TODAY + timedelta(days=1), opens_at=before(minutes=1), cutoff_at=after(minutes=59))
    assert day_in_question(across, WINDOW, NOW) == TODAY + timedelta(days=1)
    decided = ann(day=TODAY + timedelta(days=1), opens_at=after(hours=23), cutoff_at=after(hours=24))
    assert day_in_question(decided, WINDOW, NOW) == TODAY
    assert day_in_question(replace(decided, tz="Pacific/Kiritimati"), WINDOW, NOW) == TODAY + timedelta(days=1)


def test_a_windows_job_tells_its_day_and_its_cutoff() -> None:
    found = about_job(job_of_day(), schedule="digest")
    assert found.codes[0] == "day_of"
    assert text_of(found, "day_of") == (
        f"It is for the day {TODAY} of ann in window digest; its cutoff is 2030-01-01T12:30:00Z (in 30m)."
    )
    assert suggestion_of(found, "day_of") == f"`oncue explain digest --subject ann --day {TODAY}` tells of the day"
    given_up = about_job(job_of_day(state="failed", error="ValueError: no", finished_at=NOW), schedule="digest")
    assert given_up.codes == ["day_of", "settled", "given_up"]
    assert suggestion_of(given_up, "given_up") == "start it over with `oncue retry 42`"


def test_a_window_as_a_whole() -> None:
    facts = WindowFacts(WINDOW, REVISIONS, a_cluster(), next_at=after(minutes=5))
    found = explain_window(facts)
    assert (found.status, found.codes) == ("enabled", ["window", "next_look"])
    assert explain_window(replace(facts, cluster=DESERTED)).status == "no_leader"
