"""A hundred payloads in every stored text and in every parameter of every page: a page has no element or attribute
more than the same page with a harmless text there."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from starlette.datastructures import ImmutableMultiDict, QueryParams

from bench.server.markup import Read
from oncue.server.dashboard import Dashboard
from oncue.server.dashboard.view import parted
from tests.dashboard.conftest import MakeDoor
from tests.dashboard.hostile import FIXED, JSON, NAMES, TEXTS, columns_of_texts, spoiled, with_payloads
from tests.dashboard.kit import Door
from tests.dashboard.payloads import PAYLOADS, harmless, some
from tests.dashboard.test_csrf import forms_of
from tests.dashboard.told import Told

TURNS, AT_ONCE = 4, len(PAYLOADS) // 4
MOST_OF_A_KIND = 3


def test_every_stored_text_is_known(told: Told) -> None:
    """A new column is put under one of the headings: what users write is tried with payloads."""
    known = [(table, column) for kind in (NAMES, TEXTS, JSON, FIXED) for table, all_ in kind.items() for column in all_]
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 100
    assert len(known) == len(set(known))
    assert set(known) == columns_of_texts(told.file)


class Pair(NamedTuple):
    """The same page twice: with payloads, and with harmless texts in their place."""

    hostile: str
    tame: str


def compared(what: str, hostile: tuple[int, Read], tame: tuple[int, Read]) -> list[str]:
    """What is wrong with a page, against the same with harmless texts."""
    (status, page), (wanted, other) = hostile, tame
    wrong = [f"{what}: answered {status}, not {wanted}"] if status != wanted or status >= 500 else []
    if page.elements != other.elements:
        pairs = zip(page.elements, other.elements, strict=False)
        wrong.append(f"{what}: other elements: {next((pair for pair in pairs if pair[0] != pair[1]), 'more')}")
    wrong += [f"{what}: {one}" for one in page.inline + page.unsafe()]
    wrong += [f"{what}: {one}" for one in page.others if one != "doctype html"]
    return wrong


def kind_of(pages: Dashboard, address: str) -> tuple[str, bool] | None:
    """Pages of one kind have the same path but for names, with a query or without; None if it is no page."""
    path, query = parted(address)
    found = pages._page(path)
    return None if found is None else (found[0].path, any(query.values()))


def leads(read: Read) -> list[str]:
    return [value for tag, value in read.addresses if tag in ("a", "tr")]


async def lockstep(doors: tuple[Door, Door], seeds: list[str]) -> tuple[list[str], dict[Pair, tuple[str, str]]]:
    """Follow the links of both databases side by side, a page of each kind; what is wrong, and what was shown.

    Since the pages have the same elements, their links correspond one to one, whatever the names in them are.
    """
    sessions = [await door.session("admin") for door in doors]
    waiting, kinds, wrong = deque(Pair(one, one) for one in seeds), Counter[Any](), []
    shown: dict[Pair, tuple[str, str]] = {}
    while waiting:
        pair = waiting.popleft()
        kind = kind_of(doors[0].pages, pair.hostile)
        if kind is None or kinds[kind] >= MOST_OF_A_KIND or pair in shown:
            continue
        replies = [await door.get(address, at) for door, address, at in zip(doors, pair, sessions, strict=True)]
        if all(reply.status_code == 404 for reply in replies):
            continue  # another of this kind may be there
        kinds[kind] += 1
        shown[pair] = replies[0].text, replies[1].text
        reads = [Read(reply.text) for reply in replies]
        found = compared(pair.hostile, *((reply.status_code, read) for reply, read in zip(replies, reads, strict=True)))
        wrong += found
        if not found:
            waiting += [Pair(*both) for both in zip(leads(reads[0]), leads(reads[1]), strict=True)]
    return wrong, shown


def unnamed(pages: Dashboard, addresses: list[str], names: dict[str, str]) -> list[str]:
    """The addresses in which there is none of these names: they are the same in both databases."""
    found = []
    for address in addresses:
        path, query = parted(address)
        page = pages._page(path)
        assert page is not None, f"no page is at {address}"
        if not {*page[1].values(), *query.values()} & names.keys():
            found.append(address)
    return found


def templates(pages: Dashboard, shown: dict[Pair, tuple[str, str]]) -> set[str]:
    found = [pages._page(parted(pair.hostile)[0]) for pair in shown]
    return {page[0].template for page in found if page is not None}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("turn", range(TURNS))
async def test_stored_texts(turn: int, told: Told, copy: Callable[..., Path], make_door: MakeDoor) -> None:
    files = copy("hostile.db"), copy("tame.db")
    for file, clean in zip(files, (str, harmless), strict=True):
        names = spoiled(file, with_payloads(some, turn, AT_ONCE, clean))
    doors = [make_door(told.application(file)) for file in files]
    for door in doors:
        await told.held_still(door.app)
    wrong, shown = await lockstep((doors[0], doors[1]), unnamed(doors[0].pages, told.addresses, names))
    assert not wrong, "\n".join(wrong)
    assert templates(doors[0].pages, shown) == {page.template for _, _, page in doors[0].pages.pages}


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
                text = f"zzz {some(turn * AT_ONCE, AT_ONCE)}"
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


@pytest.mark.timeout(120)
async def test_fields_of_forms(told: Told, copy: Callable[..., Path], make_door: MakeDoor) -> None:
    """What an action says of what it was told: of each form a field after the other has payloads in it."""
    doors = [make_door(told.application(copy(name))) for name in ("hostile.db", "tame.db")]
    for door in doors:
        await told.held_still(door.app)
    forms = await forms_of(doors[0], told, await doors[0].session("admin"))
    for door in doors:
        await told.goes_on(door.app)
    wrong, number = [], 0
    for path, form in forms.items():
        sessions = [await door.session("admin") for door in doors]
        for name in {name: None for name, _ in form.fields}:
            number += 1
            text = f"zzz {some(number * AT_ONCE, AT_ONCE)}"
            replies = []
            for door, at, value in zip(doors, sessions, (text, harmless(text)), strict=True):
                fields = [(known, value if known == name else given) for known, given in form.fields]
                replies.append(await door.change(path, fields, at))
            hostile, tame = [(reply.status_code, Read(reply.text)) for reply in replies]
            wrong += compared(f"{path}: {name}", hostile, tame)
    assert not wrong, "\n".join(wrong)


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
