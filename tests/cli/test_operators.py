"""Statuses, limits, tokens and the audit log in the shell."""

from __future__ import annotations

import json
import os
import pwd
import re
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from oncue import Oncue
from oncue.cli.actor import actor
from oncue.model import Progress
from oncue.policy import lifecycle
from tests.cli.conftest import Shell, on_database
from tests.store.scene import a_node


def a_running_job(url: str, fraction: float | None = None, note: str | None = None, details: str | None = None) -> None:
    """Let a node take what waits, and say how far it has come, or how an attempt of it failed."""

    async def take(app: Oncue) -> None:
        connected = await app.internals.connected()
        store, now = connected.store, connected.now()
        node = a_node(started_at=now, expires_at=now + timedelta(hours=1))
        await store.nodes.register(node)
        (claim,) = await store.jobs.claim(node.id, ["default"], ["add"], 1, now)
        if fraction is not None:
            await store.jobs.report_progress([Progress(claim.id, claim.claim_no, fraction, note, now)])
        if details is not None:
            ended = lifecycle.Ended(claim, lifecycle.Failed("busy"), now, now, None, details)
            await store.jobs.apply([lifecycle.settle(ended, Random(1))], now)

    on_database(url, take)


def test_the_actor_is_the_user_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert actor() == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert actor() == f"cli:{2**31 - 7}", "a container may know no name"


