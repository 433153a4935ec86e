"""The pages and the API, on a day under the test's clock."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime

import httpx
import pytest
from news_agent import chats, digests, membership, users
from news_agent.jobs import app, write
from news_agent.model import ModelError
from news_agent.web import news_api
from prometheus_client import CollectorRegistry

from oncue.server.api import AccessMode
from oncue.server.health import Readiness
from oncue.testing import Kit
from tests.examples.news_agent.conftest import NOON, Scripted

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;/../?#%00"
EVENING = "18:00"


@asynccontextmanager
async def browser(access: AccessMode = AccessMode.LOOPBACK) -> AsyncIterator[httpx.AsyncClient]:
    api = news_api(app, Readiness(app), CollectorRegistry(), access)
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        yield client


async def signed_up(name: str, at: str = EVENING, tz: str = "UTC") -> int:
    (user,) = await membership.sign_up([users.wanted(name, at, tz, [HOSTILE[:60]])])
    return user.id


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, 17, hour, minute, tzinfo=UTC)


async def page(client: httpx.AsyncClient, path: str, status: int = 200) -> str:
    reply = await client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    return reply.text


def words(html: str) -> str:
    """What a reader sees, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@pytest.mark.contract("WIN-7", "WIN-8", "WIN-13")
async def test_the_page_of_a_day_tells_it_from_the_opening_to_the_reset(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up("ann", "18:00", "Europe/Berlin")
    await write(chats.say, ann, "user", "Remember me", NOON)
    scripted.script = [ModelError("llm", "the model answered 500")]
    async with browser() as client:
        assert "The window opens at 17:00 and ends at 18:00" in words(await page(client, f"/users/{ann}"))
        await kit.aelapse(at(16, 5) - NOON)
        shown = words(await page(client, f"/users/{ann}"))
        assert "The window is open until 18:00. The next attempt is due at 17:10:00." in shown
        assert "llm ModelError: the model answered 500" in shown
        assert "1 open" in words(await page(client, "/"))
        await kit.aelapse("1h")
        shown = words(await page(client, f"/users/{ann}"))
        assert "Cutoff reached No attempt succeeded before 18:00." in shown
        assert "Remember me Reset at 17 Nov, 18:00:00: the cutoff was reached" in shown
        assert "Nothing: the next message begins a new chat." in shown
        assert shown.count("ModelError") == 6
        assert "1 cutoff reached" in words(await page(client, "/"))
        scripted.script = ["All is well again"]
        await kit.aelapse("1d")
        shown = words(await page(client, f"/users/{ann}"))
        assert "Delivered The digest was delivered in the window from 17:00 to 18:00." in shown
        assert "All is well again" in shown
        assert "2026-11-17 cutoff reached" in shown


async def test_nothing_that_people_write_becomes_markup(kit: Kit, scripted: Scripted) -> None:
    user = await signed_up(HOSTILE)
    await write(chats.say, user, "user", HOSTILE, NOON)
    scripted.script = [ModelError("parse", HOSTILE), HOSTILE]
    await kit.aelapse(at(17, 15) - NOON)
    async with browser() as client:
        for path in ("/", f"/users/{user}"):
            html = await page(client, path)
            assert "&lt;script&gt;alert(1)" in html
            assert "<script" not in html.lower()
            assert "<img" not in html.lower()
        day = await page(client, f"/users/{user}")
        assert day.count("&lt;img src=x onerror=alert(2)&gt;") >= 4, "name, message, digest and error"
        many = [users.wanted(f"{HOSTILE} {number:02}", EVENING) for number in range(60)]
        await membership.sign_up(many)
        first = await page(client, "/")
        (following,) = re.findall(r'href="(/\?after=[^"]+)"', first)
        second = await page(client, following.replace("&amp;", "&"))
        assert second.count('<td><a href="/users/') == 11, "the next page begins where this one ends"


async def test_a_page_for_which_there_is_nothing_says_so(kit: Kit, scripted: Scripted) -> None:
    async with browser() as client:
        assert "No users yet" in await page(client, "/")
        assert "there is no user 77" in words(await page(client, "/users/77", 404))
        user = await signed_up("ann")
        assert "There is no window on this day." in words(await page(client, f"/users/{user}?day=2026-01-01"))
        assert "opens at 17:00" in words(await page(client, f"/users/{user}?day=2026-12-24"))
        assert (await client.get(f"/users/{user}?day=soon")).status_code == 422
        assert (await client.get("/news.css")).headers["content-type"].startswith("text/css")


async def test_users_sign_up_change_chat_and_leave_over_http(kit: Kit, scripted: Scripted) -> None:
    async with browser() as client:
        reply = await client.post("/api/users", json={"name": "ann", "at": "18:00", "tz": "Europe/Berlin"})
        assert (reply.status_code, reply.json()["topics"]) == (201, list(users.USUAL_TOPICS))
        number = reply.json()["id"]
        changed = await client.put(f"/api/users/{number}", json={"at": "19:00", "topics": ["tea"]})
        assert [changed.json()[name] for name in ("at", "tz", "topics")] == ["19:00", "Europe/Berlin", ["tea"]]
        (listed,) = (await client.get("/api/users")).json()["users"]
        assert (listed["name"], listed["day"], listed["status"]) == ("ann", "2026-11-17", "upcoming")
        assert listed["opens_at"] == "2026-11-17T17:00:00Z"
        said = await client.post(f"/api/users/{number}/messages", json={"text": "hello"})
        assert said.json() == {"text": "Today's news"}
        (asked,) = scripted.asked
        assert (asked.kind, asked.day, [one.text for one in asked.context]) == ("reply", date(2026, 11, 17), ["hello"])
        opened = await client.post(f"/api/users/{number}/deliver")
        assert (opened.status_code, opened.json()["day"]) == (202, "2026-11-17")
        assert (await client.post(f"/api/users/{number}/deliver")).status_code == 409
        await kit.aelapse("1m")
        day = (await client.get(f"/api/users/{number}")).json()
        assert (day["status"], day["digest"]["text"], len(day["chat"]["context"])) == ("success", "Today's news", 3)
        assert (await client.delete(f"/api/users/{number}")).json()["removed"] is True
        assert (await client.get(f"/api/users/{number}")).status_code == 404


async def test_what_is_wrong_is_told_as_a_problem(kit: Kit, scripted: Scripted) -> None:
    number = await signed_up("ann")
    async with browser() as client:
        reply = await client.post("/api/users", json={"name": "bob", "at": "nine"})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "at")
        reply = await client.post("/api/users", json={"name": "bob", "at": "09:00", "zone": "UTC"})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "zone")
        assert (await client.put("/api/users/999", json={"at": "09:00"})).status_code == 404
        scripted.script = [ModelError("req", "the model cannot be reached")]
        reply = await client.post(f"/api/users/{number}/messages", json={"text": "hello"})
        assert (reply.status_code, reply.json()["error_class"]) == (502, "req")
        reply = await client.post(f"/api/users/{number}/messages", json={"text": ""})
        assert reply.status_code == 422


async def test_strangers_see_nothing(kit: Kit) -> None:
    user = await signed_up("ann")
    await write(digests.deliver, "ann", NOON.date(), "Private news", "scripted", NOON)
    async with browser(AccessMode.TOKEN) as client:
        for path in ("/", f"/users/{user}", "/api/users", f"/api/users/{user}"):
            reply = await client.get(path)
            assert reply.status_code == 401
            assert "ann" not in reply.text
    async with browser() as client:
        evil = {"Origin": "https://evil.example"}
        assert (await client.post("/api/users", json={"name": "x", "at": "09:00"}, headers=evil)).status_code == 403


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31", "1969-12-31", "3000-01-01"])
async def test_a_date_without_neighbours_is_refused(kit: Kit, scripted: Scripted, day: str) -> None:
    ann = await signed_up("ann")
    async with browser() as client:
        for path in (f"/users/{ann}", f"/api/users/{ann}"):
            reply = await client.get(path, params={"day": day})
            assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "day"), reply.text
