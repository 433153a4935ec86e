"""What pages of other sites may send: every action, asked for in every way that is not a page of ours, is refused.

Each row is the request of a page of ours with one thing changed. Unchanged it is let in: that is tried for every action
at every door, after the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from bench.server.markup import Form, Read
from fuzz.tables import differences, fingerprints
from oncue.server.api import AccessMode
from tests.dashboard.conftest import MakeDoor
from tests.dashboard.kit import Door, csrf_of
from tests.dashboard.told import Told


class Setting(NamedTuple):
    """A door, and what a browser there calls it."""

    access: AccessMode
    at: str = "http://127.0.0.1:8080"
    prefix: str = ""
    public_url: str | None = None
    signs_in: bool = True


SETTINGS = {
    "token": Setting(AccessMode.TOKEN),
    "loopback": Setting(AccessMode.LOOPBACK, signs_in=False),
    "trusted": Setting(AccessMode.TRUSTED, at="http://ops.example", prefix="/jobs/board", signs_in=False),
    "tls": Setting(AccessMode.TOKEN, at="https://ops.example"),
    "public": Setting(
        AccessMode.TOKEN, at="http://10.0.0.7:8080", prefix="/oncue", public_url="https://ops.example/oncue"
    ),
}


def rows(door: Door, other: str) -> dict[str, dict[str, Any]]:
    """What each row changes. `None` takes a header out."""
    scheme, _, host = door.origin.partition("://")
    name, _, port = host.partition(":")
    swapped = "http" if scheme == "https" else "ftp"
    origins = {
        "no origin": None, "null": "null", "empty": "", "other site": "https://evil.example",
        "other scheme": f"{swapped}://{host}", "other port": f"{scheme}://{name}:{int(port or 443) + 1}",
        "no scheme": host, "subdomain": f"{scheme}://x.{host}", "longer": f"{scheme}://{host}.evil.example",
        "with user": f"{scheme}://evil@{host}", "with path": f"{scheme}://{host}/",
        "extension": f"moz-extension://{host}",
        "two": f"{door.origin}, https://evil.example", "upper": door.origin.upper() + "X",
    }  # fmt: skip
    return {
        **{f"origin: {row}": {"Origin": value} for row, value in origins.items()},
        "fetch from another site": {"Sec_Fetch_Site": "cross-site"},
        "fetch from the same site": {"Sec_Fetch_Site": "same-site"},
        "fetch by hand": {"Sec_Fetch_Site": "none"},
        "form of another site": {
            "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Origin": "https://evil.example",
            "HX_Request": None, "X_CSRF_Token": None,
        },
        "form of a page without an origin": {"Origin": "null", "HX_Request": None, "Sec_Fetch_Mode": "navigate"},
        "no text": {"X_CSRF_Token": None},
        "empty text": {"X_CSRF_Token": ""},
        "wrong text": {"X_CSRF_Token": "x" * 43},
        "another session's text": {"X_CSRF_Token": csrf_of(other)},
        "the secret itself": {"X_CSRF_Token": other},
        "no cookie": {"Cookie": None},
        "a cookie of another name": {"Cookie": f"oncue={other}"},
        "an unknown session": {"Cookie": f"{door.pages.entrance.place(door.scope).cookie}=aaaaaaaaaaaaaaaa_{'A' * 43}"},
        "JSON": {"Content_Type": "application/json"},
        "plain text": {"Content_Type": "text/plain"},
        "parts": {"Content_Type": "multipart/form-data; boundary=x"},
        "GET": {"method": "GET"},
        "HEAD": {"method": "HEAD"},
        "PUT": {"method": "PUT"},
        "DELETE": {"method": "DELETE"},
        "OPTIONS": {"method": "OPTIONS"},
        "PATCH": {"method": "PATCH"},
    }  # fmt: skip


WORST = ("form of another site", "origin: other site", "no text")
FEWER = 10
"""All rows are tried with every action at the first door, and with every tenth at the others: the way in is one."""


async def forms_of(door: Door, told: Told, session: str) -> dict[str, Form]:
    """A form for each action, with its fields, as the stories' pages have it; an empty one where no page has."""
    found: dict[str, Form] = {}
    for address in told.addresses:
        page = Read((await door.get(address, session)).text)
        for form in page.forms:
            if form.method == "post":
                found.setdefault(form.action.removeprefix(door.pages.entrance.place(door.scope).prefix), form)
    return {path: found.get(path, Form("post", path)) for path in door.pages.actions}


def is_refused(reply: httpx.Response) -> bool:
    return reply.status_code in (303, 400, 401, 403, 404, 405)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", SETTINGS)
