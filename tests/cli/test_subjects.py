"""`oncue subjects`: their terms by hand, and files with many of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from oncue.verbs.schedules.declaring import Declaring
from tests.cli.conftest import Shell

FILE = "users.csv"


@pytest.fixture
def news(monkeypatch: pytest.MonkeyPatch, database_url: str) -> str:
    """The news on a database of its own, on each back end: a worker has declared its window."""
    monkeypatch.setenv("ONCUE_APP", "tests.cli.news:app")
    monkeypatch.setenv("DATABASE_URL", database_url)
    sys.modules.pop("tests.cli.news", None)
    from tests.cli.news import app

    app.override({"database_url": database_url})

    async def declare() -> None:
        await Declaring(app.internals).synchronise()
        await app.aclose()

    asyncio.run(declare())
    return database_url


def written(text: str | bytes) -> None:
    Path(FILE).write_bytes(text.encode() if isinstance(text, str) else text)


def names(oncue: Shell) -> list[str]:
    return [record["subject"] for record in oncue("subjects", "list", "digest", "--limit", "1000", "--json").json]


def terms(oncue: Shell, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = oncue("subjects", "show", "digest", name, "--json").json
    return {field: shown[field] for field in ("at", "tz", "weekdays", "days_off", "args")}


def test_edit_changes_what_is_given_and_add_gives_all_terms(oncue: Shell, news: str) -> None:
    given = ("--tz", "Asia/Tokyo", "--weekdays", "MON-FRI", "--days-off", "2030-12-24,2030-12-25")
    assert oncue("subjects", "add", "digest", "ann", "--at", "09:00", *given, "--args", '{"language": "ja"}').code == 0
    before = terms(oncue, "ann")
    assert before["days_off"] == ["2030-12-24", "2030-12-25"]
    answer = oncue("subjects", "edit", "digest", "ann", "--at", "10:30")
    assert (answer.code, "to its cutoff at" in answer.out) == (0, True)
    assert terms(oncue, "ann") == {**before, "at": "10:30"}
    oncue("subjects", "edit", "digest", "ann", "--days-off", "none")
    assert terms(oncue, "ann") == {**before, "at": "10:30", "days_off": []}
    oncue("subjects", "add", "digest", "ann", "--at", "09:00")
    assert terms(oncue, "ann") == {
        **dict.fromkeys(("at", "tz", "days_off", "args")),
        "at": "09:00",
        "weekdays": "MON,TUE,WED,THU,FRI,SAT,SUN",
        "days_off": [],
        "args": {},
    }


def test_subjects_are_listed_by_how_their_names_begin(oncue: Shell, news: str) -> None:
    for name in ("ann", "anna", "bob"):
        oncue("subjects", "add", "digest", name, "--at", "09:00")
    listed = oncue("subjects", "list", "digest", "--prefix", "ann", "--json").json
    assert [record["subject"] for record in listed] == ["ann", "anna"]
    assert "No subject of digest begins with 'x'." in oncue("subjects", "list", "digest", "--prefix", "x").out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "expected something to change: --at, --tz, --weekdays, --days-off or --args"),
        (("--days-off", "soon"), "days_off: expected dates such as '2026-12-24', not ['soon']"),
        (("--args", "{"), "args: expected a JSON object, not '{'"),
    ],
)
def test_an_edit_that_is_refused(oncue: Shell, news: str, options: tuple[str, ...], said: str) -> None:
    oncue("subjects", "add", "digest", "ann", "--at", "09:00")
    answer = oncue("subjects", "edit", "digest", "ann", *options)
    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_a_subject_is_shown_without_what_it_does_not_have(oncue: Shell, news: str) -> None:
    oncue("subjects", "add", "digest", "ann", "--at", "09:00", "--args", '{"language": "de"}')
    shown = oncue("subjects", "show", "digest", "ann").out
    assert '{"language": "de"}' in shown
    assert "None" not in shown
    assert "[]" not in shown


def test_a_day_needs_a_window(oncue: Shell, news: str) -> None:
    answer = oncue("windows", "--day", "2030-01-31")
    assert (answer.code, "expected a window: `oncue windows WINDOW --day DATE`" in answer.err) == (2, True)


def test_an_import_is_repeated_without_harm(oncue: Shell, news: str) -> None:
    written(
        'subject,at,tz,weekdays,days_off,args\nann,09:00,Europe/Berlin,MON-FRI,2030-12-24;2030-12-25,"{""language"": '
        '""de""}"\n"bob\u00fc/x",7:30,,,,\n'
    )
    answer = oncue("subjects", "import", "digest", FILE)
    assert (answer.code, answer.out, answer.err) == (
        0, "2 subjects written; all other rows were stored already.\n", ""
    )  # fmt: skip
    ann = oncue("subjects", "show", "digest", "ann", "--json").json
    assert (ann["at"], ann["tz"], ann["weekdays"], ann["args"]) == (
        *("09:00", "Europe/Berlin", "MON,TUE,WED,THU,FRI"),
        {"language": "de"},
    )
    assert ann["days_off"] == ["2030-12-24", "2030-12-25"]
    assert oncue("subjects", "import", "digest", FILE).out.startswith("0 subjects written")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("cas,9,,{}", "at: expected a time of day such as '09:00', not '9' (line 5 of users.csv"),
        ("cas,09:00,Mars/Base,{}", "tz: "),
        ('cas,09:00,,"{""language"": 7}"', "args.language: "),
        ("cas,09:00,,{", "args: expected a JSON object, not '{' (line 5 of users.csv"),
        ("cas,09:00,," + "[" * 50_000, "args: expected a JSON object, not '[[[["),
        ("cas,09:00,,{},more", "columns: expected 4 values, as the first line has (line 5 of users.csv"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(oncue: Shell, news: str, row: str, said: str) -> None:
    written(f'subject,at,tz,args\nann,09:00,,"{{\n}}"\nbob,09:00,,\n{row}\n')
    answer = oncue("subjects", "import", "digest", FILE)
    assert (answer.code, said in answer.err, "line 5 of users.csv" in answer.err) == (2, True, True), answer.err


def test_the_thousands_before_a_wrong_row_are_written(oncue: Shell, news: str) -> None:
    rows = [f"user{number:04},09:00" for number in range(1500)]
    written("\n".join(["subject,at", *rows[:1200], "bad,9", *rows[1200:]]))
    answer = oncue("subjects", "import", "digest", FILE)
    assert "(line 1202 of users.csv; mend it and start the import again)" in answer.err
    assert len(names(oncue)) == 1000
    written("\n".join(["subject,at", *rows]))
    assert oncue("subjects", "import", "digest", FILE).out.startswith("500 subjects written")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "expected a first line with the columns subject and at"),
        (b"subject,zone\nann,UTC\n", "expected a first line with the columns at"),
        (b"subject,at,timezone\nann,09:00,UTC\n", "days_off, args, not 'timezone'"),
        (b"subject,at,subject\nann,09:00,bob\n", "expected each column once, not subject, at, subject"),
        (b"subject,at\n\xff\xfe,09:00\n", "expected a file in UTF-8"),
    ],
)
def test_a_file_that_is_no_table_of_subjects(oncue: Shell, news: str, text: bytes, said: str) -> None:
    written(text)
    answer = oncue("subjects", "import", "digest", FILE)
    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(oncue: Shell, news: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written("\n".join(["subject,at", *(f"user{number:04},09:00" for number in range(2000))]))
    monkeypatch.setattr("oncue.cli.windows.TOLD_ROWS", 1000)
    piped = oncue("subjects", "import", "digest", FILE)
    assert piped.err == "oncue: 1,000 rows are done\noncue: 2,000 rows are done\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = oncue("subjects", "import", "digest", FILE)
    assert "importing" in shown.err
    assert "2000/2000" in shown.err
    assert "rows are done" not in shown.err
