"""Names with a slash: encoded they are one part of a path, and decoded by a proxy the last words of it decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from oncue import Client
from oncue.server.api import AccessMode
from oncue.server.mounting import mountable
from tests.client.conftest import Aside, Shop
from tests.server.conftest import HERE, Api, a_shop

QUEUES, SCHEDULES = "/api/admin/queues", "/api/admin/scheduled-jobs"
NAMES = ["a/b", "a/pause", "a/pause/pause", "/a", "a//b", "a%2Fb", "a/limits"]


def encoded(name: str) -> str:
    return quote(name, safe="")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("written", [encoded, lambda name: name.replace("%", "%25")], ids=["encoded", "by a proxy"])
async def test_a_queue_with_a_slash_is_addressed(api: Api, name: str, written: object) -> None:
    assert callable(written)
    place = f"{QUEUES}/{written(name)}"
    paused = await api("POST", f"{place}/pause")
    assert paused.status_code == 200, paused.text
    assert (paused.json()["name"], paused.json()["paused_at"] is not None) == (name, True)
    shown = await api("GET", place)
    if written is not encoded and name.rpartition("/")[2] in ("pause", "limits"):
        assert (shown.status_code, shown.headers["Allow"]) == (405, "PUT" if name == "a/limits" else "POST")
    else:
        assert shown.json()["name"] == name
    limited = await api("PUT", f"{place}/limits", {"global": 3})
    assert (limited.json()["name"], limited.json()["global_limit"]) == (name, 3)
    resumed = await api("POST", f"{place}/resume")
    assert (resumed.json()["name"], resumed.json()["paused_at"] is not None) == (name, False)
    assert [queue["name"] for queue in (await api.get(QUEUES))["queues"]] == [name]


async def test_a_queue_and_its_verb_are_told_apart(api: Api) -> None:
    await api("POST", f"{QUEUES}/a/pause")
    await api("POST", f"{QUEUES}/a%2Fpause/pause")
    assert {queue["name"] for queue in (await api.get(QUEUES))["queues"]} == {"a", "a/pause"}
    assert (await api("POST", f"{QUEUES}/a%2Fpause")).status_code == 405


NIGHTLY = {"cron_expression": "0 3 * * *", "task": "add", "args": {"a": 1}}


async def test_a_schedule_with_a_slash_is_addressed(api: Api) -> None:
    for name in ("a", "a/slots"):
        assert (await api("POST", SCHEDULES, {"name": name, **NIGHTLY})).status_code == 201
    place = f"{SCHEDULES}/a%2Fslots"
    assert (await api.get(place))["name"] == "a/slots"
    assert (await api.get(f"{SCHEDULES}/a/slots"))["slots"] == []  # those of `a`
    for part in ("slots", "preview", "revisions", "audit"):
        assert (await api("GET", f"{place}/{part}")).status_code == 200
        assert (await api("GET", f"{SCHEDULES}/a/slots/{part}")).status_code == 200
    toggled = await api("POST", f"{place}/toggle", {"enabled": False})
    assert (toggled.json()["name"], toggled.json()["enabled"]) == ("a/slots", False)
    assert (await api.get(f"{SCHEDULES}/a"))["enabled"]
    assert (await api("POST", f"{place}/trigger")).status_code == 201
    refused = await api("PUT", f"{SCHEDULES}/a/slots", {"description": "every night"})
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET"), "the last part decides, for every method"
    changed = await api("PUT", place, {"description": "every night"})
    assert changed.json()["name"] == "a/slots"
    assert (await api("DELETE", place)).json()["name"] == "a/slots"
    assert [one["name"] for one in (await api.get(SCHEDULES))["scheduled_jobs"]] == ["a"]


async def test_under_another_applications_path(api: Api) -> None:
    outer = Starlette(routes=[Mount("/in/here", mountable(api.app, require_token=False))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=HERE) as client:
        paused = await client.post(f"/in/here{QUEUES}/a%2Fpause/pause")
        assert (paused.status_code, paused.json()["name"]) == (200, "a/pause")


async def test_behind_an_application_that_rewrites_the_path(api: Api) -> None:
    inner = mountable(api.app, require_token=False)

    async def stripped(scope: Scope, receive: Receive, send: Send) -> None:
        await inner({**scope, "path": scope["path"].removeprefix("/jobs")}, receive, send)

    outer: ASGIApp = stripped
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=HERE) as client:
        paused = await client.post(f"/jobs{QUEUES}/a%2Fpause/pause")
        assert (paused.status_code, paused.json()["name"]) == (200, "a/pause")


@pytest.fixture
def aside() -> Iterator[Aside]:
    aside = Aside()
    yield aside
    aside.close()


def test_a_client_addresses_them(aside: Aside, sqlite_url: str, tmp_path: Path) -> None:
    with Client(Shop(aside, a_shop(sqlite_url, tmp_path), AccessMode.LOOPBACK).url) as client:
        assert client.queues.pause("a/pause").name == "a/pause"
        assert client.queues.get("a/pause").paused_at is not None
        assert client.schedules.create("x/slots", "0 3 * * *", "add", {"a": 1}).name == "x/slots"
        assert client.schedules.get("x/slots").name == "x/slots"