async def test_no_other_page_changes_anything(
    kind: str, told: Told, copy: Callable[..., Path], make_door: MakeDoor
) -> None:
    setting, file = SETTINGS[kind], copy()
    app = told.application(file, **({"public_url": setting.public_url} if setting.public_url else {}))
    await told.held_still(app)
    door = make_door(app, setting.access, at=setting.at, prefix=setting.prefix)
    if setting.signs_in:
        session, other = await door.session("admin"), await door.session("admin")
    else:
        session, other = "x" * 32, "y" * 32
    forms = await forms_of(door, told, session)
    url, wrong = f"sqlite:///{file}", []
    before = await fingerprints(url)
    for number, (path, form) in enumerate(forms.items()):
        tried = rows(door, other)
        if door.pages._page(path) is not None:
            tried = {row: tried[row] for row in tried if row not in ("GET", "HEAD")}  # a page is there as well
        if kind != "token" and number % FEWER:
            tried = {row: tried[row] for row in WORST}
        for row, changed in tried.items():
            reply = await door.change(path, form.fields, session, **changed)
            if not is_refused(reply):
                wrong.append(f"{path}: {row}: {reply.status_code} {reply.text[:200]}")
    assert not wrong, "\n".join(wrong)
    assert not differences(before, await fingerprints(url))
    await told.goes_on(app)
    for path, form in forms.items():
        if setting.signs_in and await app.sessions.authenticate(session) is None:
            session = await door.session("admin")  # an action has ended it
        reply = await door.change(path, form.fields, session)
        assert reply.status_code in (200, 404, 409, 421, 422), (
            f"{path} of our own page: {reply.status_code} {reply.text}"
        )
        assert "another origin" not in reply.text, path
    if forms:
        assert differences(before, await fingerprints(url)), "no form of ours changes anything"


# --- signing in and out ----------------------------------------------------------------------------------------------


