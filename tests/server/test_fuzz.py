"""1,500 of the requests of `make fuzz`: 500 that schemathesis makes of the description, 450 of our own grammar, 240
in stories, 330 of strangers, and some 50 over a socket. The seeds are fixed: a run repeats the one before.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bench.verdict import Figure
from fuzz import strangers
from fuzz.__main__ import measured
from fuzz.judge import SERVER_ERROR, SHAPE, Judge
from fuzz.parts import FULL, PARTS, Order
from fuzz.site import opened
from fuzz.strangers import EFFECTS, LET_IN
from fuzz.teller import BROKEN, Teller, always
from fuzz.wire import Reply, Request, Tally, Wire
from oncue.server.api import AccessMode
from tests.figures.sound import verify

SEED = 1


def on(url: str, sqlite: int, postgres: int) -> int:
    """How many requests a back end gets."""
    return sqlite if url.startswith("sqlite") else postgres


def dialect(url: str) -> str:
    return url.partition(":")[0]


def sent(order: Order, url: str, folder: Path) -> tuple[Tally, dict[str, Figure]]:
    """Carry an order out as `make fuzz` does, to its verdict."""
    figures, tally = measured((order,), [(order, url)], folder, SEED)
    verify(figures, folder)
    assert tally.all_faults == []
    assert all(figure.holds is not False for figure in figures)
    return tally, {figure.name: figure for figure in figures}


def test_every_part_is_sent_here() -> None:
    assert set(PARTS) == {order.part for order in FULL} == set(TRIED)


def test_as_it_is_described(sqlite_url: str, tmp_path: Path) -> None:
    tally, _ = sent(Order("described", "sqlite", 500), sqlite_url, tmp_path)
    assert tally.requests.total() >= 500
    assert tally.statuses[200] > 25


def test_our_own_grammar(database_url: str, tmp_path: Path) -> None:
    amount = on(database_url, 300, 150)
    tally, _ = sent(Order("grammar", dialect(database_url), amount), database_url, tmp_path)
    assert min(tally.statuses[status] for status in (200, 404, 422)) > amount // 20


def test_stories(database_url: str, tmp_path: Path) -> None:
    amount = on(database_url, 150, 80)
    tally, _ = sent(Order("stories", dialect(database_url), amount), database_url, tmp_path)
    assert tally.statuses[200] > amount // 4


def test_strangers(database_url: str, tmp_path: Path) -> None:
    amount = on(database_url, 120, 60)
    tally, figures = sent(Order("strangers", dialect(database_url), amount), database_url, tmp_path)
    had_effect = figures["effects_with_authentication"].value or 0
    assert had_effect > amount // 10, "most of what was refused would have done nothing anyway"
    assert tally.statuses[401] > 0
    assert tally.statuses[403] > 0


@pytest.mark.parametrize("with_tokens", [True, False])
def test_strangers_at_a_door_that_is_open_to_this_machine(sqlite_url: str, tmp_path: Path, with_tokens: bool) -> None:
    order = Order("strangers", "sqlite", 50, AccessMode.LOOPBACK, with_tokens)
    _, figures = sent(order, sqlite_url, tmp_path)
    assert (figures["effects_with_authentication"].value or 0) > 5


def test_bytes_on_a_socket(sqlite_url: str, tmp_path: Path) -> None:
    tally, _ = sent(Order("sockets", "sqlite", 60), sqlite_url, tmp_path)
    assert tally.requests.total() > 30


@pytest.mark.timeout(120)
def test_the_dashboard(database_url: str, tmp_path: Path) -> None:
    amount = on(database_url, 200, 60)
    tally, _ = sent(Order("dashboard", dialect(database_url), amount), database_url, tmp_path)
    assert min(tally.statuses[status] for status in (200, 403, 404)) > amount // 20


TRIED = {
    "described": test_as_it_is_described,
    "grammar": test_our_own_grammar,
    "stories": test_stories,
    "strangers": test_strangers,
    "sockets": test_bytes_on_a_socket,
    "dashboard": test_the_dashboard,
}
"""The tests in which each part comes to its verdict."""


# --- that it would find something -----------------------------------------------------------------------------------


async def test_a_stranger_who_gets_in_is_noticed(sqlite_url: str, tmp_path: Path) -> None:
    tally = Tally()
    async with opened(sqlite_url, tmp_path, tally, access=AccessMode.TRUSTED) as site:
        await strangers.run(site, SEED, range(20))
    assert set(tally.faults) == {LET_IN, EFFECTS}
    assert any("oncue_jobs" in fault for fault in tally.faults[EFFECTS])


async def test_answers_that_should_not_be_are_noticed(sqlite_url: str, tmp_path: Path) -> None:
    problem = b'{"type": "x", "title": "x", "status": 422, "detail": "x", "instance": "/api/admin/jobs"}'
    kind = {"content-type": "application/problem+json"}
    asked = Request("GET", "/api/admin/jobs")
    async with opened(sqlite_url, tmp_path, Tally()) as site:
        judge = Judge(site.gate.api)
        for reply, found in (
            (Reply(500, kind, problem), SERVER_ERROR),
            (Reply(422, {"content-type": "text/plain"}, b"no"), SHAPE),
            (Reply(422, kind, problem), SHAPE),  # it names no field
            (Reply(404, kind, problem), SHAPE),  # it says another status
            (Reply(418, kind, problem.replace(b"422", b"418")), SHAPE),  # which nobody declares
            (Reply(200, {"content-type": "application/json"}, b'{"jobs": [], "next": NaN}'), SHAPE),
            (Reply(200, {"content-type": "application/json"}, b'{"jobs": []}'), SHAPE),
        ):
            assert [name for name, _ in judge.complaints(asked, reply)] == [found], reply
        good = Reply(200, {"content-type": "application/json"}, b'{"jobs": [], "next": null}')
        assert judge.complaints(asked, good) == []


async def test_an_application_that_raises_is_noticed() -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    tally = Tally()
    wire = Wire(broken, lambda request, reply: [(SERVER_ERROR, "500")] if reply.status == 500 else [], tally)
    await wire.send(Request("GET", "/health"))
    assert "ZeroDivisionError" in tally.faults[SERVER_ERROR][0]
    assert tally.requests.total() == 1


async def test_a_change_without_its_line_in_the_audit_log_is_noticed(sqlite_url: str, tmp_path: Path) -> None:
    tally = Tally()
    async with opened(sqlite_url, tmp_path, tally) as site:
        teller = Teller(site, Random(SEED))
        await teller.change("POST", "/api/admin/queues/mail/pause", entries=always)
        assert tally.all_faults == []
        await teller.change("POST", "/api/admin/queues/mail/pause", entries=always)  # it is paused, and not noted again
    assert set(tally.faults) == {BROKEN}
