"""What is told of a change that the database did not answer: whether it took effect, or that this is unknown."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from oncue.errors import RowLocked, StoreFull, StoreUnavailable
from oncue.server.api.problems import Problem
from oncue.server.dashboard import forms, pages
from oncue.server.dashboard.deeds import Deed, Done
from tests.dashboard.kit import Door

AWAY = StoreUnavailable("PostgreSQL does not answer.")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (AWAY, 503, "PostgreSQL does not answer. It is unknown whether the change took effect"),
        (ValueError("a secret of the code"), 500, "It is unknown whether the change took effect"),
        (TimeoutError(), 503, "did not answer in time. It is unknown whether the change took effect"),
        (StoreFull("SQLite has no room left."), 503, "Nothing was changed. SQLite has no room left."),
        (RowLocked("Another session holds a lock on it."), 503, "Another session holds a lock on it."),
    ],
)
async def test_a_change_that_fails_half_way(story_door: Door, error: Exception, status: int, text: str) -> None:
    door = story_door

    @door.pages.action("/try", needs="read")
    async def attempt(deed: Deed) -> Done:
        raise error

    reply = await door.change("/try", (), await door.session("read"))
    assert reply.status_code == status
    assert text in reply.text
    assert ("unknown" in reply.text) is not isinstance(error, (RowLocked, StoreFull))
    assert "secret of the code" not in reply.text


@pytest.mark.parametrize("error", [AWAY, TimeoutError()])
async def test_nothing_is_changed_while_the_visitor_is_unknown(
    story_door: Door, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, session = story_door, await story_door.session("admin")

    async def visitor(scope: object) -> None:
        raise error

    monkeypatch.setattr(door.pages.entrance, "visitor", visitor)
    reply = await door.change("/queues/pause", [("queue", "mail")], session)
    assert reply.status_code == 503
    assert "Nothing was changed." in reply.text
    assert "unknown" not in reply.text
    shown = await door.get("/jobs", session)
    assert shown.status_code == 503
    assert "change" not in shown.text.partition('id="main"')[2].partition("</main>")[0], "nothing was to be changed"


async def test_what_a_browser_sends_twice_is_done_once(story_door: Door) -> None:
    door, done = story_door, []

    @door.pages.action("/try", needs="operate")
    async def attempt(deed: Deed) -> Done:
        done.append(deed)
        return Done("It is done.")

    session = await door.session("read", "operate")
    assert (await door.change("/try", (), session, X_Once="1-2-3-4")).status_code == 200
    again = await door.change("/try", (), session, X_Once="1-2-3-4")
    assert again.status_code == 409
    assert "sent this twice" in again.text
    assert "Nothing was changed" not in again.text
    assert len(done) == 1
    for key in ("1-2-3-5", None):
        assert (await door.change("/try", (), session, X_Once=key)).status_code == 200
    assert (await door.change("/try", (), session, X_Once="x" * 300)).status_code == 422
    assert len(done) == 3
    other = await door.session("operate", "read")
    assert (await door.change("/try", (), other, X_Once="1-2-3-4")).status_code == 200, "keys are each visitor's own"


async def test_signing_in_takes_no_longer_than_a_change(story_door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHANGE_SECONDS", 0.01)

    async def never(request: object) -> None:
        await asyncio.Event().wait()

    story_door.pages.specials["GET", "/names"] = never  # type: ignore[assignment]
    reply = await story_door.get("/names", await story_door.session("read"))
    assert reply.status_code == 503
    assert "did not answer in time" in reply.text


async def test_a_form_that_trickles_in_is_not_the_fault_of_the_database(
    story_door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "READ_SECONDS", 0.01)

    async def receive() -> dict[str, object]:
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b"a", "more_body": True}

    with pytest.raises(Problem, match=r"The form did not arrive within 0\.01 s"):
        await forms.form(Request({"type": "http", "method": "POST", "headers": []}, receive))  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ['a={"x": 1}', "a b=1", "x=\u00e9", "foo", 'b="q', "x[a]=1"])
async def test_cookies_of_other_applications_do_not_hide_ours(story_door: Door, other: str) -> None:
    door, session = story_door, await story_door.session("read")
    cookie = f"{other}; {door.cookie(session)['Cookie']}".encode()
    reply = await door.client.get("/", headers=[(b"cookie", cookie)])
    assert reply.status_code == 200
    split = [(b"cookie", other.encode()), (b"cookie", door.cookie(session)["Cookie"].encode())]
    assert (await door.client.get("/", headers=split)).status_code == 200
