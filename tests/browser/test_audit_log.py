"""The audit log: what it tells, its filters, its pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from starlette.datastructures import QueryParams

from oncue import Oncue
from oncue.server.api import AccessMode
from oncue.server.dashboard.audit_log import ChangedFact, _page_of, changes
from oncue.server.dashboard.view import View
from tests.browser import stories
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("audit_log")
    app = an_app(f"sqlite:///{folder}/audit_log.db", folder)
    stories.declare(app, "audit_log")
    running = Running(app).start()
    running.do(lambda app: stories.tell(app, "audit_log"))
    yield running
    running.stop()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_who_changed_what(shown: Running, open_page: Open, width: int, theme: str) -> None:
    page = open_page(f"{shown.url}/audit-log", width=width, theme=theme)
    rows = page.locator(".audit tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("cli:berta")
    expect(rows.first).to_contain_text("queue.pause")
    expect(rows.nth(2).locator("del").first).to_have_text("50")
    expect(rows.nth(2).locator("ins").first).to_have_text("20")
    is_accessible(page)


def test_older_entries_are_a_page_away(shown: Running, open_page: Open) -> None:
    page = open_page(f"{shown.url}/audit-log")
    page.get_by_role("link", name="Older").click()
    rows = page.locator(".audit tbody tr")
    expect(rows.last).to_have_attribute("id", "entry-1")
    expect(page.get_by_role("link", name="Older")).to_be_hidden()


def test_filters_are_in_the_address(shown: Running, open_page: Open) -> None:
    page = open_page(f"{shown.url}/audit-log")
    page.get_by_label("Subject").fill("queue:audit_log.mail")
    page.get_by_role("button", name="Find").click()
    rows = page.locator(".audit tbody tr")
    expect(rows).to_have_count(4)
    rows.first.get_by_role("link", name="queue.pause").click()
    expect(rows).to_have_count(1)
    assert "subject=queue%3Aaudit_log.mail" in page.url
    assert "action=queue.pause" in page.url
    expect(page.get_by_text("oncue audit-log --subject queue:audit_log.mail")).to_be_visible()
    rows.first.get_by_role("link", name="open").click()
    expect(page.locator("h1")).to_have_text("audit_log.mail")


def test_a_look_for_a_rare_action_ends_somewhere(
    shown: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.server.dashboard.audit_log.LOOK", 5)
    page = open_page(f"{shown.url}/audit-log?action=queue.limits&subject=queue%3Aaudit_log.bulk")
    rows = page.locator(".audit tbody tr")
    expect(rows).to_have_count(20)
    page.goto(f"{shown.url}/audit-log?action=no.such.action")
    expect(page.get_by_text("No such change among the entries looked through")).to_be_visible()
    page.get_by_role("link", name="Look further back").click()
    assert "before=" in page.url


def test_bad_input_and_no_match(shown: Running, open_page: Open) -> None:
    page = open_page(f"{shown.url}/audit-log?actor=nobody-of-that-name")
    expect(page.get_by_text("No entry matches")).to_be_visible()
    page.goto(f"{shown.url}/audit-log?before=yesterday")
    expect(page.locator("#main")).to_contain_text("before: expected a whole number")
    page.complaints.clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", WIDTHS)
def test_before_the_first_change_it_says_what_will_be_here(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path)).url}/audit-log", width=width)
    expect(page.get_by_text("Nothing was changed by hand yet")).to_be_visible()
    is_accessible(page)


def test_who_may_only_read_sees_it_too(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)
    _, text = running.do(lambda app: app.tokens.create("reader", ["read"], by="cli:anna"))
    page = open_page(f"{running.url}/audit-log")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    rows = page.locator(".audit tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("token.create")
    assert text.split("_", 2)[2] not in page.content()


def test_what_was_changed_is_a_click_away() -> None:
    view = View(Oncue(), "/audit-log", {}, QueryParams(), ("read",), "/ops")
    for subject, address in {
        "queue:mail": "/ops/queues/mail",
        "subject:digest/ann": "/ops/windows/digest/subjects/ann",
        "subject:team/digest/ann": None,
        "window:digest": "/ops/windows/digest",
        "token:17": None,
    }.items():
        assert _page_of(view, subject) == address


def test_changes_of_all_kinds() -> None:
    assert changes(None, None) == []
    assert changes({"a": 1}, {"a": None, "b": [2]}) == [ChangedFact("a", "1", "none"), ChangedFact("b", None, "[2]")]
    assert changes({"a": "x"}, None) == [ChangedFact("a", "x", None)]
    assert changes("was", "is") == [ChangedFact("", "was", "is")]
    (long,) = changes(None, {"a": "x" * 1000})
    assert len(long.after or "") == 300
