"""Looking at jobs and changing their fate, on each back end."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from oncue import Oncue
from oncue.cli.actor import actor
from oncue.model import Failed, Skipped, Succeeded
from tests.cli.agenda import a_single_run, taken_by
from tests.cli.conftest import Shell, on_database, work_off
from tests.store.scene import a_node

QUE_23 = {
    "id", "target", "status", "priority", "last_attempt", "duration_ms", "enqueued_by", "created_at", "updated_at",
    "visible_at", "retry_count", "max_retries", "next_retry_at",
}  # fmt: skip


@pytest.mark.usefixtures("no_sqlite_file")
def test_a_look_at_the_wrong_folder_makes_no_database(oncue: Shell, sqlite_shop: str) -> None:
    for looked in (["jobs"], ["job", "1"], ["queues"], ["nodes"], ["prune", "--yes"]):
        answer = oncue(*looked)
        assert answer.code == 3, looked
        assert answer.err.startswith("oncue: there is no database at ")
    assert not list(Path().glob("*.db"))


def test_a_broken_application_does_not_take_the_operators_tools_away(
    oncue: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    oncue("migrate")
    monkeypatch.setenv("ONCUE_APP", "there_is_no_such_module:app")
    answer = oncue("jobs")
    assert answer.code == 0
    assert "there is no module 'there_is_no_such_module'" in answer.err
    assert oncue("doctor").code == 4
    assert oncue("worker").code == 2


def test_empty_listings_are_friendly(oncue: Shell, shop: str) -> None:
    oncue("migrate")
    assert "There are no jobs yet" in oncue("jobs").out
    assert "No job matches" in oncue("jobs", "--status", "failed").out
    assert "There are no queues yet" in oncue("queues").out
    assert "No node is alive" in oncue("nodes").out
    for listing in ("jobs", "queues", "nodes"):
        assert oncue(listing, "--json").json == []


def test_a_listing_shows_large_arguments_if_asked(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "greet", f"name={'x' * 3000}")
    (short,), (whole,) = oncue("jobs", "--json").json, oncue("jobs", "--json", "--whole").json
    assert (short["args"], set(short["shortened"])) == ({}, {"args"})
    assert (whole["args"], whole["shortened"]) == ({"name": "x" * 3000}, {})
    assert "(3,011 bytes)" in oncue("jobs").out
    refused = oncue("jobs", "--whole")
    assert (refused.code, "--whole: expected --json too" in refused.err) == (2, True)


def test_listing(oncue: Shell, shop: str) -> None:
    for number in range(3):
        assert oncue("enqueue", "add", f"a={number}").code == 0
    oncue("enqueue", "greet", "name=Ada", "--queue", "mail", "--key", "ada")
    assert [job["id"] for job in oncue("jobs", "--json").json] == [4, 3, 2, 1]
    assert [job["id"] for job in oncue("jobs", "--json", "--limit", "2", "--before", "4").json] == [3, 2]
    assert [job["id"] for job in oncue("jobs", "--json", "--queue", "mail").json] == [4]
    assert [job["id"] for job in oncue("jobs", "--json", "--task", "add").json] == [3, 2, 1]
    assert [job["id"] for job in oncue("jobs", "--json", "--key", "ada").json] == [4]
    table = oncue("jobs", "--limit", "2").out
    assert 'name="Ada"' in table
    assert "--before 3" in table


@pytest.mark.contract("QUE-17")
def test_the_crawlers_words_are_understood(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    work_off(shop)
    assert [job["status"] for job in oncue("jobs", "--json", "--status", "success").json] == ["succeeded"]
    assert oncue("jobs", "--json", "--status", "crawling,queued").json == []
    assert oncue("jobs", "--json", "--status", "crawling", "--status", "success").json[0]["id"] == 1


@pytest.mark.contract("QUE-23")
def test_detail(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "boom", "text=no luck", "--priority", "7")
    work_off(shop)
    job = oncue("job", "1", "--json").json
    assert job.keys() >= QUE_23
    assert (job["status"], job["priority"], job["enqueued_by"]) == ("failed", 7, "cli")
    assert [attempt["outcome"] for attempt in job["attempt_list"]] == ["failed"]
    assert job["duration_ms"] >= 0
    shown = oncue("job", job["uid"]).out
    for text in ("failed", "ValueError: no luck", "enqueued by", "last attempt", "0 of 0 used", job["uid"]):
        assert text in shown


def test_a_job_that_is_not_there_is_3(oncue: Shell, shop: str) -> None:
    oncue("migrate")
    for arguments in (["job", "77"], ["job", str(uuid4())], ["retry", "77"], ["cancel", "77"], ["boost", "77"]):
        answer = oncue(*arguments)
        assert answer.code == 3, arguments
        assert answer.err.startswith("oncue: there is no job ")
    assert oncue("job", "first").code == 2


def test_retry(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "boom")
    waiting = oncue("retry", "1")
    assert (waiting.code, waiting.err) == (1, "oncue: job 1 is queued: only finished jobs are retried\n")
    work_off(shop)
    assert oncue("retry", "1").out == "job 1 is queued again\n"
    assert oncue("job", "1", "--json").json["retry_count"] == 0


@pytest.mark.contract("SLOT-3")
def test_the_retries_of_a_single_run_are_shown_until_one_succeeds(oncue: Shell, diary: str) -> None:
    first = a_single_run(diary)
    taken_by(diary, "alpha", Failed("no luck"))
    assert oncue("job", str(first), "--json").json["retried_as"] == []
    assert "retried as" not in oncue("job", str(first)).out
    one = oncue("retry", str(first), "--json").json
    assert (one["retry_of"], one["enqueued_by"]) == (first, actor())
    taken_by(diary, "beta", Skipped("not today"))
    two = oncue("retry", str(first), "--json").json
    taken_by(diary, "gamma", Succeeded())
    refused = oncue("retry", str(first))
    assert (refused.code, refused.err) == (1, f"oncue: job {first} was retried as job {two['id']}, which succeeded\n")
    assert f"{one['id']} (skipped), {two['id']} (succeeded)" in oncue("job", str(first)).out
    assert oncue("job", str(first), "--json").json["retried_as"] == [
        {"id": one["id"], "status": "skipped"}, {"id": two["id"], "status": "succeeded"},
    ]  # fmt: skip


def test_a_job_names_its_schedule_and_its_workers(oncue: Shell, diary: str) -> None:
    job_id = str(a_single_run(diary))
    waiting = oncue("job", job_id, "--json").json
    assert (waiting["schedule"], waiting["worker"], waiting["node_id"]) == ("yearly", None, None)
    taken_by(diary, "alpha", Failed("no luck"))
    told = oncue("job", job_id, "--json").json
    (attempt,) = told["attempt_list"]
    assert told["worker"] == attempt["worker"] == "alpha"
    assert told["node_id"] == attempt["node_id"] != "alpha"
    shown = oncue("job", job_id).out
    assert "of yearly" in shown
    assert f"alpha  ({told['node_id']})" in shown
    assert shown.count("alpha") == 2, "beside the job, and beside its attempt"
    oncue("enqueue", "note", "text=x")
    other = oncue("jobs", "--task", "note", "--json").json[0]["id"]
    assert oncue("job", str(other), "--json").json["schedule"] is None


def test_cancel(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--count", "2")
    assert oncue("cancel", "1").out == "job 1 is cancelled\n"
    assert oncue("cancel", "1").code == 1
    several = oncue("cancel", "1", "2", "99", "--json")
    assert several.code == 1
    assert [row.get("status", "refused") for row in several.json] == ["refused", "cancelled", "refused"]


def test_priority_and_boost(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    assert oncue("priority", "1", "40", "--json").json == {"id": 1, "priority": 40}
    assert oncue("boost", "1").out == "job 1 has priority 50\n"
    assert oncue("boost", "1", "90").out == "job 1 has priority 100\n"
    refused = oncue("priority", "1", "101")
    assert (refused.code, refused.err) == (2, "oncue: priority: expected a whole number from 0 to 100, not 101\n")


def test_queues(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    oncue("enqueue", "add", "a=2", "--queue", "mail", "--delay", "1h")
    assert oncue("queues", "pause", "mail").code == 0
    rows = {row["name"]: row for row in oncue("queues", "--json").json}
    assert (rows["default"]["queued"], rows["mail"]["later"]) == (1, 1)
    assert rows["default"]["paused_at"] is None
    assert rows["mail"]["paused_at"] is not None
    assert "paused" in oncue("queues").out
    assert oncue("queues", "resume", "mail", "--json").json == {"name": "mail", "paused": False}
    assert all(row["paused_at"] is None for row in oncue("queues", "--json").json)


def test_prune(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--count", "3")
    oncue("cancel", "1", "2")
    assert oncue("prune", "--older-than", "7d", "--yes").out == "No job finished over 7d ago.\n"
    assert oncue("prune", "--older-than", "0s", "--yes", "--json").json == {"pruned": 2}
    assert [job["id"] for job in oncue("jobs", "--json").json] == [3]


def test_prune_asks_first(oncue: Shell, sqlite_shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oncue("migrate")
    refused = oncue("prune")
    assert refused.code == 2
    assert "say --yes to delete without a question" in refused.err
    wrong = oncue("prune", "--older-than", "a week", "--yes")
    assert wrong.code == 2
    assert "--older-than" in wrong.err
    bare = oncue("prune", "--older-than", "7", "--yes")
    assert bare.code == 2, "seven what?"


def test_nodes(oncue: Shell, shop: str) -> None:
    async def register(app: Oncue) -> None:
        connection = await app.internals.connected()
        now = connection.now()
        alive = a_node("alpha", started_at=now, expires_at=now + timedelta(minutes=1))
        silent = a_node("beta", started_at=now, expires_at=now - timedelta(minutes=1))
        for node in (alive, silent):
            await connection.store.nodes.register(node)

    on_database(shop, register)
    assert {node["name"]: node["alive"] for node in oncue("nodes", "--json").json} == {"alpha": True, "beta": False}
    shown = oncue("nodes").out
    assert "alive" in shown
    assert "silent" in shown


def test_large_arguments_are_shown_by_their_size_unless_asked_for(oncue: Shell, shop: str) -> None:
    text = "x" * 5000
    oncue("enqueue", "greet", f"name={text}")
    (short,) = oncue("jobs", "--json").json
    assert (short["args"], short["shortened"]) == ({}, {"args": len(json.dumps({"name": text}, separators=(",", ":")))})
    (whole,) = oncue("jobs", "--json", "--whole").json
    assert (whole["args"], whole["shortened"]) == ({"name": text}, {})
    assert "bytes)" in oncue("jobs").out


@pytest.mark.contract("QUE-15")
def test_all_that_match_are_changed(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "boom", "--count", "2")
    oncue("enqueue", "add", "a=1", "--count", "2", "--key", "k")
    oncue("enqueue", "add", "a=1", "--group", "tenant:7")
    raised = oncue("priority", "--task", "add", "70", "--yes")
    assert (raised.code, raised.out) == (0, "2 of 2 jobs changed, 0 refused.\n")
    assert oncue("priority", "1", "2", "60").out == "job 1 has priority 60\njob 2 has priority 60\n"
    cancelled = oncue("cancel", "--group", "tenant:7", "--yes", "--json").json
    assert cancelled == {"matched": 1, "changed": 1, "refused": 0, "refusals": []}
    assert "No job matches." in oncue("jobs", "--until", "-1h").out
    assert len(oncue("jobs", "--since", "-1h", "--json").json) == 4
    oncue("set-status", "1", "2", "failed")
    asked = oncue("retry", "--status", "failed", "--task", "boom")
    assert asked.code == 2
    assert "2 jobs match (status failed, task boom). There is no terminal to ask at" in asked.err
    assert oncue("retry", "--status", "failed", "--task", "boom", "--yes").out == "2 of 2 jobs changed, 0 refused.\n"
    assert oncue("retry", "--status", "failed", "--yes").out == "No job matches (status failed).\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["retry"], "expected ids of jobs, or a filter such as --status, --task or --queue: neither is there"),
        (["cancel", "1", "--queue", "mail"], "not both"),
        (["retry", "--queue", "mail"], "expected statuses of ended jobs: succeeded, failed, cancelled, skipped"),
        (["cancel", "--status", "failed"], "expected statuses of unfinished jobs"),
        (["priority", "1", "high"], "expected a whole number from 0 to 100, not 'high'"),
    ],
)
def test_a_change_says_which_jobs_it_expects(oncue: Shell, shop: str, arguments: list[str], said: str) -> None:
    answer = oncue(*arguments)
    assert answer.code == 2
    assert said in answer.err
