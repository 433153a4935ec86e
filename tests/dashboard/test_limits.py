"""How much and how often a browser may send, and what becomes of odd requests."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from oncue.server.dashboard.deeds import Done
from oncue.server.dashboard.forms import LARGEST_FORM, LONGEST_QUERY, MOST_FIELDS
from oncue.server.dashboard.limits import MOST_CLIENTS, RateLimit
from oncue.server.dashboard.view import View, parted
from tests.dashboard.kit import Door, csrf_of

STRANGER = "x" * 32


def test_a_bucket_fills_again() -> None:
    limit = RateLimit(burst=3, per_second=0.5)
    assert [limit.wait("a", 0.0) for _ in range(4)] == [0, 0, 0, 2]
    assert limit.wait("b", 0.0) == 0, "another client has its own"
    assert limit.wait("a", 1.0) == 1
    assert limit.wait("a", 2.0) == 0
    assert limit.wait("a", 2.0) == 2
    limit.give_back("a")
    assert limit.wait("a", 2.0) == 0
    assert [limit.wait("a", 1e6) for _ in range(4)] == [0, 0, 0, 2], "it never holds more than its burst"


def test_buckets_of_very_many_clients_are_forgotten() -> None:
    limit = RateLimit(burst=1, per_second=0.001)
    for number in range(MOST_CLIENTS + 10):
        assert limit.wait(str(number), 0.0) == 0
    assert len(limit._buckets) == MOST_CLIENTS


async def test_tries_to_sign_in_are_limited(story_door: Door) -> None:
    door = story_door
    _, token = await door.app.tokens.create("ada", ["read"])
    right, wrong = [[("token", text), ("csrf", csrf_of(STRANGER))] for text in (token, "oncue_aaaaaaaa_wrong")]
    good = [await door.change("/sign-in", right, STRANGER, HX_Request=None) for _ in range(30)]
    assert {reply.status_code for reply in good} == {303}, "whoever knows a token is not held up"
    bad = [await door.change("/sign-in", wrong, STRANGER, HX_Request=None) for _ in range(15)]
    assert [reply.status_code for reply in bad[:8]] == [403] * 8
    assert bad[-1].status_code == 429
    assert int(bad[-1].headers["retry-after"]) > 0
    assert "Too many attempts" in bad[-1].text
    blocked = await door.change("/sign-in", right, STRANGER, HX_Request=None)
    assert blocked.status_code == 429, "guesses are not told from the right one meanwhile"


async def test_requests_are_limited(story_door: Door) -> None:
    story_door.pages._asking = RateLimit(burst=5, per_second=0.001)
    replies = [await story_door.get("/sign-in") for _ in range(7)]
    assert [reply.status_code for reply in replies] == [200] * 5 + [429] * 2
    assert int(replies[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/try"])
async def test_forms_are_of_bounded_size(story_door: Door, path: str) -> None:
    door, session = story_door, await story_door.session("admin")
    seen: list[int] = []

    @door.pages.action("/try", needs="read")
    async def attempt(deed: object) -> Done:
        seen.append(1)
        return Done("Done.")

    text = ("csrf", csrf_of(session))
    large = await door.change(path, [text, ("a", "x" * LARGEST_FORM)], session)
    assert (large.status_code, large.headers["connection"]) == (413, "close")
    many = await door.change(path, [text, *(("a", "") for _ in range(MOST_FIELDS))], session)
    assert many.status_code == 400
    nul = await door.change(path, [text, ("a", "\x00")], session)
    assert nul.status_code == 422
    assert not seen
    assert len(await door.app.sessions.list()) == 1


async def test_queries_are_of_bounded_length(story_door: Door) -> None:
    session = await story_door.session("read")
    assert (await story_door.get(f"/?a={'x' * (LONGEST_QUERY - 2)}", session)).status_code == 200
    assert (await story_door.get(f"/?a={'x' * LONGEST_QUERY}", session)).status_code == 422
    assert (await story_door.get("/?a=%00", session)).status_code == 422
    assert (await story_door.get("/?%00", session)).status_code == 422


async def test_the_stream_is_asked_for_as_pages_are(story_door: Door) -> None:
    """The address within `page` is one of ours, and its texts are such as a database takes."""
    session = await story_door.session("read")
    for page, status in (("/nowhere", 404), ("//evil.example", 404), ("/%00", 422), ("/?a=%00", 422), ("/?%00=", 422)):
        assert (await story_door.get(f"/live?page={quote(page, safe='')}", session)).status_code == status, page
    assert (await story_door.get("/live?page=/")).status_code == 401
    assert (await story_door.client.head("/live", headers=story_door.cookie(session))).status_code == 404
    assert (await story_door.change("/live", (), session)).status_code == 404


async def test_a_page_that_is_not_live_asks_for_no_stream(story_door: Door) -> None:
    door, session = story_door, await story_door.session("read")

    @door.pages.page("/still", "toast.html", title="Still", room="")
    async def still(view: View) -> dict[str, object]:
        return {"kind": "ok", "message": "It stays so."}

    assert (await door.get("/live?page=/still", session)).status_code == 404
    assert 'id="live"' not in (await door.get("/still", session)).text
    assert 'id="live"' in (await door.get("/", session)).text


async def test_what_is_got_can_be_asked_for_without_its_body(story_door: Door) -> None:
    headers = story_door.cookie(await story_door.session("read"))
    for path in ("/", "/sign-in", "/names", "/signed-in"):
        got, head = [await story_door.client.request(one, path, headers=headers) for one in ("GET", "HEAD")]
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert got.status_code in (200, 204)


ODD_NAMES = (
    "a/b", "a?b", "a b", "50%", "a#b", "ü\u4e2d", "a;b=c", "a\\b", "..", ".", "//x", "a&b", "+", "%2f", '"', "'",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_a_link_leads_to_what_it_names_whatever_that_is_called(story_door: Door, name: str) -> None:
    door, seen = story_door, []

    @door.pages.page("/odd", "overview.html", title="Odd", room="")
    @door.pages.page("/odd/{name:path}", "overview.html", title="Odd", room="")
    async def odd(view: View) -> dict[str, object]:
        seen.append(view)
        raise ValueError("that will do")

    session = await door.session("read")
    await door.get(View(door.app, "/", {}, (await _query("")), (), "").link("/odd", name, page="2"), session)
    view = seen[-1]
    assert (view.name, view.query.get("page")) == (name, "2")
    await door.get(view.with_query(page=3, other="a b"), session)
    assert (seen[-1].name, seen[-1].query.get("page"), seen[-1].query.get("other")) == (name, "3", "a b")
    path, query = parted(view.address)
    found = door.pages._page(path)
    assert found is not None
    assert (found[1].get("name") or query.get("name"), query.get("page")) == (name, "2")


async def _query(text: str) -> object:
    from starlette.datastructures import QueryParams

    return QueryParams(text)


async def test_an_error_in_a_page_tells_nothing_of_itself(story_door: Door, tmp_path: Path) -> None:
    door = story_door

    @door.pages.page("/broken", "overview.html", title="Broken", room="")
    async def broken(view: View) -> dict[str, object]:
        raise ValueError("a secret of the code")

    reply = await door.get("/broken", await door.session("admin"))
    assert reply.status_code == 500
    assert "secret of the code" not in reply.text
    assert "Traceback" not in reply.text
