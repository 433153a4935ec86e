"""Enqueueing from the shell: arguments as people type them, many at once, and refusals that name the culprit."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import BAKERY, Shell


def test_values_are_json_or_text(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "greet", "name=Ada Lovelace", "polite=true")
    oncue("enqueue", "greet", "name=42")
    oncue("enqueue", "add", "--args", '{"a": 1, "b": 2}', "b=3")
    args = [job["args"] for job in oncue("jobs", "--json").json]
    assert args == [{"a": 1, "b": 3}, {"name": "42"}, {"name": "Ada Lovelace", "polite": True}]


def test_one_answer(oncue: Shell, shop: str) -> None:
    told = oncue("enqueue", "add", "a=1", "--json").json
    assert (told["id"], told["created"]) == (1, True)
    assert "job 2 (" in oncue("enqueue", "add", "a=1").out


def test_options(oncue: Shell, shop: str) -> None:
    arguments = ["--queue", "mail", "--priority", "9", "--delay", "1h", "--key", "k", "--deadline", "2h"]
    oncue("enqueue", "add", "a=1", *arguments, "--max-retries", "5")
    job = oncue("job", "1", "--json").json
    assert (job["queue"], job["priority"], job["status"], job["key"], job["max_retries"]) == (
        "mail", 9, "scheduled", "k", 5,
    )  # fmt: skip
    assert job["deadline_at"] > job["visible_at"] > job["created_at"]
    duplicate = oncue("enqueue", "add", "a=1", "--key", "k")
    assert duplicate.code == 0
    assert "nothing written: job 1" in duplicate.out
    oncue("enqueue", "add", "a=1", "--at", "2050-01-01T00:00:00+02:00")
    assert oncue("jobs", "--json").json[0]["visible_at"] == "2049-12-31T22:00:00Z"


@pytest.mark.contract("QUE-3")
def test_a_tasks_own_key_holds(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "crawl", "subreddit_id=7", "--delay", "1h")
    assert "nothing written: job 1" in oncue("enqueue", "crawl", "subreddit_id=7").out
    assert (
        "1 job of crawl enqueued (ids 3 to 3). 1 duplicate ignored"
        in oncue("enqueue", "crawl", "subreddit_id=8", "-c", "2").out
    )
    refused = oncue("enqueue", "crawl", "subreddit_id=7", "--key", "mine")
    assert refused.code == 2
    assert "key: expected none: the task crawl declares a key of its own" in refused.err
    oncue("schedules", "add", "hourly", "@hourly", "crawl", "subreddit_id=7", "--max-retries", "10")
    shown = oncue("schedules", "show", "hourly", "--json").json
    assert (shown["key"], shown["max_retries"]) == ("community:7", 10)
    told = "job 1 is not finished and has the key 'community:7', which the jobs of schedule 'hourly' share"
    assert told in oncue("trigger", "hourly").err


@pytest.mark.contract("QUE-11")
def test_queued_lists_what_waits_for_later_too(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--delay", "1h")
    assert [job["status"] for job in oncue("jobs", "--status", "queued", "--json").json] == ["scheduled"]


def test_count(oncue: Shell, shop: str) -> None:
    answer = oncue("enqueue", "add", "a=1", "--count", "2500", "--json").json
    assert (answer["created"], answer["duplicates"]) == (2500, 0)
    assert "3 jobs of add enqueued (ids 2501 to 2503)." in oncue("enqueue", "add", "a=1", "-c", "3").out


def test_file(oncue: Shell, shop: str, tmp_path: Path) -> None:
    rows = [{"a": 1}, [2, 20], 3, {"a": 4, "b": 40}]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert oncue("enqueue", "add", "--file", str(file), "--json").json["created"] == 4
    args = [job["args"] for job in oncue("jobs", "--json").json]
    assert args == [{"a": 4, "b": 40}, {"a": 3}, {"a": 2, "b": 20}, {"a": 1}]


def test_standard_input(oncue: Shell, sqlite_shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a": 1}\n{"a": 2}\n'))
    assert oncue("enqueue", "add", "b=5", "--file", "-", "--json").json["created"] == 2
    assert oncue("jobs", "--json").json[0]["args"] == {"a": 2, "b": 5}


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ('{"a": 1}\n{"a": "x"}\n', "rows.jsonl:2: a: Input should be a valid integer"),
        ('{"a": 1}\n{"a": 2\n', "rows.jsonl:2: expected one JSON value per line"),
        ('{"a": 1, "z": 2}\n', "rows.jsonl:1: arguments:"),
    ],
)
def test_one_bad_line_writes_nothing(oncue: Shell, sqlite_shop: str, tmp_path: Path, rows: str, complaint: str) -> None:
    Path("rows.jsonl").write_text(rows)
    answer = oncue("enqueue", "add", "--file", "rows.jsonl")
    assert answer.code == 2
    assert complaint in answer.err
    assert not Path("oncue.db").exists() or oncue("jobs", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["add", "a=x"], 2, "a: Input should be a valid integer"),
        (["add"], 2, "arguments: add(a"),
        (["add", "a"], 2, "expected name=value, not 'a'"),
        (["add", "--args", "[1]"], 2, "--args: expected a JSON object"),
        (["add", "--args", "{"], 2, "--args: expected a JSON object"),
        (["add", "a=1", "--priority", "101"], 2, "priority: expected a whole number from 0 to 100"),
        (["add", "a=1", "--delay", "soon"], 2, "--delay: expected a duration"),
        (["add", "a=1", "--at", "2050-01-01"], 2, "--at: expected an instant with a time zone"),
        (["add", "a=1", "--file", "none.jsonl"], 2, "--file: expected a file with one JSON value per line"),
        (["add", "a=1", "--count", "2", "--file", "x"], 2, "either --count or --file"),
        (["nothing"], 3, "no task 'nothing' is declared; declared are: add, boom"),
    ],
)
def test_refusals(oncue: Shell, sqlite_shop: str, arguments: list[str], code: int, complaint: str) -> None:
    answer = oncue("enqueue", *arguments)
    assert answer.code == code
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.contract("SLOT-11")
def test_a_task_that_keeps_to_its_slots_is_refused(
    oncue: Shell, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_APP", BAKERY)
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    for options in ((), ("--count", "2"), ("no=argument",)):
        refused = oncue("enqueue", "open_doors", *options)
        assert refused.code == 2
        assert refused.err.startswith("oncue: task: 'open_doors' runs at most once for each slot of its schedule")
        assert "`oncue trigger open_doors`" in refused.err
    assert oncue("enqueue", "count_the_till").code == 0, "at least once: an extra run does no harm"
