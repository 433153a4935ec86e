"""Reading changes nothing: every address that pages lead to is opened, and the database stays as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from bench.server.markup import Read, leading_on
from fuzz.tables import differences, fingerprints
from oncue import Oncue
from oncue.model import SCOPES
from oncue.policy.scopes import allows
from oncue.server.dashboard.pages import SECURITY, Page
from oncue.server.dashboard.view import parted
from oncue.settings import load
from tests.dashboard.conftest import MakeDoor
from tests.dashboard.kit import Door
from tests.dashboard.told import SECRETS, Told

MOST_OF_A_KIND = 2
"""Of addresses of one page with the same parameters: a calendar leads to another day for ever."""
MOST = 300


def page_at(door: Door, address: str) -> Page | None:
    found = door.pages._page(parted(address)[0])
    return found[0] if found is not None else None


async def crawled(door: Door, told: Told, session: str) -> dict[str, Read]:
    """Every address that is found, from the overview and the stories on."""
    found: dict[str, Read] = {}
    rooms = {page.path.split("/")[1] for _, _, page in door.pages.pages}
    kinds: Counter[Any] = Counter()
    waiting = list(reversed(told.addresses))
    while waiting and len(found) < MOST:
        address = waiting.pop()
        page = page_at(door, address)
        kind = (page.path if page else address.partition("?")[0],
                frozenset(name for name, value in parse_qsl(address.partition("?")[2]) if value))  # fmt: skip
        if address in found or (kinds[kind] >= MOST_OF_A_KIND and address not in told.addresses):
            continue
        kinds[kind] += 1
        if page is None and address.split("/")[1].partition("?")[0] not in {*rooms, "api"}:
            continue  # nothing of this room is built yet
        reply = await door.get(address, session)
        assert reply.status_code in (200, 303, 404), f"{address}: {reply.status_code} {reply.text}"
        is_page = reply.headers.get("content-type", "").startswith("text/html")
        found[address] = read = Read(reply.text if is_page else "")
        if is_page:
            for name, value in SECURITY.items():
                assert reply.headers[name] == value, (address, name)
        waiting += leading_on(read, address, door.prefix)
    return found


@pytest.mark.timeout(120)
async def test_reading_changes_nothing_and_tells_no_secret(
    story_door: Door, told: Told, copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_SECRET_PLANTED", "planted-in-the-environment")
    door, session = story_door, await story_door.session("admin")
    _, token = await door.app.tokens.create("planted", ["admin"])
    await door.get("/", session)
    url = door.app.settings.database_url
    before = await fingerprints(url)
    found = await crawled(door, told, session)
    for address in told.addresses:
        page = page_at(door, address)
        assert page is not None
        if door.pages.is_live(page) and (await door.get(address, session)).status_code == 200:
            await door.pages.render_live((address, SCOPES, ""))
    assert not differences(before, await fingerprints(url))
    secrets = [*SECRETS.values(), "planted-in-the-environment", token, token.split("_", 2)[2], session.split("_", 1)[1]]
    for address, read in found.items():
        words = read.words + " ".join(value for _, value in read.addresses)
        words += " ".join(value for form in read.forms for _, value in form.fields)
        shown = [secret for secret in secrets if secret in words]
        assert not shown, f"{address} shows {shown}"
        assert not read.inline + read.unsafe(), address
    reached = {page.template for address in found if (page := page_at(door, address)) is not None}
    assert reached == {page.template for _, _, page in door.pages.pages}, "a story shows every page"


@pytest.mark.timeout(60)
async def test_every_page_is_open_to_those_with_its_scope_and_to_nobody_else(story_door: Door, told: Told) -> None:
    door = story_door
    sessions = {scope: await door.session(scope) for scope in SCOPES}
    for address in told.addresses:
        page = page_at(door, address)
        assert page is not None, f"no page is at {address}"
        there = (await door.get(address, sessions["admin"])).status_code
        assert there in (200, 404)
        for scope in SCOPES:
            status = (await door.get(address, sessions[scope])).status_code
            assert status == (there if allows((scope,), page.needs) else 403), (address, scope, status)
        assert (await door.get(address)).status_code == 303


@pytest.mark.timeout(60)
async def test_a_reader_is_shown_no_button(story_door: Door, told: Told) -> None:
    """An action that a visitor may not do is not offered: its command is."""
    door, session = story_door, await story_door.session("read")
    for address in told.addresses:
        page = page_at(door, address)
        assert page is not None
        reply = await door.get(address, session)
        if reply.status_code == 200:
            offered = {form.action for form in Read(reply.text).forms if form.method == "post" and form.has_button} - {
                "/sign-out"
            }
            needs = {path: door.pages.actions[path].needs for path in offered}
            assert all(need == "read" for need in needs.values()), (address, needs)


async def test_the_password_of_the_database_is_shown_nowhere(
    postgres_url: str, tmp_path: Path, make_door: MakeDoor, told: Told
) -> None:
    url = postgres_url.replace("postgres@", "postgres:planted-password@")
    assert "planted-password" in url
    settings = {"database_url": url, "redis_url": "redis://:planted-too@127.0.0.1:1/0"}
    app = Oncue(settings=load(settings, environment={}, folder=tmp_path))
    door = make_door(app)
    session = await door.session("admin")
    for _, _, page in door.pages.pages:
        if "{" not in page.path:
            reply = await door.get(page.path, session)
            assert reply.status_code in (200, 404), (page.path, reply.text)
            assert "planted" not in reply.text, page.path
