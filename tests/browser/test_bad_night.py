"""What an open tab says and does when a session, a job or the server goes away."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Request, expect

from oncue.server.api import AccessMode
from oncue.server.dashboard import live
from tests.browser.conftest import Open, Runs, an_app

pytestmark = pytest.mark.timeout(60)


def test_a_tab_ends_with_its_session(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "VISITOR_SECONDS", 0.2)
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)
    token, text = running.do(lambda app: app.tokens.create("anna", ["read"]))
    page = open_page(running.url)
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    state = page.locator("#live-state")
    expect(state).to_have_attribute("data-state", "live")
    running.do(lambda app: app.tokens.revoke(token.id))
    expect(state).to_have_attribute("data-state", "signed-out")
    page.complaints[:] = [one for one in page.complaints if "401" not in one]  # type: ignore[attr-defined]


def test_a_page_of_what_is_gone_says_so(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    page = open_page(f"{running.url}/queues")
    state = page.locator("#live-state")
    expect(state).to_have_attribute("data-state", "live")

    async def gone(topic: live.Topic) -> str:
        raise live.OncueError("There is no such queue.")

    monkeypatch.setattr(running.site.dashboard.broadcaster, "_render", gone)
    expect(state).to_have_attribute("data-state", "stale")
    expect(state).to_have_text("out of date")
    expect(state).to_have_attribute("title", "There is no such queue.")


def test_each_click_is_a_request_of_its_own(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    """A browser repeats a request by itself: the server tells that from a second click."""
    running = run(an_app(sqlite_url, tmp_path))
    running.do(lambda app: app.queues.limit("mail", globally=3))
    page, seen = open_page(f"{running.url}/queues/mail"), []

    def note(request: Request) -> None:
        if request.method == "POST":
            seen.append(request.headers["x-once"])

    page.on("request", note)
    for name, after in (("Pause", "Resume"), ("Resume", "Pause")):
        page.get_by_role("button", name=name, exact=True).click()
        if page.locator("#confirm").is_visible():
            page.get_by_role("button", name="Yes").click()
        expect(page.get_by_role("button", name=after, exact=True)).to_be_visible()
    assert len(seen) == len(set(seen)) == 2
