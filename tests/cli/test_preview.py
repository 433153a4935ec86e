"""`oncue preview`: the next runs, in words that a clock change needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.agenda import synchronised
from tests.cli.conftest import Shell

BERLIN = ["--tz", "Europe/Berlin"]


def test_an_expression_needs_no_database(oncue: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    answer = oncue("preview", "0 9 * * MON", "--from", "2026-11-15", "-n", "2")
    assert answer.code == 0
    assert "Mon 2026-11-16 09:00:00 UTC" in answer.out
    assert "Mon 2026-11-23 09:00:00 UTC" in answer.out
    assert not list(Path().glob("*.db"))


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize(
    ("arguments", "start", "lines"),
    [
        (
            ["30 2 * * *"], "2026-03-29",
            ["Sun 2026-03-29 03:00:00 CEST|Europe/Berlin|2026-03-29 01:00:00 UTC|moved: 02:30 did not exist",
             "Mon 2026-03-30 02:30:00 CEST|Europe/Berlin|2026-03-30 00:30:00 UTC|"],
        ),
        (
            ["0,20,40 2 * * *"], "2026-03-29",
            ["Sun 2026-03-29 03:00:00 CEST|Europe/Berlin|2026-03-29 01:00:00 UTC|moved: 02:00 (and 2 more) did not"],
        ),
        (
            ["30 2 * * *", "--dst", "once"], "2026-03-29",
            ["Mon 2026-03-30 02:30:00 CEST|Europe/Berlin|2026-03-30 00:30:00 UTC|"],
        ),
        (
            ["30 2 * * *"], "2026-10-25",
            ["Sun 2026-10-25 02:30:00 CEST|Europe/Berlin|2026-10-25 00:30:00 UTC|first of two: 02:30 comes twice",
             "Mon 2026-10-26 02:30:00 CET|Europe/Berlin|2026-10-26 01:30:00 UTC|"],
        ),
        (
            ["30 2 * * *", "--dst", "all"], "2026-10-25",
            ["Sun 2026-10-25 02:30:00 CEST|Europe/Berlin|2026-10-25 00:30:00 UTC|first of two: 02:30 comes twice",
             "Sun 2026-10-25 02:30:00 CET|Europe/Berlin|2026-10-25 01:30:00 UTC|second of two: 02:30 comes again"],
        ),
    ],
)  # fmt: skip
def test_clock_changes_are_told_in_words(oncue: Shell, arguments: list[str], start: str, lines: list[str]) -> None:
    shown = oncue("preview", *arguments, *BERLIN, "--from", start, "-n", str(len(lines))).out.splitlines()
    told = [line for line in shown if " 2026-" in line]
    assert len(told) == len(lines)
    for line, expected in zip(told, lines, strict=True):
        for part in expected.split("|"):
            assert part in line


def test_json(oncue: Shell) -> None:
    (fire,) = oncue("preview", "30 2 * * *", *BERLIN, "--from", "2026-03-29", "-n", "1", "--json").json
    assert fire == {
        "scheduled_for": "2026-03-29T01:00:00Z",
        "local": "2026-03-29T03:00:00+02:00",
        "tz": "Europe/Berlin",
        "mark": "gap",
        "instead_of": ["2026-03-29T02:30:00"],
    }


def test_the_first_instant_counts(oncue: Shell) -> None:
    (fire,) = oncue("preview", "@daily", "--from", "2026-03-29", "-n", "1", "--json").json
    assert fire["scheduled_for"] == "2026-03-29T00:00:00Z"


@pytest.mark.contract("QUE-6")
@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["61 * * * *"], 2, "expression: expected a minute from 0 to 59, not '61' (at position 1)"),
        (["* * *"], 2, "expected five fields"),
        (["@often"], 2, "(at position 1)"),
        ([""], 2, "expression: "),
        (["@daily", "--tz", "Mars"], 2, "--tz: there is no time zone 'Mars'"),
        (["@daily", "--dst", "no"], 2, "--dst: expected one of debian, once, all, not 'no'"),
        (["@daily", "--from", "now-ish"], 2, "--from: expected an instant such as"),
        (["@daily", "--from", "1960-01-01"], 2, "--from: expected an instant from 1970"),
        (["nothing"], 3, "there is no schedule 'nothing'"),
    ],
)
def test_refusals(oncue: Shell, arguments: list[str], code: int, complaint: str) -> None:
    answer = oncue("preview", *arguments)
    assert answer.code == code
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


def test_an_interval_says_from_where_it_counts(oncue: Shell) -> None:
    answer = oncue("preview", "@every 90s", "--from", "2026-11-15T10:00:00Z", "-n", "2")
    assert "2026-11-15 10:01:30 UTC" in answer.out
    assert "here it counts from then" in answer.out


def test_a_schedule(oncue: Shell, diary: str) -> None:
    synchronised(diary)
    fires = oncue("preview", "nightly", "-n", "3", "--json").json
    assert len(fires) == 3
    assert {fire["tz"] for fire in fires} == {"Europe/Berlin"}
    assert fires[0]["scheduled_for"] == oncue("schedules", "--json").json[0]["next_run_at"]
    shown = oncue("preview", "nightly", "--from", "2026-03-29", "-n", "1").out
    assert "moved: 02:30 did not exist" in shown
    oncue("schedules", "disable", "nightly")
    assert "It is disabled (disabled by hand): it will not run." in oncue("preview", "nightly").out
    refused = oncue("preview", "nightly", "--tz", "UTC")
    assert (refused.code, "has its own" in refused.err) == (2, True)


@pytest.mark.usefixtures("no_sqlite_file")
def test_one_that_only_code_knows_so_far(oncue: Shell, sqlite_diary: str) -> None:
    answer = oncue("preview", "nightly", "-n", "1")
    assert answer.code == 0
    assert "no worker has made it so yet" in answer.out
    assert not list(Path().glob("*.db"))
