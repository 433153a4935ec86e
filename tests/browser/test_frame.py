"""What every page has: the stream with its state, the palette, themes, zones, narrow screens, sign-in."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from oncue.server.api import AccessMode
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_overview_of_an_empty_database(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int, theme: str
) -> None:
    page = open_page(run(an_app(sqlite_url, tmp_path)).url, width=width, theme=theme)
    expect(page.locator("h1")).to_have_text("Overview")
    expect(page.get_by_text("No worker is alive")).to_be_visible()
    expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
    is_accessible(page)


def test_what_happens_is_seen_without_loading_the_page_again(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    app = an_app(sqlite_url, tmp_path)

    @app.task
    async def add(a: int) -> int:
        return a

    running = run(app)
    page = open_page(running.url)
    waiting = page.locator(".figure", has_text="Waiting").locator("b")
    expect(waiting).to_have_text("0")
    running.do(lambda app: add.aenqueue(1))
    expect(waiting).to_have_text("1")


def test_a_hidden_tab_closes_its_stream(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    page = open_page(running.url)
    state = page.locator("#live-state")
    expect(state).to_have_attribute("data-state", "live")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(state).to_have_attribute("data-state", "paused")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(state).to_have_attribute("data-state", "live")


def test_the_palette_goes_anywhere_by_keyboard(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    page = open_page(run(an_app(sqlite_url, tmp_path)).url)
    page.keyboard.press("Control+k")
    expect(page.locator("#palette input")).to_be_focused()
    page.keyboard.type("alert")
    expect(page.locator("#palette li")).to_have_count(1)
    page.locator("#palette input").fill("doctor")
    expect(page.locator("#palette li")).to_contain_text("Doctor")
    page.locator("#palette input").fill("order:7")
    expect(page.locator("#palette li")).to_contain_text("Jobs with the task or key order:7")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


def test_an_address_that_nothing_has_is_a_page_for_a_browser(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    running = run(an_app(sqlite_url, tmp_path), prefix="/ops")
    page = open_page(f"{running.url}/workers")
    expect(page.locator("main")).to_contain_text("There is no page at '/workers'.")
    expect(page.locator("#live-state, [aria-current=page]")).to_have_count(0)
    page.goto(f"{running.url}/jobs/7")
    expect(page.locator("main code")).to_have_text("oncue prune")
    expect(page.locator("main").get_by_role("link", name="Jobs")).to_have_attribute("href", "/ops/jobs")
    is_accessible(page)
    for path in ("/api/admin/nothing", "/health"):
        assert page.request.get(f"{running.url}{path}").headers["content-type"] != "text/html; charset=utf-8"
    page.complaints.clear()  # type: ignore[attr-defined]


def test_a_narrow_overview_begins_with_what_needs_attention(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    app = an_app(sqlite_url, tmp_path)

    @app.task(max_retries=0)
    async def deliver() -> None:
        raise ValueError("http://shop.example/hooks/orders is an address that may not be called from this host")

    running = run(app, with_worker=True)
    receipt = running.do(lambda app: deliver.aenqueue())
    page = open_page(f"{running.url}/jobs/{receipt.id}", width=390)
    expect(page.locator("main .badge").first).to_have_text("failed")
    page.goto(running.url)
    error = page.get_by_role("region", name="Latest failures").locator("td.mono")
    assert (error.bounding_box() or {})["height"] < 120
    needs, chart = page.get_by_role("region", name="Needs attention"), page.get_by_role("region", name="Throughput")
    assert (needs.bounding_box() or {})["y"] < (chart.bounding_box() or {})["y"]


def test_theme_and_zone_are_remembered(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    page = open_page(run(an_app(sqlite_url, tmp_path)).url, zone="Europe/Berlin")
    expect(page.locator("[data-zone-name]")).to_have_text("Berlin")
    page.locator("[data-zone-switch]").click()
    page.locator("[data-theme-switch]").click()
    page.reload()
    expect(page.locator("[data-zone-name]")).to_have_text("UTC")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_narrow_screen_has_a_menu(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    page = open_page(run(an_app(sqlite_url, tmp_path)).url, width=390)
    expect(page.locator("#rooms")).to_be_hidden()
    page.locator("[data-menu]").click()
    expect(page.locator("#rooms")).to_be_visible()
    is_accessible(page)


@pytest.mark.parametrize("prefix", ["", "/ops/oncue"])
@pytest.mark.parametrize("width", WIDTHS)
def test_signing_in_and_out(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, prefix: str, width: int
) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN, prefix=prefix)
    _, text = running.do(lambda app: app.tokens.create("anna", ["read"]))
    page = open_page(f"{running.url}/?from=a-link", width=width)
    expect(page.locator("h1")).to_contain_text("oncue")
    is_accessible(page)
    page.get_by_label("Token").fill("oncue_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
    assert [one for one in page.complaints if "403" not in one] == []  # type: ignore[attr-defined]
    page.complaints.clear()  # type: ignore[attr-defined]
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Overview")
    assert page.url.startswith(f"{running.url}/")
    if width < 900:
        page.locator("[data-menu]").click()
    expect(page.get_by_text("read only")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert running.do(lambda app: app.sessions.list()) == []
