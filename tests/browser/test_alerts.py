"""SLOs and alerts, in a real browser."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from oncue.model import AlertState
from oncue.policy import slo
from tests.browser import history, stories
from tests.browser.conftest import Open, Runs, an_app, is_accessible
from tests.browser.stories.alerts import BRIEF, MAIL, QUEUE

pytestmark = pytest.mark.timeout(90)


@pytest.mark.contract("WIN-17", "QUE-20")
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_each_is_shown_with_its_value_its_threshold_and_since_when(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int, theme: str
) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    running.do(lambda app: stories.tell(app, "alerts"))
    page = open_page(f"{running.url}/alerts", width=width, theme=theme)
    expect(page.get_by_role("status").filter(has_text="2 warnings, and 2 in breach")).to_be_visible()
    first = page.locator("tr.warned").first
    for text in (f"34 of 1000 users of {BRIEF} reached their cutoff (3.4%)", "3.4 %", "1.0 %", "45 in a row",
                 "47 min ago", "warned 45 min ago", "the cutoff at 09:00 UTC", f"oncue windows {BRIEF}"):  # fmt: skip
        expect(first).to_contain_text(text)
    expect(first.locator("svg.spark polyline")).to_have_count(1)
    rising = page.locator("tr.breached", has_text=QUEUE)
    expect(rising).to_contain_text("and ever more: 12 first, 1290 last")
    expect(rising).to_contain_text("2 of 3 in a row")
    mail = page.locator("tr.warned", has_text=MAIL)
    expect(mail).to_contain_text("4,210")
    expect(mail.get_by_role("link", name=MAIL)).to_have_attribute("href", f"/queues/{MAIL}")
    expect(page.locator("tr.ok")).to_have_count(4)
    expect(page.locator("tr.silent")).to_have_count(2)
    expect(page.locator("tr.silent").first).to_contain_text("Predicted misses")
    is_accessible(page)


def test_all_kinds_are_known(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    unknown = AlertState("of_tomorrow", "all", 7.0, 9.0, text="a newer leader watches more")
    states = [AlertState(alert, "it <b>'s</b>", 0.5, 1.0, text=f"{alert} is well") for alert in slo.ALERTS]
    running.do(lambda app: history.book_of(app, *states, unknown))
    page = open_page(f"{running.url}/alerts")
    expect(page.get_by_role("status").filter(has_text="All is well: 11 values are within")).to_be_visible()
    for alert in slo.ALERTS:
        expect(page.get_by_text(f"{alert} is well")).to_be_visible()
    expect(page.get_by_text("a newer leader watches more")).to_be_visible()
    running.do(lambda app: history.book_of(app, states[0]._replace(breaches=1, since=None)))
    expect(page.get_by_role("status").filter(has_text="1 in breach")).to_be_visible(timeout=15_000)  # by the stream


def test_before_the_first_evaluation_it_says_what_is_missing(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path)).url}/alerts")
    expect(page.locator(".empty")).to_contain_text("Nothing was evaluated yet")
    expect(page.locator("section[aria-label='Who is told']")).to_contain_text("not set")
    is_accessible(page)


def test_what_is_old_is_said_to_be(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    running.do(lambda app: history.book_of(app, ago=timedelta(minutes=4)))
    page = open_page(f"{running.url}/alerts")
    expect(page.get_by_role("status").filter(has_text="no node leads")).to_be_visible()
    is_accessible(page)


@pytest.mark.parametrize(
    ("target", "shown"),
    [("pager", "pager"), ("https://hooks.example/services/SECRET?key=SECRET", "https://hooks.example:443/…")],
)
def test_where_warnings_go_is_shown_without_its_secret(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, target: str, shown: str
) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path, alert_webhook=target)).url}/alerts")
    expect(page.locator("section[aria-label='Who is told']")).to_contain_text(shown)
    assert "SECRET" not in page.content()
