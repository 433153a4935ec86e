"""Whatever stands in a database, no command lets it act on the terminal, and none takes it for markup."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from contextlib import closing

import pytest

from tests.cli.conftest import Shell, work_off

HOSTILE = "\x1b[2J\x9b31m\r\x07\b\u202e[red]no[/red][link=file:///x]l[/link]:boom:[/]\nid 99 succeeded"
SHOWN = r"\x1b[2J\x9b31m\r\x07\x08\u202e[red]no[/red][link=file:///x]l[/link]:boom:[/]\nid 99 succeeded"

COLUMNS = {
    "oncue_jobs": ("task", "queue", "key", "reason", "enqueued_by"),
    "oncue_attempts": ("error",),
    "oncue_queues": ("name",),
    "oncue_nodes": ("name", "host", "version", "address"),
    "oncue_schedules": ("name", "description", "task", "queue", "reason", "declared_by", "created_by"),
    "oncue_revisions": ("task", "reason", "changed_by"),
    "oncue_slots": ("reason", "outcome_reason", "worker", "error"),
    "oncue_tokens": ("name", "created_by"),
    "oncue_audit": ("actor", "action", "subject"),
    "oncue_progress": ("note",),
    "oncue_webhooks": (
        "name", "description", "url", "method", "content_type", "body", "ca", "certificate", "reason", "declared_by",
        "created_by",
    ),
}  # fmt: skip
ARGUMENTS = json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False)
"""Every text of people's or programs' making that is shown, and where it is kept."""


TEXTS = """
insert into oncue_attempts (job_id, attempt, claim_no, started_at, finished_at, outcome, error)
    select id, 1, -1, 1, 2, 'failed', 'x' from oncue_jobs;
insert into oncue_progress (job_id, claim_no, fraction, note, told_at) select id, claim_no, 0.5, '', 1 from oncue_jobs;
insert into oncue_nodes (id, name, host, pid, boot_id, version, queues, tasks, concurrency, started_at, beat_at,
                         expires_at)
    values ('12345678-1234-1234-1234-123456789abc', 'n', 'h', 1, 'b', 'v', '["q"]', '[]', 1, 1, 1, 4e15);
update oncue_jobs set node_id = '12345678-1234-1234-1234-123456789abc' where id = 1;
"""


@pytest.fixture
def hostile(oncue: Shell, sqlite_shop: str) -> None:
    """A database with something in every table, all of whose texts mean harm."""
    for typed in (["boom"], ["add", "a=1"], ["greet", "name=Ada"]):
        assert oncue("enqueue", *typed).code == 0
    work_off(sqlite_shop)
    for typed in (
        ["enqueue", "add", "a=2"],
        ["schedules", "add", "often", "0 0 1 1 *", "boom"],
        ["schedules", "disable", "often"],
        ["trigger", "often"],
        ["queues", "pause", "mail"],
        ["token", "create", "shop", "--scope", "read"],
        ["webhooks", "add", "orders", "--url", "https://shop.example/", "--disabled"],
    ):
        assert oncue(*typed).code == 0
    with closing(sqlite3.connect(sqlite_shop.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript(TEXTS)
        for table, columns in COLUMNS.items():
            for column in columns:
                connection.execute(f"update or ignore {table} set {column} = ?", (HOSTILE,))
        connection.execute("update oncue_jobs set args = ?, result = ?", (ARGUMENTS, ARGUMENTS))
        connection.execute("update oncue_jobs set error = ? where id = 1", (f"Traceback:\n  {HOSTILE}",))


COMMANDS = {
    ("jobs",): 3, ("job", "1"): 8, ("explain", "1"): 1, ("explain", "4"): 1, ("queues",): 1, ("nodes",): 4,
    ("schedules",): 2, ("schedules", "show", HOSTILE): 6, ("explain", HOSTILE): 1, ("token", "list"): 2,
    ("audit-log",): 3, ("audit", HOSTILE): 1, ("webhooks",): 3, ("webhooks", "show", HOSTILE): 9,
}  # fmt: skip
"""What is typed, and how often a hostile text is shown in full at the least."""


@pytest.mark.usefixtures("hostile")
def test_no_command_lets_stored_text_act_on_the_terminal(oncue: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "8000")  # nothing is folded
    for typed, times in COMMANDS.items():
        answer = oncue(*typed)
        assert answer.code == 0, (typed, answer.err)
        assert all(line.isprintable() for line in answer.out.split("\n")), typed
        assert answer.out.count(SHOWN) >= times, (typed, answer.out)
        assert not re.search(r"^id 99", answer.out, re.M) or typed == ("job", "1"), typed
        machine = oncue(*typed, "--json")
        assert all(line.isprintable() for line in machine.out.split("\n")), typed
        assert json.dumps(HOSTILE)[1:-1] in json.dumps(machine.json), typed


@pytest.mark.usefixtures("hostile")
def test_a_traceback_keeps_its_lines(oncue: Shell) -> None:
    shown = oncue("job", "1").out
    assert "error\nTraceback:\n  \\x1b[2J" in shown


def test_a_complaint_is_harmless(oncue: Shell, sqlite_shop: str) -> None:
    oncue("migrate")
    for typed in (["explain", HOSTILE], ["enqueue", HOSTILE], ["jobs", f"--{HOSTILE}"], ["queues", "pause", HOSTILE]):
        answer = oncue(*typed)
        assert answer.code in (2, 3), typed
        first, *rest = answer.err.removesuffix("\n").split("\n")
        assert first.startswith("oncue: ")
        assert first.isprintable()
        assert all(line.isprintable() and line.startswith("    ") for line in rest), (typed, answer.err)


def test_the_traceback_of_a_complaint_is_harmless_too(oncue: Shell, sqlite_shop: str) -> None:
    oncue("migrate")
    answer = oncue("--debug", "explain", HOSTILE)
    assert "Traceback (most recent call last):\n  File" in answer.err
    assert all(line.isprintable() for line in answer.err.split("\n"))


def test_warnings_of_a_command_are_harmless(oncue: Shell, sqlite_shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Most commands configure no log, so Python prints what is logged."""
    oncue("migrate")
    record = logging.LogRecord("oncue", logging.WARNING, "", 1, "node %s", (HOSTILE,), None)
    assert logging.lastResort is not None
    logging.lastResort.handle(record)
    assert capsys.readouterr().err == "node " + SHOWN.replace(r"\n", "\n    ") + "\n"
