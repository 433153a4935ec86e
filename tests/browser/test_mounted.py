"""The dashboard inside of another application, below a prefix: pages, files, the stream, sign-in and actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import expect

from oncue import Oncue
from oncue.server.api import AccessMode
from tests.browser import running as servers
from tests.browser.conftest import WIDTHS, Open, Runs, an_app

pytestmark = pytest.mark.timeout(60)

PREFIX = "/ops/oncue"


@pytest.fixture
def in_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounted as an application does it, beside a route of its own."""

    def under(prefix: str, inner: Any) -> FastAPI:
        host = FastAPI()

        @host.get("/own")
        def own() -> dict[str, bool]:
            return {"own": True}

        host.mount(prefix, inner)
        return host

    monkeypatch.setattr(servers, "under", under)


@pytest.mark.usefixtures("in_fastapi")
@pytest.mark.parametrize("width", WIDTHS)
def test_all_of_it_works_below_a_prefix(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    app: Oncue = an_app(sqlite_url, tmp_path)
    running = run(app, access=AccessMode.TOKEN, prefix=PREFIX)
    _, text = running.do(lambda app: app.tokens.create("anna", ["admin"]))
    running.do(lambda app: app.queues.limit("mail", globally=3))
    page = open_page(f"{running.url}/queues?part=mail", width=width)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))

    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
    assert urlsplit(page.url).path == f"{PREFIX}/queues"
    (cookie,) = page.context.cookies()
    assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == (PREFIX, True, "Lax")

    page.get_by_role("link", name="mail", exact=True).click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    running.do(lambda app: app.queues.resume("mail"))
    expect(page.get_by_role("button", name="Pause")).to_be_visible()

    links = page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))")
    assert [link for link in links if not link.startswith((f"{PREFIX}/", "#"))] == []
    known = {one.path for _, _, one in running.site.dashboard.pages}
    for link in page.eval_on_selector_all("#rooms a", "all => all.map(one => one.getAttribute('href'))"):
        if link.removeprefix(PREFIX) in known:
            answer = page.request.get(f"http://{urlsplit(page.url).netloc}{link}")
            assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8"), link
    if width < 900:
        page.locator("[data-menu]").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert {path for path in asked if not path.startswith(f"{PREFIX}/")} == set()
    assert page.request.get(f"http://{urlsplit(page.url).netloc}/own").json() == {"own": True}
