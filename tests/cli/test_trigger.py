"""Slots decided by hand: triggered, run now, backfilled; on each back end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.cli.agenda import at, synchronised, worked_off
from tests.cli.conftest import Shell

DAILY = ["schedules", "add", "daily", "0 3 * * *", "note", "text=hello"]
SLOT = "2026-01-15T03:00:00Z"


@pytest.mark.contract("SLOT-11")
def test_a_slot_is_claimed_by_its_name_once(oncue: Shell, diary: str) -> None:
    oncue(*DAILY)
    told = oncue("trigger", "daily", "--at", SLOT, "--json").json
    assert (told["scheduled_for"], told["verdict"], told["reason"], told["job_id"]) == (SLOT, "manual", "trigger", 1)
    worked_off(diary)
    again = oncue("trigger", "daily", "--at", "2026-01-15T04:00:00+01:00")
    assert again.code == 1
    assert "slot 2026-01-15T03:00:00+00:00 of 'daily' was decided at " in again.err
    assert again.err.endswith("manual (trigger), as job 1\n")
    assert len(oncue("jobs", "--json").json) == 1
    assert oncue("trigger", "daily", "--at", "2026-01-16 03:00").out == (
        "job 3 is made for slot 2026-01-16T03:00:00Z of daily\n"
    )


def test_a_slot_that_is_still_to_come_is_used_up(oncue: Shell, diary: str) -> None:
    oncue(*DAILY)
    early = oncue("schedules", "show", "daily", "--json").json["next_run_at"]
    told = oncue("trigger", "daily", "--at", early, "--json")
    assert told.json["scheduled_for"] == early
    assert told.err == ("oncue: this slot is still to come: it is used up now, and will not run again at its time\n")
    worked_off(diary)
    assert oncue("trigger", "daily", "--at", SLOT).err == ""
    worked_off(diary)
    assert oncue("trigger", "daily").err == ""


@pytest.mark.contract("SLOT-11")
def test_run_now_uses_no_regular_slot(oncue: Shell, diary: str) -> None:
    oncue(*DAILY)
    before = oncue("schedules", "show", "daily", "--json").json
    told = oncue("trigger", "daily")
    assert told.out.startswith("job 1 is made for the extra slot ")
    after = oncue("schedules", "show", "daily", "--json").json
    assert after["next_run_at"] == before["next_run_at"]
    slot = after["slot_list"][0]
    assert (slot["reason"], slot["outcome"]) == ("run_now", "queued")
    assert at(slot["scheduled_for"]) != at(slot["scheduled_for"]).replace(microsecond=0), "no slot of the rule"


@pytest.mark.contract("SLOT-5", "SLOT-11")
def test_a_run_in_the_way_refuses_and_takes_no_slot(oncue: Shell, diary: str) -> None:
    oncue(*DAILY)
    assert oncue("trigger", "daily").code == 0
    for arguments in ([], ["--at", SLOT]):
        refused = oncue("trigger", "daily", *arguments)
        assert refused.code == 1
        assert "job 1 is not finished: no slot was taken" in refused.err
    worked_off(diary)
    assert oncue("trigger", "daily", "--at", SLOT).code == 0


@pytest.mark.contract("SLOT-4")
def test_what_is_no_slot_is_refused_with_its_neighbours(oncue: Shell, diary: str) -> None:
    oncue(*DAILY)
    answer = oncue("trigger", "daily", "--at", "2026-01-15T03:30:00Z")
    assert answer.code == 2
    assert "--at: 2026-01-15T03:30:00+00:00 is no slot of 'daily' (0 3 * * *)" in answer.err
    assert "near: 2026-01-15T03:00:00+00:00 and 2026-01-16T03:00:00+00:00" in answer.err
    assert oncue("trigger", "daily", "--at", "soon").code == 2
    assert oncue("trigger", "weekly").err == "oncue: there is no schedule 'weekly'\n"


def test_a_disabled_schedule_can_be_run_and_says_so(oncue: Shell, diary: str) -> None:
    oncue(*DAILY, "--disabled")
    told = oncue("trigger", "daily").out
    assert "The schedule itself does not run (disabled by hand)" in told


def test_no_application_is_needed_to_trigger(oncue: Shell, diary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronised(diary)
    monkeypatch.delenv("ONCUE_APP")
    assert oncue("trigger", "nightly").code == 0


# --- backfill -------------------------------------------------------------------------------------------------------

SPAN = ["backfill", "daily", "--from", "2026-01-01", "--to", "2026-01-04T03:00:00Z"]


def test_a_backfill_makes_what_is_absent_and_nothing_twice(oncue: Shell, diary: str) -> None:
    oncue(*DAILY)
    oncue("trigger", "daily", "--at", "2026-01-02T03:00:00Z")
    plan = oncue(*SPAN, "--dry-run")
    assert plan.out.startswith("3 jobs would be made for daily; 1 slot was decided already. Nothing was written.\n")
    assert "The first would be for 2026-01-01T03:00:00Z, the last for 2026-01-04T03:00:00Z." in plan.out
    assert "2026-01-02T03:00:00Z" not in oncue(*SPAN, "--dry-run", "--json").json["slots"]
    assert len(oncue("jobs", "--json").json) == 1
    done = oncue(*SPAN)
    assert done.out == (
        "3 jobs made for daily; 1 slot was decided already.\nThey run oldest slot first, one at a time.\n"
    )
    again = oncue(*SPAN)
    assert again.code == 0
    assert again.out.startswith("0 jobs made for daily; 4 slots were decided already.\n")
    assert "`oncue audit daily --from 2026-01-01T00:00:00Z --to 2026-01-04T03:00:00Z` tells" in again.out
    assert oncue(*SPAN, "--json").json["jobs"] == []
    worked_off(diary)
    jobs = oncue("jobs", "--json").json
    assert [job["status"] for job in jobs] == ["succeeded"] * 4
    ran = oncue("audit", "daily", "--from", "2026-01-01", "--to", "2026-01-11", "--json").json
    assert (ran["holds"], ran["counts"]) == (True, {"manual": 4})
    started = [fate["row"]["started_at"] for fate in ran["fates"] if fate["reason"] == "backfill"]
    assert started == sorted(started), "oldest first"


def test_spans_that_make_no_sense_are_refused(oncue: Shell, sqlite_diary: str) -> None:
    oncue(*DAILY)
    for start, end, complaint in (
        ("2026-01-02", "2026-01-01", "--from: expected an instant before 2026-01-01"),
        ("-1d", "2100-01-01", "--to: expected an instant that is not in the future"),
        ("yesterday", "now", "--from: expected an instant such as 2030-01-31T09:00:00Z"),
        ("-2 hours", "now", "or a duration before now such as -2h or -7d, not '-2 hours'"),
    ):
        answer = oncue("backfill", "daily", "--from", start, "--to", end)
        assert (answer.code, complaint in answer.err) == (2, True), answer.err
    oncue("schedules", "add", "secondly", "* * * * * *", "note", "text=x")
    large = oncue("backfill", "secondly", "--from", "-7d", "--to", "now")
    assert (large.code, "take it in parts" in large.err) == (2, True)


def test_an_interval_has_no_slots_before_it_began(oncue: Shell, sqlite_diary: str) -> None:
    oncue("schedules", "add", "often", "@every 90s", "note", "text=x")
    answer = oncue("backfill", "often", "--from", "-1d", "--to", "now")
    assert "0 jobs made for often" in answer.out
    assert "are counted from " in answer.out


def test_instants_as_people_type_them(oncue: Shell, sqlite_diary: str) -> None:
    oncue("schedules", "add", "minutely", "* * * * *", "note", "text=x")
    now = datetime.now(UTC)
    for text, away in (("-2h", 7200.0), ("-1h30m", 5400.0), ("-1d", 86400.0)):
        told = oncue("backfill", "minutely", "--from", text, "--to", "now", "--dry-run", "--json").json
        assert abs((now - at(told["from"])).total_seconds() - away) < 60
        assert abs((now - at(told["to"])).total_seconds()) < 60
    for text, instant in (
        ("2026-01-02", "2026-01-02T00:00:00Z"),
        ("2026-01-02T03:04", "2026-01-02T03:04:00Z"),
        ("2026-01-02 03:04:05+02:00", "2026-01-02T01:04:05Z"),
    ):
        told = oncue("backfill", "minutely", "--from", text, "--to", "2026-01-03", "--dry-run", "--json").json
        assert told["from"] == instant
