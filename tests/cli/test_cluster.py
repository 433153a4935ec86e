"""`oncue cluster`: cluster jobs are made, watched and listed; what a wish, a loss and a failure look like."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.cli.conftest import FLEET, Process, Shell, Start
from tests.cli.test_hostile_text import HOSTILE, SHOWN


@pytest.fixture
def pair(oncue: Shell, fleet: str, start: Start) -> tuple[Process, Process]:
    """Two workers of the fleet, of which one leads."""
    assert oncue("migrate").code == 0
    first = start(fleet, "worker", "--name", "a", ONCUE_APP=FLEET, ONCUE_LEASE="4s")
    first.until(lambda: _leader(oncue) == "a")
    second = start(fleet, "worker", "--name", "b", ONCUE_APP=FLEET, ONCUE_LEASE="4s")
    second.until(lambda: _named(oncue) == {"a", "b"})
    return first, second


def _leader(oncue: Shell) -> str | None:
    answer = oncue("cluster", "leader", "--json")
    return answer.json["name"] if answer.code == 0 else None


def _named(oncue: Shell) -> set[str]:
    return {node["name"] for node in oncue("nodes", "--json").json if node["named"]}


def _codes(oncue: Shell, job: int) -> list[str]:
    return [finding["code"] for finding in oncue("explain", str(job), "--json").json["findings"]]


@pytest.mark.contract("CLUS-3", "CLUS-15")
def test_without_a_leader_the_wish_is_kept_and_says_what_it_waits_for(oncue: Shell, fleet: str) -> None:
    made = oncue("cluster", "run", "compact", "level=2", "--key", "nightly", "--no-wait")
    assert made.code == 0, made
    assert "waits for a leader: no node leads" in made.out
    told = oncue("cluster", "show", "1", "--json").json
    assert (told["status"], told["args"], told["key"], told["parts"]) == ("new", {"level": 2}, "nightly", [])
    again = oncue("cluster", "run", "compact", "--key", "nightly")
    assert again.code == 1
    assert "job 1 of the cluster task 'compact' has the same key" in again.err
    waited = oncue("cluster", "run", "compact", "--timeout", "50ms")
    assert waited.code == 4, waited
    assert _codes(oncue, 1) == ["waits_for_leader"]
    second, first = [job["id"] for job in oncue("cluster", "list", "--json").json]
    assert first == 1
    assert f"cluster job {second} has not ended; it goes on" in waited.err
    assert [job["id"] for job in oncue("cluster", "list", "--limit", "1", "--json").json] == [second]
    assert f"There may be more: --before {second}" in oncue("cluster", "list", "--limit", "1").out
    nobody = oncue("cluster", "leader")
    assert (nobody.code, "No node leads" in nobody.out) == (3, True)
    assert oncue("cluster", "leader", "--json").json is None


def test_what_is_no_cluster_job_is_refused(oncue: Shell, fleet: str) -> None:
    assert "There are no cluster jobs" in oncue("cluster").out or oncue("migrate").code == 0
    assert "There are no cluster jobs" in oncue("cluster").out
    for words, code, said in (
        (("run", "plain"), 2, "'plain' is no cluster task"),
        (("run", "absent"), 3, "absent"),
        (("run", "compact", "level=high"), 2, "level"),
        (("run", "compact", "--nodes", ""), 2, "nodes: expected the names"),
        (("run", "compact", "--timeout", "soon"), 2, "--timeout"),
        (("show", "99"), 3, "there is no job 99"),
    ):
        answer = oncue("cluster", *words)
        assert (answer.code, said in answer.err) == (code, True), answer
    assert oncue("enqueue", "plain").code == 0
    answer = oncue("cluster", "show", "1")
    assert (answer.code, "job 1 is no cluster job" in answer.err) == (3, True), answer


@pytest.mark.contract("CLUS-1", "CLUS-13", "CLUS-15")
def test_a_cluster_job_is_run_watched_and_explained(oncue: Shell, pair: tuple[Process, Process]) -> None:
    ran = oncue("cluster", "run", "compact", "level=2", "--wait")
    assert ran.code == 0, ran
    for said in ("a: completed", "b: completed", "(compact): completed", "2 of 2 parts", '"level 2 [bold]on[/] a"'):
        assert said in ran.out, said
    told = oncue("cluster", "show", "1", "--watch", "--json").json
    assert (told["status"], told["result"], told["epoch"]) == ("completed", ["a", "b"], 1)
    parts = {part["node"]: part for part in told["parts"]}
    assert {part["status"] for part in parts.values()} == {"completed"}
    part = parts["b"]["job_id"]
    assert oncue("job", str(part), "--json").json["part_of"] == 1
    assert "cluster job 1 (compact), on b" in oncue("job", str(part)).out
    assert "2 (2 completed): oncue cluster show 1" in oncue("job", "1").out
    assert _codes(oncue, part) == ["part_of", "settled"]
    assert _codes(oncue, 1) == ["quorum", "settled", "parts"]
    answer = oncue("cluster", "show", str(part))
    assert (answer.code, "it is a part of job 1" in answer.err) == (3, True), answer
    nodes = {node["name"]: (node["leads"], node["epoch"]) for node in oncue("nodes", "--json").json}
    assert nodes == {"a": (True, 1), "b": (False, None)}
    assert "has led for" in oncue("cluster", "leader").out
    failed = oncue("cluster", "run", "rotate", "broken=true", "--wait")
    assert failed.code == 1
    assert "no key [red]to rotate[/]" in failed.out
    refused = oncue("cluster", "run", "compact", "--nodes", "a,absent", "--no-wait")
    assert refused.code == 2
    assert "nodes: absent: expected names of active nodes that know the task compact" in refused.err


@pytest.mark.contract("CLUS-6", "CLUS-15")
def test_the_part_of_a_killed_node_is_told_as_lost(
    oncue: Shell, pair: tuple[Process, Process], fleet: str, start: Start
) -> None:
    waiting = start(fleet, "cluster", "run", "compact", "slow=true", "--wait", ONCUE_APP=FLEET)
    waiting.says("b: running")
    told = oncue("explain", "1").out
    assert "It waits for 2 more of 2: a runs its part; b runs its part." in told
    assert "The leader a has not ended its own part" in told
    pair[1].process.kill()
    waiting.says("b: lost")
    assert "b is lost: its part counts as open until the time-out." in oncue("explain", "1").out
    waiting.process.send_signal(signal.SIGINT)
    assert waiting.ends() == 130
    assert "cluster job 1 goes on: `oncue cluster show 1 --watch`" in waiting.said
    assert oncue("cluster", "show", "1", "--json").json["status"] == "running"
    assert oncue("cancel", "1").code == 0
    assert oncue("cluster", "show", "1", "--watch").code == 0
    assert [job["status"] for job in oncue("cluster", "--json").json] == ["cancelled"]


HOSTILE_TEXTS = """
insert into oncue_cluster_jobs (job_id, spread_at, node_id, epoch) values (1, 1, 'n', 1);
insert into oncue_parts (cluster_id, node_id, node_name) values (1, '12345678-1234-1234-1234-123456789abc', 'n');
"""


def test_hostile_names_do_not_act_on_the_terminal(
    oncue: Shell, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_APP", FLEET)
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("COLUMNS", "8000")  # nothing is folded
    oncue("cluster", "run", "compact", "--no-wait", "--key", "k")
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript(HOSTILE_TEXTS)
        wanted: tuple[Any, ...] = (HOSTILE,) * 5
        connection.execute("update oncue_jobs set task = ?, key = ?, error = ?, reason = ?, enqueued_by = ?", wanted)
        connection.execute("update oncue_parts set node_name = ?", (HOSTILE,))
    for words, times in ((("cluster",), 2), (("cluster", "show", "1"), 4), (("explain", "1"), 1), (("job", "1"), 3)):
        answer = oncue(*words)
        assert answer.code == 0, answer
        assert answer.out.count(SHOWN) >= times, (words, answer.out)
        told = answer.out.split("error\n")[0]
        assert all(line.isprintable() for line in answer.out.split("\n")), words
        assert not re.search(r"^id 99", told, re.MULTILINE), words