FORMS_OF_OTHERS: dict[str, dict[str, str | None]] = {
    "no origin": {"Origin": None},
    "null": {"Origin": "null"},
    "another site": {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    "another port": {"Origin": "http://127.0.0.1:9999", "Sec_Fetch_Site": "same-site"},
    "no cookie": {"Cookie": None},
    "JSON": {"Content_Type": "application/json"},
}


@pytest.mark.parametrize("row", FORMS_OF_OTHERS)
async def test_no_other_page_signs_a_browser_in_or_out(row: str, told: Told, story_door: Door) -> None:
    """A page of another site could else sign a browser in as somebody else, to be told what its user does there."""
    door, app = story_door, story_door.app
    _, token = await app.tokens.create("ada", ["operate"])
    session = await door.session("admin")
    standing = {found.id for found, _ in await app.sessions.list()}
    fields = [("token", token), ("next", "/"), ("csrf", csrf_of(session))]
    for path in ("/sign-in", "/sign-out"):
        assert is_refused(await door.change(path, fields, session, HX_Request=None, **FORMS_OF_OTHERS[row]))
        without = [(name, text) for name, text in fields if name != "csrf"]
        assert (await door.change(path, without, session, HX_Request=None, X_CSRF_Token=None)).status_code == 403
        assert {found.id for found, _ in await app.sessions.list()} == standing
    reply = await door.change("/sign-in", fields, session, HX_Request=None)
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    assert len(await app.sessions.list()) == len(standing) + 1
    assert (await door.change("/sign-out", fields, session, HX_Request=None)).status_code == 303
    assert len(await app.sessions.list()) == len(standing)


@pytest.mark.parametrize(
    ("asked", "goes_to"),
    [
        ("/jobs?status=failed", "/jobs?status=failed"), ("//evil.example", "/"), ("https://evil.example/", "/"),
        ("/\\evil.example", "/"), ("\\\\evil.example", "/"), ("/\tx", "/"), ("javascript:alert(1)", "/"), ("", "/"),
        ("/%2f/evil", "/%2f/evil"),
    ],
)  # fmt: skip
async def test_signing_in_leads_to_a_page_of_ours(story_door: Door, asked: str, goes_to: str) -> None:
    door = story_door
    _, token = await door.app.tokens.create("ada", ["read"])
    fields = [("token", token), ("next", asked), ("csrf", csrf_of("x" * 32))]
    reply = await door.change("/sign-in", fields, "x" * 32, HX_Request=None)
    assert (reply.status_code, reply.headers["location"]) == (303, goes_to)


# --- the cookie ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SETTINGS)
async def test_the_cookie(kind: str, told: Told, copy: Callable[..., Path], make_door: MakeDoor) -> None:
    setting = SETTINGS[kind]
    app = told.application(copy(), **({"public_url": setting.public_url} if setting.public_url else {}))
    await told.held_still(app)
    door = make_door(app, setting.access, at=setting.at, prefix=setting.prefix)
    _, token = await app.tokens.create("ada", ["read"]) if setting.signs_in else (None, "")
    first = await door.get("/sign-in" if setting.signs_in else "/")
    told_first = _cookie(first)
    assert told_first["name"] == door.pages.entrance.place(door.scope).cookie
    replies = [told_first]
    if setting.signs_in:
        known = told_first["value"]
        fields = [("token", token), ("next", "/"), ("csrf", csrf_of(known))]
        reply = await door.change("/sign-in", fields, known, HX_Request=None)
        assert reply.status_code == 303, reply.text
        replies.append(_cookie(reply))
        assert replies[1]["value"] != known, "the cookie of a stranger does not become the cookie of a session"
        assert int(replies[1]["max-age"]) > 0
    for cookie in replies:
        assert cookie["samesite"] == "lax"
        assert cookie["path"] == (setting.prefix or "/")
        assert "httponly" in cookie
        assert ("secure" in cookie) == door.origin.startswith("https://")
        assert "domain" not in cookie


def _cookie(reply: httpx.Response) -> dict[str, str]:
    first, *rest = [part.strip() for part in reply.headers["set-cookie"].split(";")]
    name, _, value = first.partition("=")
    return {"name": name, "value": value} | {
        word.partition("=")[0].lower(): word.partition("=")[2].lower() if "ath=" not in word else word.partition("=")[2]
        for word in rest
    }


async def test_the_cookie_opens_pages_and_never_the_api(story_door: Door) -> None:
    door, session = story_door, await story_door.session("admin")
    _, token = await door.app.tokens.create("ada", ["admin"])
    assert (await door.get("/", session)).status_code == 200
    for path in ("/api/admin/jobs", "/api/admin/queues", "/api/admin/tokens", "/metrics", "/openapi.json"):
        assert (await door.get(path, session)).status_code == 401, path
        assert (await door.get(path, session, Authorization=f"Bearer {session}")).status_code == 401, path
        assert (await door.get(path, Authorization=f"Bearer {token}")).status_code == 200, path
    body = {"Content_Type": "application/json"}
    assert (await door.change("/api/admin/queues/default/pause", (), session, **body)).status_code == 401


async def test_a_token_opens_no_page(story_door: Door) -> None:
    """What opens the API is not kept by browsers, and does not open pages."""
    _, token = await story_door.app.tokens.create("ada", ["admin"])
    for headers in ({"Authorization": f"Bearer {token}"}, story_door.cookie(token)):
        assert (await story_door.client.get("/", headers=headers)).status_code == 303


async def test_two_mounts_know_their_own_cookies_only(
    told: Told, copy: Callable[..., Path], make_door: MakeDoor
) -> None:
    app = told.application(copy())
    await told.held_still(app)
    one, two = make_door(app, prefix="/one"), make_door(app, prefix="/two")
    session = await one.session("admin")
    assert (await one.get("/", session)).status_code == 200
    headers = one.cookie(session)
    assert (await two.client.get("/two/", headers=headers)).status_code == 303


# --- links and embedding --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_may_link_here_and_nothing_else(story_door: Door, site: str) -> None:
    door, session = story_door, await story_door.session("admin")
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await door.get("/", session, **link)).status_code == 200
    for changed in (
        {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, {"Sec-Fetch-Mode": "no-cors",
        "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Dest": "embed"}, {"Sec-Fetch-Dest": "object"},
    ):  # fmt: skip
        for path in ("/", "/live", "/names", "/signed-in", "/sign-in"):
            assert (await door.get(path, session, **link | changed)).status_code == 403, (path, changed)


@pytest.mark.parametrize(
    ("public", "status"), [("https://ops.example/oncue", 401), ("http://127.0.0.1:9000/oncue", 200), (None, 200)]
)
async def test_a_proxy_that_says_nothing_of_itself_opens_nothing(
    copy: Callable[..., Path], told: Told, make_door: MakeDoor, public: str | None, status: int
) -> None:
    """nginx without a setting passes requests on as if they came from this machine."""
    app = told.application(copy(), **({} if public is None else {"public_url": public}))
    door = make_door(app, AccessMode.LOOPBACK)
    assert (await door.client.get("/api/admin/jobs")).status_code == status
    assert (await door.client.get("/")).status_code == (303 if status == 401 else 200)
