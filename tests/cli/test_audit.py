"""`oncue audit`: every slot's fate, and an alarm for what should not be; on each back end."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from oncue.records.documents import instant
from tests.cli.agenda import at, execute, made_ago, worked_off
from tests.cli.conftest import Shell

HOUR = timedelta(minutes=65)
ONE_FIRED = "(select min(scheduled_for) from oncue_slots where verdict = 'fired')"


def an_hour_of_slots(url: str) -> None:
    """Six or seven slots that fired, each with its job. The next one is minutes away."""
    every_ten_minutes = f"{(datetime.now(UTC).minute + 5) % 10}-59/10 * * * *"
    made_ago(
        url, HOUR, "often", every_ten_minutes, "note", args={"text": "x"}, missed="each", grace="3h", max_instances=99
    )
    worked_off(url)


@pytest.mark.contract("SLOT-16")
def test_every_slot_has_its_fate(oncue: Shell, diary: str) -> None:
    made_ago(diary, HOUR, "minutely", "* * * * *", "forget")
    worked_off(diary)
    answer = oncue("audit", "minutely", "--json")
    assert answer.code == 0
    told = answer.json
    assert (told["schedule"], told["holds"]) == ("minutely", True)
    assert 60 <= sum(told["counts"].values()) <= 67
    fates = {fate["verdict"]: fate for fate in told["fates"]}
    assert fates["missed"]["slots"] > 50, "a run of slots is one line"
    assert fates["missed"]["reason"] == "misfire"
    assert fates["coalesced"]["reason"].startswith("into ")
    assert fates["fired"]["row"]["outcome"] == "failed"
    shown = oncue("audit", "minutely").out
    assert "misfire" in shown
    assert f"{told['counts']['missed']} missed" in shown
    assert "Every slot is accounted for, once." in shown
    assert f"{at(fates['missed']['until']):%Y-%m-%d %H:%M:%S}" in shown


@pytest.mark.contract("SLOT-16")
def test_a_row_that_somebody_deleted_is_named(oncue: Shell, diary: str) -> None:
    an_hour_of_slots(diary)
    whole = oncue("audit", "often", "--json").json
    assert whole["holds"]
    gone = next(fate for fate in whole["fates"] if fate["verdict"] == "fired")
    execute(diary, f"delete from oncue_slots where scheduled_for = {ONE_FIRED}")
    answer = oncue("audit", "often")
    assert answer.code == 4
    assert answer.err == (
        f"oncue: often: slot {gone['scheduled_for']}: unaccounted: no row of the ledger tells of it\n"
    )
    assert "Every slot is accounted for" not in answer.out
    only = oncue("audit", "often", "--problems", "--json")
    assert only.code == 4
    assert [(fate["scheduled_for"], fate["verdict"]) for fate in only.json["fates"]] == [
        (gone["scheduled_for"], "unaccounted")
    ]
    after = instant(at(gone["scheduled_for"]) + timedelta(seconds=1))
    assert oncue("audit", "often", "--from", str(after)).code == 0, "outside of the span"


@pytest.mark.contract("SLOT-3", "SLOT-16")
def test_a_slot_with_two_jobs_is_named(oncue: Shell, diary: str) -> None:
    an_hour_of_slots(diary)
    execute(diary, f"update oncue_jobs set scheduled_for = {ONE_FIRED} where id = (select max(id) from oncue_jobs)")
    answer = oncue("audit", "often")
    assert answer.code == 4
    assert ": doubled: it has two jobs" in answer.err


@pytest.mark.contract("SLOT-16")
def test_a_slot_that_no_rule_asked_for_is_named(oncue: Shell, diary: str) -> None:
    an_hour_of_slots(diary)
    strange = "scheduled_for + interval '1 s'" if diary.startswith("postgres") else "scheduled_for + 1000000"
    execute(diary, f"update oncue_slots set scheduled_for = {strange} where scheduled_for = {ONE_FIRED}")
    answer = oncue("audit", "often")
    assert answer.code == 4
    assert ": unexpected: revision 1 has no such slot" in answer.err
    assert ": unaccounted: " in answer.err


@pytest.mark.contract("SLOT-16")
def test_a_job_that_is_not_there_any_more_is_named(oncue: Shell, diary: str) -> None:
    an_hour_of_slots(diary)
    execute(diary, "delete from oncue_jobs where id = 1")
    answer = oncue("audit", "often")
    assert answer.code == 4
    assert ": lost: its job 1 is not there" in answer.err


@pytest.mark.contract("SLOT-6")
def test_pruned_jobs_leave_their_outcomes_behind(oncue: Shell, diary: str) -> None:
    an_hour_of_slots(diary)
    before = oncue("audit", "often", "--json").json
    assert oncue("prune", "--older-than", "0s", "--yes", "--json").json["pruned"] >= 6
    assert oncue("jobs", "--json").json == []
    after = oncue("audit", "often", "--json").json
    assert after["holds"]
    kept = ("verdict", "job_id", "outcome", "started_at", "finished_at", "worker")
    for was, now in zip(before["fates"], after["fates"], strict=True):
        assert [was["row"][field] for field in kept] == [now["row"][field] for field in kept]


def test_slots_that_nobody_has_decided_yet_are_pending(oncue: Shell, diary: str) -> None:
    made_ago(diary, HOUR, "often", "*/10 * * * *", "forget")
    answer = oncue("audit", "often")
    assert answer.code == 0
    assert "pending" in answer.out
    assert "no leader has decided it yet" in answer.out


def test_every_schedule_at_once(oncue: Shell, diary: str) -> None:
    oncue("migrate")
    assert "There are no schedules to audit." in oncue("audit", "--all").out
    assert oncue("audit", "--all", "--json").out == "[]\n"
    an_hour_of_slots(diary)
    oncue("schedules", "add", "yearly", "@yearly", "note", "text=x")
    fine = oncue("audit", "--all")
    assert fine.code == 0
    assert "yearly" in fine.out
    execute(diary, f"delete from oncue_slots where scheduled_for = {ONE_FIRED}")
    answer = oncue("audit", "--all", "--json")
    assert answer.code == 4
    assert answer.out == json.dumps(answer.json, indent=2, ensure_ascii=False) + "\n", (
        "printed one by one, all the same"
    )
    holds = {audit["schedule"]: audit["holds"] for audit in answer.json}
    assert holds == {"nightly": True, "often": False, "yearly": True}
    assert answer.err.startswith("oncue: often: slot ")
    assert "1 problem" in oncue("audit", "--all").out


def test_a_span_without_slots_says_so(oncue: Shell, sqlite_diary: str) -> None:
    oncue("schedules", "add", "yearly", "@yearly", "note", "text=x")
    answer = oncue("audit", "yearly")
    assert answer.code == 0
    assert "yearly had no slots from " in answer.out
    assert "`oncue preview yearly` shows the next ones." in answer.out


def test_what_is_asked_must_make_sense(oncue: Shell, sqlite_diary: str) -> None:
    oncue("schedules", "add", "yearly", "@yearly", "note", "text=x")
    for arguments, code, complaint in (
        ([], 2, "expected the name of a schedule, or --all for every one"),
        (["yearly", "--all"], 2, "not both"),
        (["monthly"], 3, "there is no schedule 'monthly'"),
        (["yearly", "--from", "2026-02-30"], 2, "--from: expected an instant such as"),
        (["yearly", "--from", "now", "--to", "-1h"], 2, "--from: expected an instant before"),
    ):
        answer = oncue("audit", *arguments)
        assert (answer.code, complaint in answer.err) == (code, True), answer.err


def test_an_audit_reads_the_ledger_page_by_page(oncue: Shell, diary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    an_hour_of_slots(diary)
    whole = oncue("audit", "often", "--from", "-2h", "--to", "-1m", "--json").json["counts"]
    monkeypatch.setattr("oncue.verbs.schedules.reading.LEDGER_PAGE", 2)
    paged = oncue("audit", "often", "--from", "-2h", "--to", "-1m", "--json").json
    assert (paged["holds"], paged["counts"]) == (True, whole)
    assert len(oncue("schedules", "show", "often", "--slots", "3", "--json").json["slot_list"]) == 3
