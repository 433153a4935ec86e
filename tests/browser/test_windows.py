"""Windows and their subjects, in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from oncue import SubjectNotFound, daily
from oncue.server.api import AccessMode
from tests.browser import history, stories
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running
from tests.browser.stories.windows import BRIEF, DIGEST, EMPTY, MANY, ODD

pytestmark = pytest.mark.timeout(90)
TOAST = "#toasts .toast"


@pytest.fixture(scope="module")
def told(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, list[str]]]:
    """A dashboard without a worker, with all that the story tells; and the addresses of its pages."""
    folder = tmp_path_factory.mktemp("windows")
    shutil.copyfile(sqlite_template, folder / "oncue.db")
    app = an_app(f"sqlite:///{folder}/oncue.db", folder)
    stories.declare(app, "windows")
    running = Running(app).start()
    yield running, running.do(lambda app: stories.tell(app, "windows"))
    running.stop()


@pytest.fixture
def there(told: tuple[Running, list[str]]) -> Running:
    return told[0]


def windowed(run: Runs, url: str, folder: Path, **options: Any) -> Running:
    """The windows of the story, with a subject that waits until the end of the day."""
    app = an_app(url, folder)
    stories.declare(app, "windows")
    running = run(app, **options)
    running.do(history.declared)
    running.do(lambda app: app.windows.add(DIGEST, "ann", at="23:59"))
    return running


def says(page: Page, text: str) -> None:
    expect(page.locator(TOAST).filter(has_text=text).first).to_be_visible()


def confirm(page: Page, command: str) -> None:
    """The question before a change shows the command that does the same."""
    expect(page.locator("#confirm code")).to_have_text(command)
    page.locator("#confirm").get_by_role("button", name="Yes").click()


def refused(page: Page, status: int) -> None:
    """What the console says of an answer that the test asked for."""
    assert [one for one in page.complaints if str(status) not in one] == []  # type: ignore[attr-defined]
    page.complaints.clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_every_page_can_be_read_by_everyone(
    told: tuple[Running, list[str]], open_page: Open, width: int, theme: str
) -> None:
    running, addresses = told
    page = open_page(running.url, width=width, theme=theme)
    for address in addresses[1:]:
        page.goto(running.url + address)
        expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
        is_accessible(page)


def test_the_list_says_what_is_wrong_first(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows")
    expect(page.locator("tbody tr").first).to_contain_text(DIGEST)
    first = page.locator("tbody tr").first
    expect(first).to_contain_text(f"at the present rate 214 users of {DIGEST} miss 23:55 (UTC)")
    expect(page.locator("tr", has_text=BRIEF)).to_contain_text("paused")
    expect(page.locator("tr", has_text=EMPTY)).to_contain_text("No window has opened yet.")


def test_a_day_by_its_cutoffs(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows/{DIGEST}")
    expect(page.get_by_role("status").filter(has_text="214 users")).to_be_visible()
    row = page.locator("tr", has_text="23:55")
    expect(row).to_contain_text("214 will miss")
    expect(row.locator("progress")).to_have_attribute("value", "60")
    bar = page.locator(".day-chart g", has_text="23:4").or_(page.locator(".day-chart g", has_text="23:5")).first
    assert "at the present rate 214 miss it" in bar.locator("title").text_content()  # type: ignore[operator]
    day = there.do(lambda app: app.now()).date() - timedelta(days=3)
    page.goto(f"{there.url}/windows/{DIGEST}?day={day}")
    expect(page.locator(".figure", has_text="Cutoff reached").locator("b")).to_have_text(
        "60" if day.weekday() < 6 else "0"
    )
    page.locator("a[rel=prev]").click()
    expect(page.get_by_label("Day", exact=True)).to_have_value(str(day - timedelta(days=1)))
    page.get_by_label("Day", exact=True).fill("2001-02-03")
    expect(page.get_by_text("No window opened on that day")).to_be_visible()
    page.get_by_role("link", name="Today").click()
    expect(page.locator(".day-row a[aria-current]")).to_have_count(1)


def test_an_hour_of_a_day_with_many_cutoffs(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = windowed(run, sqlite_url, tmp_path)
    day = running.do(lambda app: app.now()).date()
    tallies = [
        one for minute in range(0, 60, 2) for one in history.tallied(day, f"07:{minute:02}", opened=2, success=1)
    ]
    tallies += history.tallied(day, "09:30", opened=5, cutoff_reached=5)
    page = open_page(f"{running.url}/windows/{DIGEST}")
    expect(page.get_by_text("No window of that day has opened yet")).to_be_visible()
    running.do(lambda app: history.days_of(app, DIGEST, "ann", {}, 1, tallies))
    expect(page.get_by_role("link", name="07:00 to 07:59")).to_be_visible(timeout=15_000)  # by the stream
    expect(page.locator(".figure", has_text="no outcome yet").locator("b")).to_have_text("30")
    page.get_by_role("link", name="07:00 to 07:59").click()
    expect(page.locator("section[aria-label='The day by cutoff'] tbody tr")).to_have_count(30)
    page.get_by_role("link", name="the whole day").click()
    expect(page.get_by_role("link", name="09:00 to 09:59")).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_window_is_paused_and_enabled(there: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{there.url}/windows", width=width)
    page.locator("tr", has_text=EMPTY).get_by_role("button", name="Pause").click()
    confirm(page, f"oncue schedules disable {EMPTY}")
    says(page, f"{EMPTY} is paused")
    page.locator("tr", has_text=EMPTY).get_by_role("button", name="Enable").click()
    confirm(page, f"oncue schedules enable {EMPTY}")
    says(page, f"{EMPTY} is enabled")
    page.goto(f"{there.url}/windows/{EMPTY}")
    page.get_by_role("button", name="Pause the window").click()
    confirm(page, f"oncue schedules disable {EMPTY}")
    expect(page.get_by_text(f"oncue schedules enable {EMPTY}", exact=True)).to_be_visible()
    assert not there.do(lambda app: app.windows.get(EMPTY)).enabled
    page.get_by_role("button", name="Enable the window").click()
    expect(page.get_by_role("button", name="Pause the window")).to_be_visible()
    assert there.do(lambda app: app.windows.get(EMPTY)).enabled


@pytest.mark.parametrize("width", WIDTHS)
def test_a_subject_from_its_making_to_its_end(there: Running, open_page: Open, width: int) -> None:
    name = f"eve <{width}> & co/é"
    morning = "UTC" if there.do(lambda app: app.now()).hour < 12 else "Etc/GMT+12"
    page = open_page(f"{there.url}/windows/{EMPTY}", width=width)
    adding = page.locator("section[aria-label='Add a subject']")
    adding.get_by_label("Name").fill(name)
    adding.get_by_label("Due at").fill("23:59")
    adding.get_by_label("Zone").fill(morning)
    adding.get_by_role("button", name="Add").click()
    says(page, f"{name}: the window of ")
    page.get_by_role("link", name=name).click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator("section[aria-label=Why]")).to_contain_text("Its window opens at")
    page.get_by_role("button", name="Run its day now").click()
    says(page, "is for its day")
    expect(page.locator(".head .badge")).to_have_text("open")
    page.get_by_role("button", name="Run its day now").click()
    says(page, "has its job already")
    refused(page, 409)
    changing = page.locator("section[aria-label=Actions]")
    changing.get_by_label("Zone").fill("Europe/Berlin")
    changing.get_by_label("Weekdays").fill("MON-FRI")
    changing.get_by_label("Days off").fill("2030-12-24, 2030-12-25")
    changing.get_by_role("button", name="Change its terms").click()
    terms = page.locator("section[aria-label=Terms]")
    expect(terms).to_contain_text("2030-12-24, 2030-12-25")
    expect(terms).to_contain_text("in Europe/Berlin")
    expect(page.get_by_text("--weekdays MON,TUE,WED,THU,FRI")).to_be_visible()
    expect(page.locator("section[aria-label='Changes by hand'] li").first).to_contain_text("subject.change")
    page.get_by_role("button", name="Remove it").click()
    page.locator("#confirm").get_by_role("button", name="Yes").click()
    says(page, f"{name} is removed.")
    expect(page.get_by_role("heading", name="Add it again")).to_be_visible()
    with pytest.raises(SubjectNotFound):
        there.do(lambda app: app.windows.subject(EMPTY, name))
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("button", name="Remove it")).to_be_visible()
    again = there.do(lambda app: app.windows.subject(EMPTY, name))
    assert (again.tz, again.weekdays, len(again.days_off)) == ("Europe/Berlin", 31, 2)
    there.do(lambda app: app.windows.remove(EMPTY, name))


def test_what_is_wrong_is_named_and_changes_nothing(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows/{EMPTY}")
    adding = page.locator("section[aria-label='Add a subject']")
    adding.get_by_label("Name").fill("eve")
    for label, text, told in [
        ("Due at", "25:00", "at: expected a time of day such as '09:00', not '25:00'"),
        ("Zone", "Mars/Base", "tz:"),
        ("Weekdays", "MON-XYZ", "weekdays: expected weekdays such as 'MON-FRI'"),
        ("Days off", "soon", "days_off: expected dates such as '2026-12-24'"),
        ("Arguments, a JSON object", "[1", "args: expected a JSON object"),
    ]:
        adding.get_by_label("Due at").fill("09:00")
        adding.get_by_label(label).fill(text)
        adding.get_by_role("button", name="Add").click()
        says(page, told)
        adding.get_by_label(label).fill("")
    refused(page, 422)
    assert there.do(lambda app: app.windows.subjects(EMPTY)) == []


@pytest.mark.parametrize(
    ("address", "status", "text"),
    [
        ("/windows/none", 404, "there is no window 'none'"),
        (f"/windows/{DIGEST}/subjects/none", 404, f"window '{DIGEST}' has no subject 'none'"),
        ("/window/subject?window=windows_digest&subject=", 404, "no such subject"),
        (f"/windows/{DIGEST}?day=soon", 422, "day: expected a date such as 2030-01-31, not 'soon'"),
        (f"/windows/{DIGEST}?day=9999-12-31", 422, "day: expected a date"),
        (f"/windows/{DIGEST}?hour=24", 422, "hour: expected a whole number from 0 to 23"),
        (f"/windows/{DIGEST}/subjects/ann?day=0001-01-01", 422, "day: expected a date"),
    ],
)
def test_an_address_that_leads_nowhere_says_so(
    there: Running, open_page: Open, address: str, status: int, text: str
) -> None:
    page = open_page(there.url + address)
    expect(page.locator("#main")).to_contain_text(text)
    refused(page, status)


def test_subjects_are_searched_and_paged(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows/{DIGEST}?day=2030-01-01")
    rows = page.locator("#subjects tbody tr")
    expect(rows).to_have_count(25)
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    expect(page.get_by_role("link", name=ODD[0], exact=True)).to_have_count(0)
    search = page.get_by_label("Names that begin with")
    search.fill("user-05")
    search.press("Enter")
    expect(rows).to_have_count(min(MANY - 50, 10))
    assert "day=2030-01-01" in page.url
    search.fill("nobody")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No subject of this window begins so")).to_be_visible()
    page.get_by_role("link", name="All", exact=True).click()
    expect(rows).to_have_count(25)


def test_odd_names_lead_to_their_pages(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows/{DIGEST}")
    for name in ODD:
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page.locator("h1")).to_have_text(name)
        page.locator(".strip.days a").first.click()
        expect(page.locator("h1")).to_have_text(name)
        page.get_by_role("link", name=DIGEST, exact=True).click()


def test_windows_with_odd_names_have_pages_too(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    app, names = an_app(sqlite_url, tmp_path), ["..", "a/b", "x?y#z", "<i>", "a/subjects/b"]
    for name in names:
        app.task(name=name, schedule=daily())(lambda user: None)
    running = run(app)
    running.do(history.declared)
    page = open_page(f"{running.url}/windows")
    for name in names:
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("h1")).to_have_text(name)
        adding = page.locator("section[aria-label='Add a subject']")
        adding.get_by_label("Name").fill("..")
        adding.get_by_label("Due at").fill("09:00")
        adding.get_by_role("button", name="Add").click()
        page.locator("#subjects").get_by_role("link", name="..", exact=True).click()
        expect(page.locator(".crumb")).to_have_text(f"Windows / {name}")
        page.goto(f"{running.url}/windows?name={quote(name)}&day=2030-01-01")
        expect(page.locator("h1")).to_have_text(name)
        page.get_by_label("Names that begin with").press("Enter")
        expect(page.locator("h1")).to_have_text(name)
        page.goto(f"{running.url}/windows")


def test_the_days_of_a_subject(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows/{DIGEST}/subjects/ann")
    day = there.do(lambda app: app.now()).date() - timedelta(days=5)
    if day.weekday() == 6:
        return  # the story has none on Sundays
    square = page.locator(f".strip.days a[title^='{day}']")
    expect(square).to_have_attribute("class", "missed")
    square.click()
    expect(page.locator("section[aria-label=Why]")).to_contain_text("It was missed: no leader ran")
    expect(page.locator("section[aria-label=Why] code")).to_have_text(
        f"oncue explain --subject ann --day {day} {DIGEST}"
    )
    page.locator("#more-days summary").click()
    expect(page.locator("section[aria-label=Days] tbody tr")).not_to_have_count(0)
    page.get_by_role("link", name="Earlier days").click()
    expect(page.locator(".strip.days a[aria-current]")).to_have_count(1)


def test_a_visitor_who_may_only_read_sees_commands_alone(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    running = windowed(run, sqlite_url, tmp_path, access=AccessMode.TOKEN)
    _, text = running.do(lambda app: app.tokens.create("reader", ["read"]))
    page = open_page(f"{running.url}/sign-in?next={quote(f'/windows/{DIGEST}/subjects/ann')}")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("ann")
    expect(page.get_by_text(f"oncue subjects remove {DIGEST} ann")).to_be_visible()
    expect(page.locator("#main form")).to_have_count(0)
    page.goto(f"{running.url}/windows/{DIGEST}")
    expect(page.get_by_text(f"oncue subjects add {DIGEST} NAME --at 09:00")).to_be_visible()
    expect(page.locator("#main form[hx-post]")).to_have_count(0)
    page.goto(f"{running.url}/windows")
    expect(page.locator("#main form")).to_have_count(0)


@pytest.mark.parametrize("width", WIDTHS)
def test_where_nothing_is_it_says_what_to_do(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path)).url}/windows", width=width)
    expect(page.locator(".empty")).to_contain_text("@app.task(schedule=daily(…))")
    expect(page.locator(".empty code")).to_have_text("oncue worker --app MODULE:APP")
    is_accessible(page)


def test_the_palette_knows_windows(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/alerts")
    page.keyboard.press("Control+k")
    page.keyboard.type("s_dig")
    page.locator("#palette li", has_text=DIGEST).click()
    expect(page.locator("h1")).to_have_text(DIGEST)


def test_a_window_without_subjects_says_how_to_add_one(there: Running, open_page: Open) -> None:
    page = open_page(f"{there.url}/windows/{EMPTY}")
    expect(page.locator(".empty code")).to_have_text(f"oncue subjects add {EMPTY} NAME --at 09:00")
    expect(page.get_by_text(f"oncue subjects import {EMPTY} users.csv")).to_be_visible()


def test_long_arguments_stay_as_they_are(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running, own = windowed(run, sqlite_url, tmp_path), {"language": "d" * 20_000}
    running.do(lambda app: app.windows.change(DIGEST, "ann", args=own))
    page = open_page(f"{running.url}/windows/{DIGEST}/subjects/ann")
    expect(page.get_by_text("Its arguments are too long for a form")).to_be_visible()
    page.get_by_label("Weekdays").fill("MON")
    page.get_by_role("button", name="Change its terms").click()
    says(page, "ann: the window of ")
    changed = running.do(lambda app: app.windows.subject(DIGEST, "ann"))
    assert (changed.weekdays, json.loads(changed.args)) == (1, own)


def test_arguments_with_odd_characters_survive_a_form(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    running, own = windowed(run, sqlite_url, tmp_path), {"language": "d\x7f\u202e\u200b\U000e0001</input>\"'\né"}
    running.do(lambda app: app.windows.change(DIGEST, "ann", args=own))
    page = open_page(f"{running.url}/windows/{DIGEST}/subjects/ann")
    page.get_by_label("Weekdays").fill("MON")
    page.get_by_role("button", name="Change its terms").click()
    says(page, "ann: the window of ")
    changed = running.do(lambda app: app.windows.subject(DIGEST, "ann"))
    assert (changed.weekdays, json.loads(changed.args)) == (1, own)


def test_the_pages_on_postgresql(run: Runs, open_page: Open, postgres_url: str, tmp_path: Path) -> None:
    app = an_app(postgres_url, tmp_path)
    stories.declare(app, "windows")
    running = run(app)
    addresses = running.do(lambda app: stories.tell(app, "windows", "alerts"))
    page = open_page(running.url)
    for address in addresses:
        page.goto(running.url + address)
        expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
        expect(page.locator("h1")).to_be_visible()
    page.goto(f"{running.url}/windows/{DIGEST}?prefix=user-05")
    expect(page.locator("#subjects tbody tr")).to_have_count(min(MANY - 50, 10))
