"""A hundred payloads in every stored text and in every parameter of every page: a page has no element or attribute
more than the same page with a harmless text there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from starlette.datastructures import ImmutableMultiDict, QueryParams

from bench.server.markup import Read
from oncue.server.dashboard import Dashboard
from oncue.server.dashboard.pages import parted, quoted
from tests.dashboard.conftest import MakeDoor
from tests.dashboard.hostile import FIXED, JSON, NAMES, TEXTS, columns_of_texts, spoiled, with_payloads
from tests.dashboard.kit import Door
from tests.dashboard.payloads import PAYLOADS, harmless, some
from tests.dashboard.told import Told

TURNS, AT_ONCE = 5, len(PAYLOADS) // 5


def test_every_stored_text_is_known(told: Told) -> None:
    """A new column is put under one of the headings: what users write is tried with payloads."""
    known = [(table, column) for kind in (NAMES, TEXTS, JSON, FIXED) for table, all_ in kind.items() for column in all_]
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 100
    assert len(known) == len(set(known))
    assert set(known) == columns_of_texts(told.file)


def _as_it_is(text: str) -> str:
    return text


def readdressed(pages: Dashboard, address: str, names: dict[str, str]) -> str:
    """The address of the same page now that what it shows has another name."""
    path, query = parted(address)
    found = pages._page(path)
    assert found is not None, f"no page is at {address}"
    for value in sorted(found[1].values(), key=len, reverse=True):
        path = path.replace(value, names.get(value, value)) if value in names else path
    asked = [(name, names.get(value, value)) for name, value in query.multi_items()]
    return quoted(path) + (f"?{urlencode(asked)}" if asked else "")


async def shown(told: Told, door: Door, names: dict[str, str]) -> dict[str, tuple[int, Read]]:
    """All pages of the stories, and the live part of each."""
    await told.held_still(door.app)
    session, found = await door.session("admin"), {}
    for address in told.addresses:
        reply = await door.get(readdressed(door.pages, address, names), session)
        found[address] = reply.status_code, Read(reply.text)
    return found


def compared(address: str, hostile: tuple[int, Read], tame: tuple[int, Read]) -> list[str]:
    """What is wrong with a page, against the same with harmless texts."""
    (status, page), (wanted, other) = hostile, tame
    wrong = [f"{address}: answered {status}, not {wanted}"] if status != wanted or status >= 500 else []
    if page.elements != other.elements:
        more = next(
            (pair for pair in zip(page.elements, other.elements, strict=False) if pair[0] != pair[1]), "the length"
        )
        wrong.append(f"{address}: other elements: {more}")
    wrong += [f"{address}: {what}" for what in page.inline + page.unsafe()]
    wrong += [f"{address}: {one}" for one in page.others if one != "doctype html"]
    return wrong


@pytest.mark.timeout(120)
@pytest.mark.parametrize("turn", range(TURNS))
def test_stored_texts(
    turn: int, told: Told, copy: Callable[..., Path], make_door: MakeDoor, runner: asyncio.Runner
) -> None:
    found = []
    for name, clean in (("hostile.db", _as_it_is), ("tame.db", harmless)):
        file = copy(name)
        names = spoiled(file, with_payloads(some, turn, AT_ONCE, clean))
        found.append(runner.run(shown(told, make_door(told.application(file)), names)))
    hostile, tame = found
    wrong = [what for address in hostile for what in compared(address, hostile[address], tame[address])]
    assert not wrong, "\n".join(wrong)


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the parameters that pages look for."""
    found: set[str] = set()
    for name in ("get", "getlist", "__getitem__", "__contains__"):
        whole = getattr(ImmutableMultiDict, name)

        def noted(self: object, key: str, *rest: object, whole: Callable[..., object] = whole) -> object:
            if isinstance(self, QueryParams):
                found.add(key)
            return whole(self, key, *rest)

        monkeypatch.setattr(QueryParams, name, noted, raising=False)
    return found


def one_of_each(door: Door, addresses: list[str]) -> dict[str, str]:
    """A page of each kind: by its pattern, the address without a query."""
    found: dict[str, str] = {"/sign-in": "/sign-in", "/names": "/names"}
    for address in addresses:
        known = door.pages._page(parted(address)[0])
        assert known is not None, f"no page is at {address}"
        found.setdefault(known[0].path, address.partition("?")[0])
    return found


@pytest.mark.timeout(120)
async def test_parameters(story_door: Door, told: Told, asked: set[str]) -> None:
    door, session, wrong, tried = story_door, await story_door.session("admin"), [], 0
    for address in one_of_each(door, told.addresses).values():
        asked.clear()
        for one in (address, *(one for one in told.addresses if one.partition("?")[0] == address)):
            await door.get(one, session)
        for name in sorted(asked):
            for turn in range(TURNS):
                text = some(turn * AT_ONCE, AT_ONCE)
                hostile, tame = [
                    await door.get(f"{address}?{urlencode({name: value})}", session) for value in (text, harmless(text))
                ]
                assert hostile.headers["x-content-type-options"] == "nosniff"
                tried += 1
                if hostile.headers["content-type"].startswith("text/html"):
                    pair = [(reply.status_code, Read(reply.text)) for reply in (hostile, tame)]
                    wrong += compared(f"{address}?{name}=", *pair)
                else:
                    assert hostile.headers["content-type"].partition(";")[0] in ("application/json", "text/plain")
    assert not wrong, "\n".join(wrong)
    assert tried >= 2 * TURNS


async def test_addresses_that_are_no_pages(story_door: Door) -> None:
    session = await story_door.session("admin")
    tame = Read((await story_door.get("/jobs/x", session)).text)
    for turn in range(len(PAYLOADS)):
        text = some(turn, 1)
        for address in (f"/jobs/{quote(text, safe='')}", f"/jobs/{quote(text, safe='/')}"):
            reply = await story_door.get(address, session)
            if reply.headers["content-type"].startswith("text/html") and reply.content:
                assert not Read(reply.text).unsafe()
                assert not Read(reply.text).inline
                assert reply.status_code != 404 or Read(reply.text).elements == tame.elements, address
