"""Making, changing, looking at and removing schedules from the shell, on each back end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oncue import Oncue
from oncue.cli.actor import actor
from oncue.verbs.schedules.declaring import Declaring
from tests.cli.agenda import at, made_ago, on_diary, synchronised, worked_off
from tests.cli.conftest import Shell, on_database

QUE_7 = {
    "name", "description", "target", "cron_expression", "enabled", "priority", "next_run_at", "last_run_at",
    "created_by", "created_at", "updated_at",
}  # fmt: skip
HOURLY = ["schedules", "add", "hourly", "@hourly", "note", "text=hello"]


def test_an_empty_list_says_what_to_do_next(oncue: Shell, diary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oncue("migrate")
    declared = oncue("schedules")
    assert declared.out == "The application declares nightly: the next worker that starts makes it so.\n"
    monkeypatch.delenv("ONCUE_APP")
    assert "There are no schedules yet." in oncue("schedules").out
    assert "oncue schedules add NAME EXPRESSION TASK" in oncue("schedules").out
    assert oncue("schedules", "--json").json == []


@pytest.mark.usefixtures("no_sqlite_file")
def test_a_look_at_the_wrong_folder_makes_no_database(oncue: Shell, sqlite_diary: str) -> None:
    for looked in (
        ["schedules"], ["schedules", "show", "x"], ["trigger", "x"], ["audit", "x"], ["audit", "--all"],
        ["backfill", "x", "--from", "-1d", "--to", "now"], ["preview", "x"], ["schedules", "remove", "x"],
    ):  # fmt: skip
        answer = oncue(*looked)
        assert answer.code == 3, looked
        assert "no database" in answer.err
    assert not list(Path().glob("*.db"))


@pytest.mark.contract("QUE-6", "QUE-7")
def test_adding_one(oncue: Shell, diary: str) -> None:
    answer = oncue(
        "schedules", "add", "memo", "0 9 * * MON-FRI", "note", "text=42", "copies=3", "--tz", "Europe/Berlin",
        "--dst", "once", "--missed", "each", "--grace", "2h", "--max-instances", "4", "--queue", "paper",
        "--priority", "20", "--description", "what to buy", "--json",
    )  # fmt: skip
    assert answer.code == 0
    made = answer.json
    assert made.keys() >= QUE_7
    assert (made["cron_expression"], made["tz"], made["dst"]) == ("0 9 * * MON-FRI", "Europe/Berlin", "once")
    assert (made["missed"], made["grace"], made["max_instances"]) == ("each", 7200.0, 4)
    assert (made["queue"], made["priority"], made["description"]) == ("paper", 20, "what to buy")
    assert made["args"] == {"text": "42", "copies": 3}, "a text where the task wants one"
    assert (made["enabled"], made["revision"], made["created_by"]) == (True, 1, actor())
    assert made["created_at"] < made["next_run_at"]
    assert oncue("schedules", "--json").json == [made]


def test_it_is_told_when_a_new_one_runs_first(oncue: Shell, diary: str) -> None:
    said = oncue("schedules", "add", "noon", "0 12 1 1 *", "note", "text=x", "--tz", "Asia/Tokyo").out
    assert said.startswith("schedule noon is made (revision 1).\nNext run: ")
    assert "-01-01 12:00:00 JST (" in said
    assert "-01-01 03:00:00 UTC)." in said
    off = oncue("schedules", "add", "off", "@daily", "note", "text=x", "--disabled").out
    assert "It does not run (disabled by hand) until `oncue schedules enable off`." in off
    assert oncue("schedules", "show", "off", "--json").json["next_run_at"] is None


def test_the_list_shows_local_time_and_utc(oncue: Shell, diary: str) -> None:
    oncue("schedules", "add", "noon", "0 12 1 1 *", "note", "text=x", "--tz", "Asia/Tokyo")
    oncue("schedules", "add", "off", "@daily", "note", "text=x", "--disabled")
    shown = oncue("schedules").out
    for text in ("noon", "0 12 1 1 *  Asia/Tokyo", "12:00:00 JST", "03:00:00, in ", "enabled", "never"):
        assert text in shown
    assert "disabled: disabled by hand" in shown
    assert "The application declares nightly" in shown


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["61 * * * *", "note", "text=x"], 2, "expression: expected a minute from 0 to 59, not '61' (at position 1)"),
        (["* * * * FOO", "note", "text=x"], 2, "not 'FOO' (at position 9)"),
        (["0 0 30 2 *", "note", "text=x"], 2, "never fires: none of its months has such a day (at position 5)"),
        (["@every 10ms", "note", "text=x"], 2, "expected a duration from 1 second to 100 years, not '10ms'"),
        (["@daily", "note", "text=x", "--tz", "Europe/Berln"], 2, "did you mean Europe/Berlin?"),
        (["@daily", "note", "text=x", "--dst", "maybe"], 2, "dst: expected one of debian, once, all, not 'maybe'"),
        (["@daily", "note", "text=x", "--missed", "all"], 2, "missed: expected 'latest', 'each' or 'none', not 'all'"),
        (["@daily", "note", "text=x", "--grace", "long"], 2, "--grace: expected a duration"),
        (["@daily", "note", "text=x", "--max-instances", "0"], 2, "max_instances: expected a whole number from 1"),
        (["@daily", "note", "text=x", "--priority", "101"], 2, "priority: expected a whole number from 0 to 100"),
        (["@daily", "note"], 2, "arguments: note(text"),
        (["@daily", "note", "text=x", "copies=many"], 2, "copies: Input should be a valid integer"),
        (["@daily", "note", "text"], 2, "expected name=value, not 'text'"),
        (["@daily", "nothing"], 3, "no task 'nothing' is declared; declared are: forget, nightly, note"),
    ],
)
def test_refusals_name_the_field(
    oncue: Shell, sqlite_diary: str, arguments: list[str], code: int, complaint: str
) -> None:
    answer = oncue("schedules", "add", "memo", *arguments)
    assert answer.code == code
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


def test_a_name_is_taken_once(oncue: Shell, diary: str) -> None:
    assert oncue(*HOURLY).code == 0
    again = oncue(*HOURLY)
    assert (again.code, again.err) == (1, "oncue: there is a schedule 'hourly' already\n")


def test_an_edit_keeps_what_is_not_given(oncue: Shell, diary: str) -> None:
    oncue(*HOURLY, "--tz", "Asia/Kolkata", "--grace", "1h")
    edited = oncue("schedules", "edit", "hourly", "--expression", "15 * * * *", "copies=2", "--json").json
    assert (edited["cron_expression"], edited["tz"], edited["grace"]) == ("15 * * * *", "Asia/Kolkata", 3600.0)
    assert edited["args"] == {"text": "hello", "copies": 2}
    assert edited["revision"] == 2
    moved = oncue("schedules", "edit", "hourly", "--tz", "UTC", "--dst", "all", "--json").json
    assert (moved["cron_expression"], moved["tz"], moved["dst"]) == ("15 * * * *", "UTC", "all")
    replaced = oncue("schedules", "edit", "hourly", "--args", '{"text": "bye"}', "--json").json
    assert replaced["args"] == {"text": "bye"}
    same = oncue("schedules", "edit", "hourly", "--tz", "UTC")
    assert "is as it was: nothing was changed (revision 4)" in same.out
    assert "a name that is not a number, not '12'" in oncue("schedules", "edit", "hourly", "--rename", "12").err
    assert "schedule hourly is now called often (" in oncue("schedules", "edit", "hourly", "--rename", "often").out
    assert oncue("schedules", "edit", "often", "--rename", "hourly").code == 0
    refused = oncue("schedules", "edit", "hourly", "--expression", "61 * * * *")
    assert (refused.code, "position 1" in refused.err) == (2, True)


def test_a_dry_run_of_an_edit_shows_what_goes_and_comes(oncue: Shell, diary: str) -> None:
    oncue("schedules", "add", "noon", "0 12 * * *", "note", "text=x")
    said = oncue("schedules", "edit", "noon", "--expression", "0 12,18 * * *", "--dry-run").out
    assert "after the edit: 0 12,18 * * *" in said
    assert "stays" in said
    assert "new" in said
    assert "It would be a new revision. Nothing was written." in said
    told = oncue("schedules", "edit", "noon", "--expression", "0 18 * * *", "--dry-run", "--json").json
    assert not any(fire["stays"] for fire in (*told["going"], *told["coming"]))
    assert (told["before"]["revision"], told["after"]["revision"], told["given_up"]) == (1, 2, 0)
    assert oncue("schedules", "show", "noon", "--json").json["cron_expression"] == "0 12 * * *"
    assert "tz: there is no time zone" in oncue("schedules", "edit", "noon", "--tz", "Mars", "--dry-run").err


def test_the_payload_and_the_webhook_of_one_that_delivers(oncue: Shell, diary: str) -> None:
    for name in ("orders", "bills"):
        assert oncue("webhooks", "add", name, "--url", "https://example.com/hook").code == 0
    assert oncue("schedules", "add", "deliver", "@daily", "--webhook", "orders").code == 0
    edited = oncue("schedules", "edit", "deliver", "--args", '{"payload": {"n": 2}}', "--webhook", "bills", "--json")
    assert edited.code == 0, edited.err
    assert edited.json["webhook"] == "bills"
    assert edited.json["args"]["payload"] == {"n": 2}


def test_a_description_makes_no_revision(oncue: Shell, diary: str) -> None:
    oncue(*HOURLY)
    assert "is changed (revision 1)" in oncue("schedules", "edit", "hourly", "--description", "every hour").out


def test_enabling_and_disabling(oncue: Shell, diary: str) -> None:
    oncue(*HOURLY)
    disabled = oncue("schedules", "disable", "hourly").out
    assert disabled.startswith("schedule hourly is disabled (revision 2).")
    assert "was disabled already" in oncue("schedules", "disable", "hourly").out
    record = oncue("schedules", "show", "hourly", "--json").json
    assert (record["enabled"], record["reason"], record["next_run_at"]) == (False, "disabled by hand", None)
    enabled = oncue("schedules", "enable", "hourly").out
    assert enabled.startswith("schedule hourly is enabled (revision 3).\nNext run: ")
    revisions = oncue("schedules", "show", "hourly", "--json").json["revision_list"]
    assert [(revision["revision"], revision["enabled"]) for revision in revisions] == [(1, True), (2, False), (3, True)]
    assert {revision["changed_by"] for revision in revisions} == {actor()}


def test_removing_leaves_a_tombstone(oncue: Shell, diary: str) -> None:
    now = datetime.now(UTC)
    hourly = [
        "schedules",
        "add",
        "hourly",
        f"{(now.minute + 30) % 60} * * * *",
        "note",
        "text=hello",
    ]  # none comes soon
    three_hours = ["--from", (now - timedelta(hours=3)).isoformat(), "--to", now.isoformat()]
    oncue(*hourly)
    oncue("backfill", "hourly", *three_hours)
    assert "schedule hourly is removed." in oncue("schedules", "remove", "hourly").out
    assert oncue("schedules", "--json").json == []
    for gone in (["show"], ["remove"], ["enable"], ["edit", "--tz", "UTC"]):
        answer = oncue("schedules", gone[0], "hourly", *gone[1:])
        assert (answer.code, answer.err) == (3, "oncue: there is no schedule 'hourly'\n"), gone
    assert oncue("audit", "hourly", "--json").json["counts"] == {"manual": 3}, "what it did is still known"
    assert oncue(*hourly).code == 0
    again = oncue("backfill", "hourly", *three_hours, "--json").json
    assert (again["made"], again["present"]) == (0, 3), "its name does not run old slots again"


def test_one_that_code_declares_can_only_be_switched(oncue: Shell, diary: str) -> None:
    synchronised(diary)
    record = oncue("schedules", "show", "nightly", "--json").json
    assert (record["declared_by"], record["description"]) == ("tests", "Write the day up.")
    assert record["created_by"] == "code:tests"
    for refused in (["edit", "nightly", "--tz", "UTC"], ["remove", "nightly"]):
        answer = oncue("schedules", *refused)
        assert answer.code == 1
        assert "'nightly' is declared in the code of 'tests': change it there, or disable it" in answer.err
    assert oncue("schedules", "disable", "nightly").code == 0
    synchronised(diary)
    assert oncue("schedules", "show", "nightly", "--json").json["enabled"] is False, "a worker leaves it so"
    assert "in the code of tests" in oncue("schedules", "show", "nightly").out
    assert oncue("schedules", "enable", "nightly").code == 0


def test_one_that_code_no_longer_declares_says_so(oncue: Shell, diary: str) -> None:
    synchronised(diary)

    async def without_tasks(app: Oncue) -> None:
        await Declaring(app.internals).synchronise()

    on_database(diary, without_tasks)
    assert "disabled: its application no longer declares it" in oncue("schedules").out
    assert "its application no longer declares it" in oncue("preview", "nightly").out
    enabled = oncue("schedules", "enable", "nightly").out
    assert "The code of tests does not declare it: its next worker that starts disables it again." in enabled


def test_one_that_no_worker_has_made_yet_is_told_apart(oncue: Shell, diary: str) -> None:
    oncue("migrate")
    for command in (["schedules", "show"], ["trigger"], ["explain"], ["audit"], ["schedules", "disable"]):
        answer = oncue(*command, "nightly")
        assert answer.code == 3
        assert "the application declares it, and the next worker that starts makes it so" in answer.err, command


def test_showing_one_with_its_last_slots(oncue: Shell, diary: str) -> None:
    made_ago(diary, timedelta(minutes=65), "minutely", "* * * * *", "forget")
    worked_off(diary)
    record = oncue("schedules", "show", "minutely", "--json").json
    verdicts = [slot["verdict"] for slot in record["slot_list"]]
    assert verdicts[:3] == ["missed", "coalesced", "fired"]
    missed, _, fired = record["slot_list"][:3]
    assert (missed["reason"], missed["slots"] > 50) == ("misfire", True)
    assert (fired["outcome"], fired["job_id"]) == ("failed", 1)
    assert "what was it?" in fired["error"]
    shown = oncue("schedules", "show", "minutely").out
    for text in ("misfire", "coalesced", "failed", "grace 5m", "revision", "max instances", "job"):
        assert text in shown
    assert at(record["last_run_at"]) >= at(fired["scheduled_for"])
    assert len(oncue("schedules", "show", "minutely", "--slots", "1", "--json").json["slot_list"]) == 1


def test_the_list_goes_on(oncue: Shell, diary: str) -> None:
    async def work(app: Oncue) -> None:
        for number in range(5):
            await app.schedules.create(f"s{number}", "@daily", "note", {"text": "x"})

    on_diary(diary, work)
    first = oncue("schedules", "--limit", "3").out
    assert "There may be more: --after s2" in first
    assert [row["name"] for row in oncue("schedules", "--after", "s2", "--json").json] == ["s3", "s4"]
    assert "No schedule comes after that name." in oncue("schedules", "--after", "s4").out