@pytest.mark.contract("QUE-12", "QUE-17")
def test_a_status_is_set_by_hand(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--count", "3")
    assert oncue("set-status", "1", "success").out == "job 1 is succeeded\n"
    assert oncue("set-status", "1", "queued", "--json").json["status"] == "queued"
    final = oncue("set-status", "1", "2", "99", "failed", "--json")
    assert (final.code, [row.get("status") for row in final.json]) == (3, ["failed", "failed", None])
    conflict = oncue("set-status", "3", "crawling")
    assert (conflict.code, conflict.err) == (
        1,
        "oncue: job 3 is queued: a status by hand is never running; only a worker that claims a job makes it so\n",
    )
    assert oncue("set-status", "99", "failed").code == 3
    wrong = oncue("set-status", "3", "done")
    assert wrong.code == 2
    assert "expected one of scheduled, queued, running" in wrong.err
    assert oncue("set-status", "failed").code == 2


@pytest.mark.contract("QUE-12", "QUE-23")
def test_progress_is_shown_while_a_job_runs(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    a_running_job(shop, 0.4, "page 4 of 10")
    assert "running 40%" in oncue("jobs").out
    record = oncue("job", "1", "--json").json
    assert (record["progress"], record["progress_note"]) == (0.4, "page 4 of 10")
    shown = oncue("job", "1").out
    assert re.search(r"progress +█{10}░{14} 40%  page 4 of 10", shown)
    assert oncue("set-status", "1", "queued").out == "job 1 is queued\n"
    assert "40%" not in oncue("jobs").out


def test_the_details_of_attempts_are_shown(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    assert "details" not in oncue("job", "1").out
    a_running_job(shop, details='{"status":503,"body":"[red]Größe"}')
    record = oncue("job", "1", "--json").json
    assert record["details"] == record["attempt_list"][0]["details"] == {"status": 503, "body": "[red]Größe"}
    shown = oncue("job", "1").out
    assert '"status": 503' in shown
    assert re.search(r"failed .* status=503 body=\"\[red\]Größe\" +busy", shown)


def test_listing_with_an_offset(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--count", "5")
    assert [job["id"] for job in oncue("jobs", "--json", "--limit", "2", "--offset", "1").json] == [4, 3]
    assert oncue("jobs", "--offset", "5").out == "No job matches.\n"
    assert oncue("jobs", "--offset", "-1").code == 2


# --- queues ---------------------------------------------------------------------------------------------------------


def test_limits(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    set_both = oncue("queues", "limit", "mail", "--global", "50", "--node", "5")
    assert (set_both.code, set_both.out, set_both.err) == (0, "queue mail: 50 in all, 5 per node\n", "")
    assert "50 in all, 5 per node" in oncue("queues").out
    lifted = oncue("queues", "limit", "mail", "--global", "none", "--json").json
    assert lifted == {
        "name": "mail", "global_limit": None, "node_limit": 5, "group_limit": None, "rate": None, "group_rate": None,
    }  # fmt: skip
    assert oncue("queues", "limit", "mail").out == "queue mail: 5 per node\n", "asked without options, nothing changes"
    (row,) = oncue("queues", "--json").json
    assert (row["global_limit"], row["node_limit"]) == (None, 5)
    for wrong in ("0", "-1", "many", "10000000"):
        answer = oncue("queues", "limit", "mail", f"--global={wrong}")
        assert answer.code == 2, wrong
        assert "--global" in answer.err
        assert "`none` for no limit, not" in answer.err


def test_groups(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "other", "--group", "elsewhere")
    assert "No job of a group waits or runs in queue mail" in oncue("queues", "groups", "mail").out
    for group in ("tenant:7", "tenant:7", "a b"):
        oncue("enqueue", "add", "a=1", "--queue", "mail", "--group", group)
    assert "tenant:7" in oncue("job", "2").out
    assert oncue("job", "2", "--json").json["group"] == "tenant:7"
    of_seven = oncue("jobs", "--group", "tenant:7", "--status", "queued", "--queue", "mail", "--json").json
    assert [job["id"] for job in of_seven] == [3, 2]
    assert "tenant:7" in oncue("jobs", "--group", "tenant:7").out
    assert oncue("jobs", "--group", "tenant:7", "--queue", "other").out == "No job matches.\n"
    limited = oncue("queues", "limit", "mail", "--per-group", "4", "--rate-per-group", "10/sec", "--rate", "600/min")
    assert (limited.out, limited.err) == ("queue mail: 4 per group, 600/min, 10/s per group\n", "")
    assert "4 per group, 600/min, 10/s per group" in " ".join(oncue("queues").out.split())
    alone = oncue("queues", "limit", "mail", "--group", "tenant:7", "--per-group", "1")
    assert alone.out == "group tenant:7 of queue mail: 1 at once\n"
    record = oncue("queues", "limit", "mail", "--group", "tenant:7", "--rate-per-group", "5/h", "--json").json
    assert record == {"name": "mail", "group": "tenant:7", "limit": 1, "rate": "5/h"}
    paused = oncue("queues", "pause", "mail", "--group", "a b", "--for", "10m")
    assert "group a b of queue mail is paused for 10m: nothing of it starts before, unless you run" in paused.out
    assert "`oncue queues resume mail --group 'a b'`" in " ".join(paused.out.split())
    assert oncue("queues", "pause", "mail", "--group", "c", "--json").json == {
        "name": "mail", "group": "c", "paused": True,
    }  # fmt: skip
    ab, c, seven = oncue("queues", "groups", "mail", "--json").json
    assert (ab["name"], ab["queued"], ab["limit"], ab["rate"]) == ("a b", 1, 4, "10/s")
    assert (seven["queued"], seven["running"], seven["limit"], seven["rate"]) == (2, 0, 1, "5/h")
    assert (c["paused_until"], seven["paused_until"]) == ("9999-01-01T00:00:00Z", None)
    table = oncue("queues", "groups", "mail").out
    assert "paused, opens in" in table
    assert "open" in table
    assert "--after tenant:7" not in table
    assert "--after 'a b'" in oncue("queues", "groups", "mail", "--limit", "1").out
    assert [row["name"] for row in oncue("queues", "groups", "mail", "--after", "a b", "--json").json] == [
        "c", "tenant:7",
    ]  # fmt: skip
    assert oncue("queues", "resume", "mail", "--group", "c").out == "group c of queue mail is open\n"
    none = oncue("queues", "limit", "mail", "--group", "tenant:7", "--per-group", "none", "--rate-per-group", "none")
    assert none.out == "group tenant:7 of queue mail: no limit of its own; queue mail says what holds for each group\n"


def test_the_listing_of_groups_ends_where_there_are_no_more(oncue: Shell, sqlite_shop: str) -> None:
    for group in ("a", "b"):
        oncue("enqueue", "add", "a=1", "--queue", "mail", "--group", group)
    assert "There are more: --after a" in oncue("queues", "groups", "mail", "--limit", "1").out
    assert "There are more" not in oncue("queues", "groups", "mail", "--limit", "2").out
    assert len(oncue("queues", "groups", "mail", "--limit", "1", "--json").json) == 1
    assert "No job of a group after b waits" in oncue("queues", "groups", "mail", "--after", "b").out


def test_the_listing_of_groups_tells_why_a_group_does_not_move(oncue: Shell, shop: str) -> None:
    for group in ("a", "a", "b", "b"):
        oncue("enqueue", "add", "a=1", "--queue", "mail", "--group", group)
    oncue("queues", "limit", "mail", "--rate-per-group", "1/h")
    oncue("queues", "limit", "mail", "--group", "b", "--per-group", "1")

    async def claim(app: Oncue) -> None:
        connected = await app.internals.connected()
        store, now = connected.store, connected.now()
        node = a_node(started_at=now, expires_at=now + timedelta(hours=1))
        await store.nodes.register(node)
        await store.groups.wake(["mail"], 100, now)
        assert len(await store.groups.claim(node.id, ["mail"], ["add"], 10, now)) == 2

    on_database(shop, claim)
    table = oncue("queues", "groups", "mail").out
    assert re.search(r"a +1 +1 +1/h +rate: next start in", table), table
    assert re.search(r"b +1 +1 +1 +1/h +full", table), table
    assert "is paused" not in table
    oncue("queues", "pause", "mail")
    paused = " ".join(oncue("queues", "groups", "mail").out.split())
    assert "The queue is paused: nothing of any group starts until `oncue queues resume mail`" in paused


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("limit", "mail", "--rate", "fast"), "--rate: expected a number of jobs"),
        (("limit", "mail", "--rate-per-group", "0/s"), "--rate-per-group: expected a number of jobs"),
        (("limit", "mail", "--per-group", "0"), "--per-group: expected a whole number"),
        (("limit", "mail", "--group", "a", "--global", "5"), "--global: expected only without --group"),
        (("limit", "mail", "--group", "a", "--rate", "5/s"), "--rate: expected only without --group"),
        (("limit", "mail", "--rate", "10/fortnight"), "or `none` for no limit, not '10/fortnight'"),
        (("limit", "mail", "--rate", "-1/s"), "--rate: expected a number of jobs"),
        (("limit", "mail", "--rate", "9999999999/s"), "--rate: expected a number of jobs from 1 to 1,000,000"),
        (("limit", "mail", "--per-group", "9999999"), "--per-group: expected a whole number from 1 to 1,000,000"),
        (("limit", "mail", "--group", "", "--per-group", "5"), "group: expected a printable name"),
        (("limit", "mail", "--group", "a\x1b[31m", "--per-group", "5"), "group: expected a printable name"),
        (("pause", "mail", "--group", "x" * 300), "group: expected a printable name of 1 to 128 characters"),
        (("pause", "mail", "--for", "10m"), "--for: expected only with --group"),
        (("pause", "mail", "--group", "a", "--for", "soon"), "--for: expected a duration"),
        (("pause", "mail", "--group", "a", "--until", "2020-01-01T00:00Z"), "until: expected an instant that is to"),
        (("groups", "a b"), "queue: expected a name without commas and spaces"),
    ],
)
def test_what_cannot_be_set_for_a_group_is_refused(
    oncue: Shell, sqlite_shop: str, typed: tuple[str, ...], said: str
) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    answer = oncue("queues", *typed)
    assert answer.code == 2
    assert said in " ".join(answer.err.replace("Invalid value for ", "").split()), answer.err


def test_a_queue_that_nobody_uses_is_remarked_upon(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    assert oncue("queues", "pause", "mail").err == ""
    assert oncue("queues", "pause", "default").err == "", "a task of the application has it"
    strange = oncue("queues", "pause", "nosuch", "--json")
    assert (strange.code, strange.json) == (0, {"name": "nosuch", "paused": True})
    assert strange.err == "oncue: queue 'nosuch' is not used so far: no job, node, task or schedule names it\n"
    assert "queue 'other' is not used" in oncue("queues", "limit", "other", "--node", "1").err

    async def serve(app: Oncue) -> None:
        connected = await app.internals.connected()
        now = connected.now()
        await connected.store.nodes.register(a_node(started_at=now, expires_at=now + timedelta(hours=1)))

    oncue("queues", "resume", "mail")
    oncue("prune", "--older-than", "0s", "--yes")
    on_database(sqlite_shop, serve)
    assert oncue("queues", "limit", "mail", "--node", "1").err == ""


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_is_made_listed_and_revoked(oncue: Shell, sqlite_shop: str) -> None:
    made = oncue("token", "create", "shop", "--scope", "read", "--scope", "enqueue", "--expires", "90d")
    assert made.code == 0
    assert re.fullmatch(r"oncue_[a-z2-7]{8}_[\w-]{43}\n", made.out), "nothing else, so that a script can catch it"
    assert "cannot be shown again" in made.err
    text, (known,) = made.out.strip(), oncue("token", "list", "--json").json
    assert (known["name"], known["scopes"], known["created_by"]) == ("shop", ["read", "enqueue"], actor())
    shown = oncue("token", "list").out
    assert "valid" in shown
    assert "in 90.0 d" in shown
    assert text.split("_", 2)[2] not in shown + json.dumps(known)
    assert "digest" not in known

    async def valid(app: Oncue) -> bool:
        return await app.tokens.authenticate(text) is not None

    assert on_database(sqlite_shop, valid)
    assert oncue("token", "revoke", known["id"]).out == f"token {known['id']} (shop) is revoked\n"
    assert not on_database(sqlite_shop, valid)
    assert oncue("token", "revoke", "shop").code == 1
    assert oncue("token", "revoke", "nobody").code == 3
    assert "revoked" in oncue("token", "list").out


def test_a_token_as_json_has_its_text_this_once(oncue: Shell, sqlite_shop: str) -> None:
    made = oncue("token", "create", "shop", "--scope", "operate,read", "--json").json
    assert made["scopes"] == ["read", "operate"]
    assert made["token"].startswith(f"oncue_{made['id']}_")
    assert made["expires_at"] is None


def test_sessions_of_browsers_are_listed_and_ended(oncue: Shell, sqlite_shop: str) -> None:
    assert "No browser is signed in" in oncue("token", "sessions").out
    text = oncue("token", "create", "anna", "--scope", "operate").out.strip()
    found = on_database(sqlite_shop, lambda app: app.sessions.start(text))
    listed = oncue("token", "sessions")
    assert found[0].id in listed.out
    assert "anna" in listed.out
    (session,) = oncue("token", "sessions", "--json").json
    assert (session["id"], session["token_name"], session["scopes"]) == (found[0].id, "anna", ["operate"])
    assert found[1] not in listed.out
    assert oncue("token", "end-session", found[0].id).out.strip() == f"session {found[0].id} is ended"
    assert oncue("token", "sessions", "--json").json == []
    assert oncue("token", "end-session", found[0].id).code == 1
    assert oncue("token", "end-session", "nonsense").code == 3


def test_why_a_queue_stands(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    oncue("queues", "pause", "mail")
    found = oncue("queues", "explain", "mail", "--json").json
    codes = [finding["code"] for finding in found["findings"]]
    assert (found["status"], codes) == ("paused", ["paused_queue", "no_node_alive", "jobs_wait"])
    said = oncue("queues", "explain", "mail").out
    assert "queue mail: paused" in said
    assert "`oncue queues resume mail`" in said


def test_what_a_token_cannot_be(oncue: Shell, sqlite_shop: str) -> None:
    oncue("migrate")
    assert oncue("token", "list").out.startswith("There are no tokens.")
    for wrong, word in (
        (["shop"], "--scope"),
        (["shop", "--scope", "root"], "expected one of read, enqueue, operate, admin, not 'root'"),
        (["shop", "--scope", "read", "--expires", "soon"], "--expires"),
        (["shop", "--scope", "read", "--expires", "0s"], "expires: expected a duration of at least a second"),
        ([" shop", "--scope", "read"], "name: expected a printable name"),
    ):
        answer = oncue("token", "create", *wrong)
        assert (answer.code, answer.out) == (2, ""), wrong
        assert word in answer.err
    assert oncue("token", "list", "--json").json == []


# --- the audit log --------------------------------------------------------------------------------------------------


def test_the_audit_log(oncue: Shell, shop: str) -> None:
    oncue("migrate")
    assert oncue("audit-log").out == "Nothing was changed by hand yet.\n"
    oncue("enqueue", "add", "a=1", "--count", "2")
    oncue("priority", "1", "40")
    oncue("boost", "1")
    oncue("cancel", "1")
    oncue("retry", "1")
    oncue("set-status", "2", "failed")
    oncue("queues", "pause", "default")
    entries = oncue("audit-log", "--json").json
    assert {entry["actor"] for entry in entries} == {actor()}
    assert [entry["action"] for entry in entries] == [
        "queue.pause", "job.status", "job.retry", "job.cancel", "job.priority", "job.priority",
    ]  # fmt: skip
    assert (entries[-1]["before"], entries[-1]["after"]) == ({"priority": 0}, {"priority": 40})
    assert len(oncue("audit-log", "--subject", "job:1", "--json").json) == 4
    page = oncue("audit-log", "--limit", "2", "--before", str(entries[1]["id"]), "--json").json
    assert page == entries[2:4]
    assert oncue("audit-log", "--actor", "nobody").out == "No entry matches.\n"
    shown = oncue("audit-log", "--limit", "1").out
    assert "paused=false" in shown
    assert f"--before {entries[0]['id']}" in shown
    assert oncue("audit-log", "--limit", "0").code == 2


def test_schedules_are_changed_in_the_operator_s_name(oncue: Shell, sqlite_diary: str) -> None:
    oncue("schedules", "add", "notes", "@daily", "note", "text=x")
    oncue("schedules", "disable", "notes")
    oncue("trigger", "notes")
    oncue("schedules", "remove", "notes")
    entries: list[dict[str, Any]] = oncue("audit-log", "--subject", "schedule:notes", "--json").json
    assert [(entry["actor"], entry["action"]) for entry in reversed(entries)] == [
        (actor(), f"schedule.{action}") for action in ("create", "toggle", "trigger", "delete")
    ]


def test_the_log_keeps_what_pruning_took_away(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    oncue("cancel", "1")
    oncue("prune", "--older-than", "0s", "--yes")
    pruned, cancelled = oncue("audit-log", "--json").json
    assert (pruned["action"], pruned["after"]) == ("prune", {"jobs": 1})
    assert cancelled["subject"] == "job:1"
