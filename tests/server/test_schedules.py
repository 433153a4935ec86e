"""Schedules over HTTP: making and changing them, their slots, and what became of those."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue import cron
from oncue.model import Decided, Step
from oncue.server.api.problems import Problem
from oncue.server.api.slots import _refuse_many
from oncue.verbs.schedules.declaring import Declaring
from tests.server.conftest import Api, MakeApi

SCHEDULES = "/api/admin/scheduled-jobs"
NIGHTLY = {"name": "nightly", "cron_expression": "0 3 * * *", "task": "report", "args": {"pages": 3}}


async def made(api: Api, **terms: Any) -> Any:
    reply = await api("POST", SCHEDULES, {**NIGHTLY, **terms})
    assert reply.status_code == 201, reply.text
    return reply.json()


@pytest.mark.contract("QUE-16", "QUE-7")
async def test_made_shown_changed_and_deleted(api: Api) -> None:
    terms = {
        "tz": "Europe/Berlin", "dst": "once", "missed": "each", "grace": "12h", "max_instances": 4, "queue": "mail",
        "priority": 30, "description": "Yesterday's figures", "enabled": True,
    }  # fmt: skip
    reply = await api("POST", SCHEDULES, {**NIGHTLY, **terms})
    shown = reply.json()
    assert (reply.status_code, reply.headers["location"]) == (201, f"{SCHEDULES}/{shown['id']}")
    assert {name: shown[name] for name in {**NIGHTLY, **terms}} == {**NIGHTLY, **terms, "grace": 43200.0}
    wanted = {
        "name", "description", "target", "cron_expression", "enabled", "priority", "next_run_at", "last_run_at",
        "created_by", "created_at", "updated_at",
    }  # fmt: skip
    assert wanted <= set(shown)
    assert (shown["target"], shown["created_by"], shown["revision"]) == ("report", "local", 1)
    assert await api.get(reply.headers["location"]) == await api.get(f"{SCHEDULES}/nightly") == shown

    changed = await api("PUT", f"{SCHEDULES}/{shown['id']}", {"priority": 40, "name": "nightly"})
    after = changed.json()
    moved = {"priority", "revision", "started_at", "updated_at"}
    assert (after["priority"], after["revision"]) == (40, 2)
    assert {name: value for name, value in after.items() if name not in moved} == {
        name: value for name, value in shown.items() if name not in moved
    }, "fields that are absent keep their value"
    both = (await api("PUT", f"{SCHEDULES}/nightly", {"cron_expression": "@hourly", "enabled": False})).json()
    assert (both["cron_expression"], both["enabled"], both["tz"]) == ("@hourly", False, "Europe/Berlin")
    same = (await api("PUT", f"{SCHEDULES}/nightly", {"cron_expression": "@hourly", "priority": None})).json()
    assert same == both
    renamed = (await api("PUT", f"{SCHEDULES}/{shown['id']}", {"name": "hourly"})).json()
    assert (renamed["id"], renamed["name"], renamed["revision"]) == (shown["id"], "hourly", both["revision"])
    assert (await api("PUT", f"{SCHEDULES}/hourly", {"name": "nightly"})).json()["name"] == "nightly"

    gone = await api("DELETE", f"{SCHEDULES}/{shown['id']}")
    assert (gone.status_code, gone.json()["name"]) == (200, "nightly")
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/preview"), ("POST", "/trigger")):
        reply = await api(method, f"{SCHEDULES}/{shown['id']}{path}", {} if method == "PUT" else None)
        assert reply.status_code == 404, (method, path)
    actions = [entry["action"] for entry in (await api.get("/api/admin/audit-log"))["entries"]]
    assert actions == ["schedule.delete", *["schedule.update"] * 4, "schedule.create"]


@pytest.mark.contract("QUE-16")
async def test_toggle(api: Api) -> None:
    schedule = await made(api, enabled=False)
    assert schedule["next_run_at"] is None
    for enabled in (True, True, False):
        shown = (await api("POST", f"{SCHEDULES}/{schedule['id']}/toggle", {"enabled": enabled})).json()
        assert (shown["enabled"], shown["next_run_at"] is not None) == (enabled, enabled)
    for wrong in ({}, {"enabled": "yes"}, {"enabled": None}, {"enabled": 1}, {"enabled": True, "by": "me"}, []):
        assert (await api("POST", f"{SCHEDULES}/{schedule['id']}/toggle", wrong)).status_code == 422, wrong


@pytest.mark.contract("QUE-16")
async def test_listing(api: Api) -> None:
    names = [f"report {letter}" for letter in "abcdefg"]
    for name in reversed(names):
        await made(api, name=name)
    page = await api.get(SCHEDULES)
    assert ([schedule["name"] for schedule in page["scheduled_jobs"]], page["next"]) == (names, None)
    page = await api.get(f"{SCHEDULES}?limit=2&offset=3")
    assert [schedule["name"] for schedule in page["scheduled_jobs"]] == names[3:5]
    where, seen = f"{SCHEDULES}?limit=3", []
    while where is not None:
        page = await api.get(where)
        seen += [schedule["name"] for schedule in page["scheduled_jobs"]]
        where = page["next"]
    assert seen == names
    assert (await api("GET", f"{SCHEDULES}?limit=0")).status_code == 422
    assert (await api("GET", f"{SCHEDULES}?offset=10001")).status_code == 422


@pytest.mark.contract("QUE-6")
async def test_what_is_refused_names_its_field(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    first = await made(api)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cron_expression": "0 3 * *"}, "cron_expression"),
        ({"cron_expression": "@every 1ms"}, "cron_expression"),
        ({"cron_expression": ""}, "cron_expression"),
        ({"tz": "Mars/Olympus"}, "tz"),
        ({"dst": "never"}, "dst"),
        ({"missed": "some"}, "missed"),
        ({"grace": "0s"}, "grace"),
        ({"grace": "long"}, "grace"),
        ({"max_instances": 0}, "max_instances"),
        ({"priority": 101}, "priority"),
        ({"queue": "a,b"}, "queue"),
        ({"task": "nobody"}, "task"),
        ({"args": {"pages": "x"}}, "args.pages"),
        ({"args": {"nobody": 1}}, "args.nobody"),
        ({"args": []}, "args"),
        ({"name": "12"}, "name"),  # over HTTP a number is an id
        ({"description": "x" * 1001}, "description"),
        ({"enabled": "no"}, "enabled"),
        ({"schedule": "@daily"}, "schedule"),
    ]
    for terms, field in wrong:
        for method, path, body in (
            ("POST", SCHEDULES, {**NIGHTLY, "name": "another", **terms}),
            ("PUT", f"{SCHEDULES}/nightly", terms),
        ):
            reply = await api(method, path, body)
            assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text
    reply = await api("POST", SCHEDULES, {**NIGHTLY, "cron_expression": "0 3 * * XYZ"})
    assert reply.json()["errors"][0]["position"] == 9
    for name, field in (("", "name"), (" x", "name"), ("x" * 129, "name"), (None, "name")):
        reply = await api("POST", SCHEDULES, {**NIGHTLY, "name": name})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field)
    for terms, field in (({}, "task"), ({"task": "add", "target": "report"}, "target")):
        reply = await api("POST", SCHEDULES, {"name": "x", "cron_expression": "@daily", **terms})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field)
    assert (await api("PUT", f"{SCHEDULES}/nightly", {"name": ""})).json()["errors"][0]["field"] == "name"
    assert (await api("POST", SCHEDULES, {**NIGHTLY, "name": "taken"})).status_code == 201
    assert (await api("PUT", f"{SCHEDULES}/nightly", {"name": "taken"})).status_code == 409
    assert (await api("POST", SCHEDULES, NIGHTLY)).status_code == 409
    assert await api.get(f"{SCHEDULES}/nightly") == first


async def test_what_code_declares_is_changed_there(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)

    @api.app.task(schedule=cron("@daily"))
    async def declared() -> None: ...

    await Declaring(api.app.internals).synchronise(await api.app.internals.connected())
    assert (await api("PUT", f"{SCHEDULES}/declared", {"priority": 1})).status_code == 409
    assert (await api("DELETE", f"{SCHEDULES}/declared")).status_code == 409
    assert (await api("PUT", f"{SCHEDULES}/declared", {"enabled": False})).json()["enabled"] is False


async def test_a_preview_of_a_change_tells_what_goes_and_comes_and_writes_nothing(api: Api) -> None:
    schedule = await made(api)
    where = f"{SCHEDULES}/{schedule['id']}"
    told = (await api("POST", f"{where}/preview?count=4", {"cron_expression": "0 3,9 * * *", "grace": "1h"})).json()
    assert [fire["stays"] for fire in told["going"]] == [True] * 4
    assert sorted(fire["stays"] for fire in told["coming"]) == [False, False, True, True]
    assert (told["is_revision"], told["given_up"], told["after"]["grace"]) == (True, 0, 3600.0)
    assert told["before"] == await api.get(where) == schedule
    wrong = await api("POST", f"{where}/preview", {"cron_expression": "0 25 * * *"})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["field"] == "cron_expression"
    assert (await api("POST", f"{where}/preview?count=101", {})).status_code == 422
    assert (await api("POST", f"{SCHEDULES}/none/preview", {})).status_code == 404


async def test_slots_to_come_and_by_hand(api: Api) -> None:
    schedule = await made(api, max_instances=2)
    where = f"{SCHEDULES}/{schedule['id']}"
    fires = (await api.get(f"{where}/preview?count=3"))["fires"]
    assert len(fires) == 3
    assert fires[0]["scheduled_for"] == schedule["next_run_at"]
    first = (await api.get(f"{where}/preview?count=1&from=2030-05-01"))["fires"]
    assert first[0]["scheduled_for"] == "2030-05-01T03:00:00Z"
    for query in ("count=0", "count=1001", "count=x", "from=tomorrow", "from=0001-01-01", "from=9999-12-31", "days=3"):
        assert (await api("GET", f"{where}/preview?{query}")).status_code == 422, query

    now = await api.app.now()
    yesterday = (now - timedelta(days=1)).replace(hour=3, minute=0, second=0, microsecond=0)
    reply = await api("POST", f"{where}/trigger", {"at": yesterday.isoformat()})
    slot = reply.json()
    assert (reply.status_code, reply.headers["location"]) == (201, f"/api/admin/jobs/{slot['job_id']}")
    assert (slot["verdict"], slot["reason"], slot["schedule"]) == ("manual", "trigger", "nightly")
    assert (await api.get(reply.headers["location"]))["args"] == {"pages": 3}
    taken = await api("POST", f"{where}/trigger", {"at": yesterday.isoformat()})
    assert (taken.status_code, taken.json()["job_id"]) == (409, slot["job_id"])
    strange = await api("POST", f"{where}/trigger", {"at": "2030-01-01T04:00:00Z"})
    assert (strange.status_code, strange.json()["errors"][0]["field"]) == (422, "at")
    assert (await api("POST", f"{where}/trigger")).json()["reason"] == "run_now"
    full = await api("POST", f"{where}/trigger", {})
    assert (full.status_code, full.json()["type"]) == (409, "/problems/conflict")


async def test_backfill_ledger_audit_and_revisions(api: Api) -> None:
    schedule = await made(api)
    where = f"{SCHEDULES}/nightly"
    now = await api.app.now()
    span = {"from": (now - timedelta(days=4)).isoformat(), "to": now.isoformat()}
    plan = (await api("POST", f"{where}/backfill", {**span, "dry_run": True})).json()
    assert (plan["made"], plan["would_make"], len(plan["slots"])) == (0, 4, 4)
    done = (await api("POST", f"{where}/backfill", span)).json()
    assert (done["made"], done["present"], len(done["jobs"])) == (4, 0, 4)
    again = (await api("POST", f"{where}/backfill", span)).json()
    assert (again["made"], again["present"], again["jobs"]) == (0, 4, [])
    for body, field in (
        ({}, "from"), ({"from": "x"}, "from"), ({"from": "now", "to": "-1h"}, "from"), ({"from": 7}, "from"),
        ({"from": "-1h", "to": "2099-01-01"}, "to"), ({"from": "-1h", "until": "now"}, "until"),
    ):  # fmt: skip
        reply = await api("POST", f"{where}/backfill", body)
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text

    page = await api.get(f"{where}/slots?from=-5d&limit=3")
    assert [slot["job_id"] for slot in page["slots"]] == done["jobs"][:3]
    rest = await api.get(page["next"])
    assert ([slot["job_id"] for slot in rest["slots"]], rest["next"]) == (done["jobs"][3:], None)
    assert len((await api.get(f"{where}/slots?limit=2"))["slots"]) == 2
    assert (await api("GET", f"{where}/slots?from=-5d&to=x")).status_code == 422

    audit = await api.get(f"{where}/audit?from=-5d")
    assert (audit["schedule"], audit["holds"], audit["counts"]) == ("nightly", True, {"manual": 4})
    assert (await api.get(f"{where}/audit?from=-5d&problems=true"))["fates"] == []
    plus = datetime.fromisoformat(span["from"]).isoformat()  # ends in +00:00, and nobody escapes the plus
    assert (await api.get(f"{where}/audit?from={plus}"))["holds"]
    for query in ("from=x", "to=0001-01-01", "from=now&to=-1h", "from=-200y"):
        assert (await api("GET", f"{where}/audit?{query}")).status_code == 422, query

    await api("PUT", where, {"priority": 9})
    await api("DELETE", where)
    revisions = (await api.get(f"{SCHEDULES}/{schedule['id']}/revisions"))["revisions"]
    assert [revision["priority"] for revision in revisions][-2:] == [9, 0]
    page = await api.get(f"{SCHEDULES}/{schedule['id']}/revisions?limit=1")
    assert (page["revisions"], len(revisions) > 1) == (revisions[:1], True)
    assert (await api.get(page["next"]))["revisions"] == revisions[1:2]
    assert (await api.get(f"{SCHEDULES}/{schedule['id']}/revisions?before=2&limit=1"))["next"] is None
    assert (await api.get(f"{where}/audit?from=-5d"))["counts"] == {"manual": 4}, "what is deleted can be audited"
    assert len((await api.get(f"{where}/slots"))["slots"]) == 4


async def test_a_run_of_slots_is_on_one_page(api: Api) -> None:
    """It reaches into the pages after its own: there it is not shown again, and they come to an end."""
    schedule = await made(api, cron_expression="0 * * * *")
    connected = await api.app.internals.connected()
    found, now = await api.app.schedules.get("nightly"), connected.now().replace(minute=0, second=0, microsecond=0)
    starts = [now - timedelta(hours=hours) for hours in (30, 20, 9, 8)]
    decided = [
        Decided(starts[0], "missed", "late", until=now - timedelta(hours=10), slots=21),
        *(Decided(start, "skipped", "overlap") for start in starts[1:]),  # one of them is inside of the run
    ]
    step = Step(found.id, found.version, found.cursor, found.next_run_at, decided)
    assert await connected.store.slots.decide([step], now, by="tests") == [True]
    for limit in (1, 2, 3):
        where, seen = f"{SCHEDULES}/{schedule['id']}/slots?from=-2d&limit={limit}", []
        while where is not None and len(seen) < 9:
            page = await api.get(where)
            seen += [datetime.fromisoformat(slot["scheduled_for"]) for slot in page["slots"]]
            where = page["next"]
        assert seen == starts, limit
    reply = await api("GET", f"{SCHEDULES}/{schedule['id']}/slots?after=x")
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "after")


async def test_an_audit_has_bounds(make_api: MakeApi, sqlite_url: str) -> None:
    """Every slot is worked out, and nobody else is answered meanwhile."""
    api = make_api(sqlite_url)
    await made(api, cron_expression="* * * * * *")
    connected = await api.app.internals.connected()
    schedule = await api.app.schedules.get("nightly")
    old = dataclasses.replace(schedule, created_at=connected.now() - timedelta(days=9))
    with pytest.raises(Problem, match="take it in parts"):
        _refuse_many(old, connected.now() - timedelta(days=8), connected.now())
    assert (await api.get(f"{SCHEDULES}/nightly/audit?from=-10d"))["holds"], "before it was made, there is nothing"
