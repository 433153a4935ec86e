"""1,500 of the requests of `make fuzz`: 500 that schemathesis makes of the description, 450 of our own grammar, 240
in stories, 330 of strangers, and some 50 over a socket. The seeds are fixed: a run repeats the one before.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz import described, grammar, sockets, stories, strangers
from fuzz.judge import SERVER_ERROR, SHAPE, Judge
from fuzz.site import opened
from fuzz.strangers import EFFECTS, LET_IN
from fuzz.teller import BROKEN, Teller, always
from fuzz.wire import Reply, Request, Tally, Wire
from oncue.server.api import Door

SEED = 1


def on(url: str, sqlite: int, postgres: int) -> int:
    """How many requests a back end gets."""
    return sqlite if url.startswith("sqlite") else postgres


async def test_as_it_is_described(sqlite_url: str, tmp_path: Path) -> None:
    tally = Tally()
    async with opened(sqlite_url, tmp_path, tally) as site:
        site.wire.part = "described"
        await described.run(site, SEED, 500)
    assert tally.all_faults == []
    assert tally.requests.total() >= 500
    assert tally.statuses[200] > 25


async def test_our_own_grammar(database_url: str, tmp_path: Path) -> None:
    tally, amount = Tally(), on(database_url, 300, 150)
    async with opened(database_url, tmp_path, tally) as site:
        await grammar.run(site.wire, site.world, SEED, range(amount))
    assert tally.all_faults == []
    assert min(tally.statuses[status] for status in (200, 404, 422)) > amount // 20


async def test_stories(database_url: str, tmp_path: Path) -> None:
    tally, amount = Tally(), on(database_url, 150, 80)
    async with opened(database_url, tmp_path, tally) as site:
        await stories.run(site, SEED, range(amount), amount)
    assert tally.all_faults == []
    assert tally.statuses[200] > amount // 4


async def test_strangers(database_url: str, tmp_path: Path) -> None:
    tally, amount = Tally(), on(database_url, 120, 60)
    async with opened(database_url, tmp_path, tally) as site:
        had_effect = await strangers.run(site, SEED, range(amount))
    assert tally.all_faults == []
    assert had_effect > amount // 10, "most of what was refused would have done nothing anyway"
    assert tally.statuses[401] > 0
    assert tally.statuses[403] > 0


@pytest.mark.parametrize("with_tokens", [True, False])
async def test_strangers_at_a_door_that_is_open_to_this_machine(
    sqlite_url: str, tmp_path: Path, with_tokens: bool
) -> None:
    tally = Tally()
    async with opened(sqlite_url, tmp_path, tally, door=Door.LOOPBACK, with_tokens=with_tokens) as site:
        assert await strangers.run(site, SEED, range(50)) > 5
    assert tally.all_faults == []


async def test_bytes_on_a_socket(sqlite_url: str, tmp_path: Path) -> None:
    tally = Tally()
    async with opened(sqlite_url, tmp_path, tally) as site:
        await sockets.run(site, SEED, range(60))
    assert tally.all_faults == []
    assert tally.requests.total() > 30


# --- that it would find something -----------------------------------------------------------------------------------


async def test_a_stranger_who_gets_in_is_noticed(sqlite_url: str, tmp_path: Path) -> None:
    tally = Tally()
    async with opened(sqlite_url, tmp_path, tally, door=Door.TRUSTED) as site:
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
