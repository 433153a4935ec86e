"""The pages of schedules in a real browser: listing, calendar, ledger, actions, and the preview of an edit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from oncue import Oncue, ScheduleNotFound, cron
from oncue.server.api import AccessMode
from tests.browser import stories
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running
from tests.browser.stories.schedules import (
    CODED,
    DELETED,
    DENSE,
    EDITED,
    FAILING,
    OUTAGE,
    PAUSED,
    REPORT,
    WINDOW,
)

pytestmark = pytest.mark.timeout(120)
BOTH = pytest.mark.parametrize("width", WIDTHS)


@pytest.fixture(scope="module")
def told(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A dashboard that tells the story of schedules."""
    folder = tmp_path_factory.mktemp("story")
    app = an_app(f"sqlite:///{folder}/story.db", folder)
    stories.declare(app, "schedules")
    running = Running(app, with_worker=True).start()
    running.do(lambda app: stories.tell(app, "schedules"))
    yield running
    running.stop()


@pytest.fixture
def quiet(run: Runs, sqlite_url: str, tmp_path: Path) -> Running:
    """A dashboard without a worker, with one schedule."""
    app = an_app(sqlite_url, tmp_path)

    @app.task
    async def send_report(pages: int = 1) -> None: ...

    running = run(app)
    running.do(lambda app: app.schedules.create("nightly", cron("30 2 * * *", tz="Europe/Berlin"), send_report))
    return running


def refused(page: Page) -> None:
    """The console tells of the answer that refused; that is the only complaint."""
    assert all("422" in one or "409" in one for one in page.complaints), page.complaints  # type: ignore[attr-defined]
    page.complaints.clear()  # type: ignore[attr-defined]


# --- looking --------------------------------------------------------------------------------------------------------


@BOTH
def test_the_listing_tells_rule_target_last_run_and_latest_slots(told: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{told.url}/schedules", width=width)
    row = page.locator("tr", has=page.get_by_role("link", name=REPORT, exact=True))
    expect(row).to_contain_text("every day at 02:30")
    expect(row).to_contain_text("Europe/Berlin")
    expect(row.locator(".slots a")).to_have_count(16)
    failing = page.locator("tr", has=page.get_by_role("link", name=FAILING, exact=True))
    expect(failing).to_contain_text("last run failed")
    expect(page.get_by_role("region", name="Needs attention")).to_contain_text(FAILING)
    expect(page.get_by_role("list", name="What the squares mean")).to_contain_text("missed: decided too late to fire")
    is_accessible(page)
    row.get_by_role("link", name=REPORT, exact=True).click()
    expect(page.locator("h1")).to_have_text(REPORT)


def test_the_listing_is_filtered_in_its_address(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules")
    page.get_by_label("State").select_option("paused")
    expect(page).to_have_url(f"{told.url}/schedules?prefix=&state=paused")
    expect(page.locator(".schedule-list tbody tr")).to_have_count(1)
    page.goto(f"{told.url}/schedules?prefix=schedules.re")
    expect(page.locator(".schedule-list tbody tr")).to_have_count(1)
    page.goto(f"{told.url}/schedules?prefix=nothing")
    expect(page.get_by_text("No schedule fits")).to_be_visible()
    is_accessible(page)


@BOTH
@pytest.mark.parametrize("span", ["day", "week"])
def test_the_calendar_shows_few_runs_as_marks_and_many_as_a_band(
    told: Running, open_page: Open, width: int, span: str
) -> None:
    page = open_page(f"{told.url}/calendar?span={span}", width=width)
    dense = page.locator(".lane", has_text=DENSE)
    expect(dense.locator("rect")).to_have_count(1)
    expect(dense.locator(".run")).to_have_count(0)
    report = page.locator(".lane", has_text=REPORT)
    expect(report.locator(".run").first).to_be_attached()
    assert report.locator(".run").count() in ((1, 2) if span == "day" else (7, 8))
    expect(page.locator(".lane", has_text=PAUSED)).to_have_count(0)
    is_accessible(page)


@BOTH
def test_a_schedule_shows_its_ledger_and_one_slot_of_it(told: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{told.url}/schedules/{REPORT}", width=width)
    strip = page.get_by_role("list", name="Slots, the oldest first")
    expect(strip.get_by_role("link")).to_have_count(40)
    expect(page.get_by_role("heading", name="Why")).to_be_visible()
    expect(page.get_by_text("moved: 02:30 did not exist")).to_be_visible()
    is_accessible(page)
    strip.locator(".slot-missed").first.click()
    panel = page.get_by_role("region", name="Slot", exact=True)
    expect(panel).to_contain_text("It was missed")
    expect(panel).to_contain_text("oncue explain --at")
    expect(strip.locator("[aria-current]")).to_have_count(1)
    is_accessible(page)
    panel.get_by_role("link", name="Close").click()
    expect(panel).to_have_count(0)


def test_a_focused_square_says_what_it_is(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules/{FAILING}")
    square = page.locator("#ledger .slots .slot-skipped").first
    square.focus()
    expect(square).to_have_attribute("aria-label", re.compile("was in the way"))


def test_the_ledger_goes_back_in_time_page_by_page(told: Running, open_page: Open) -> None:
    told.do(_many_slots)
    page = open_page(f"{told.url}/schedules/schedules.many")
    squares = page.locator("#ledger .slots a")
    expect(squares).to_have_count(60)
    first = squares.first.get_attribute("aria-label")
    page.get_by_role("link", name="Older").click()
    expect(squares).to_have_count(10)
    assert first != squares.last.get_attribute("aria-label")
    expect(page.get_by_role("link", name="Older")).to_have_count(0)
    page.get_by_role("link", name="Newest").click()
    expect(squares).to_have_count(60)


async def _many_slots(app: Oncue) -> None:
    """A schedule with 70 slots, all by hand."""
    await app.schedules.create("schedules.many", "* * * * *", "schedules.make_report", enabled=False)
    now = await app.now()
    end = now.replace(second=0, microsecond=0)
    done = await app.schedules.backfill("schedules.many", end - timedelta(minutes=69), end)
    assert len(done.jobs) == 70


def test_an_outage_is_one_square(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules/{OUTAGE}")
    missed = page.locator("#ledger .slots .slot-missed")
    expect(missed).to_have_count(1)
    expect(missed).to_have_attribute("aria-label", re.compile("slots from"))


def test_revisions_say_what_they_changed(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules/{EDITED}")
    revisions = page.get_by_role("region", name="Revisions")
    expect(revisions).to_contain_text("by anna")
    expect(revisions.locator("li li", has_text="expression")).to_contain_text("0 6 * * * → 0 7 * * MON-FRI")


def test_next_runs_from_an_instant_tell_of_the_clock_change(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules/{REPORT}?from=2027-03-27")
    expect(page.locator("#next-runs table").last).to_contain_text("moved: 02:30 did not exist")


def test_a_deleted_schedule_keeps_its_page_and_has_no_buttons(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules/{DELETED}")
    expect(page.get_by_text("Its slots stay in the ledger")).to_be_visible()
    expect(page.locator("#ledger .slots a")).to_have_count(1)
    expect(page.locator("main button:not(.copy)")).to_have_count(0)


@BOTH
def test_an_empty_listing_and_calendar_say_what_to_do(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    url = run(an_app(sqlite_url, tmp_path)).url
    page = open_page(f"{url}/schedules", width=width)
    expect(page.get_by_text("No schedule yet")).to_be_visible()
    expect(page.get_by_text("oncue schedules add")).to_be_visible()
    is_accessible(page)
    page.goto(f"{url}/calendar")
    expect(page.get_by_text("Nothing is to come")).to_be_visible()
    is_accessible(page)


def test_a_schedule_whose_name_no_path_can_say(quiet: Running, open_page: Open) -> None:
    name = "../<b>a</b>//..?&x=1"
    quiet.do(lambda app: app.schedules.create(name, "@daily", "send_report"))
    page = open_page(f"{quiet.url}/schedules")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("h1")).to_have_text(name)
    page.get_by_role("link", name="Edit").click()
    expect(page.locator("#preview")).to_contain_text("every day at 00:00")
    page.get_by_label("Expression").fill("0 1 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.get_by_role("heading", name="every day at 01:00")).to_be_visible()


def test_bad_addresses_get_a_sentence(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules")
    for address, sentence in (
        ("/schedules?state=gone", "expected `enabled` or `paused`"),
        (f"/schedules/{PAUSED}?slot=soon", "slot: expected an instant"),
        (f"/schedules/{PAUSED}?before=x", "before: expected an instant"),
        (f"/schedules/{PAUSED}?from=x", "from: expected an instant"),
        ("/calendar?span=year", "expected `day` or `week`"),
        ("/calendar?after=x", "after: expected"),
        ("/schedules/none", "there is no schedule 'none'"),
        ("/edit-schedule/none", "there is no schedule 'none'"),
    ):
        page.goto(f"{told.url}{address}")
        expect(page.locator("main")).to_contain_text(sentence)
    page.complaints.clear()  # type: ignore[attr-defined]


def test_a_daily_window_leads_to_its_own_page(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/schedules/{WINDOW}")
    expect(page.get_by_role("link", name="The page of the window")).to_have_attribute("href", f"/windows/{WINDOW}")
    expect(page.locator("main button:not(.copy)")).to_have_count(0)
    is_accessible(page)
    page.goto(f"{told.url}/schedules?prefix={WINDOW}")
    expect(page.get_by_role("link", name=WINDOW, exact=True).first).to_have_attribute("href", f"/windows/{WINDOW}")


def test_long_listings_and_calendars_go_on_page_by_page(quiet: Running, open_page: Open) -> None:
    quiet.do(_many_schedules)
    page = open_page(f"{quiet.url}/schedules")
    expect(page.locator(".schedule-list tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Next", exact=True).click()
    expect(page.locator(".schedule-list tbody tr")).to_have_count(13)
    page.goto(f"{quiet.url}/calendar")
    expect(page.locator(".lane")).to_have_count(60)
    page.get_by_role("link", name="Later ones").click()
    expect(page.locator(".lane")).to_have_count(3)


async def _many_schedules(app: Oncue) -> None:
    for number in range(62):
        await app.schedules.create(f"many-{number:02}", "0 * * * *", "send_report")


# --- changing -------------------------------------------------------------------------------------------------------


@BOTH
def test_pausing_and_enabling(quiet: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{quiet.url}/schedules/nightly", width=width)
    expect(page.get_by_text("oncue schedules disable nightly")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_contain_text("nightly is paused")
    expect(page.locator(".schedule-bar .badge")).to_have_text("paused")
    assert not quiet.do(lambda app: app.schedules.get("nightly")).enabled
    page.get_by_role("button", name="Enable").click()
    expect(page.locator(".schedule-bar .badge")).to_have_text("enabled")
    assert quiet.do(lambda app: app.schedules.get("nightly")).enabled


@BOTH
def test_running_now_and_once_more_too_early(quiet: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{quiet.url}/schedules/nightly", width=width)
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".toast")).to_contain_text("runs its task now")
    expect(page.locator("#ledger .slots a")).to_have_count(1)
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".toast.error")).to_contain_text("may run 1 at once")
    refused(page)


@BOTH
def test_a_slot_is_run_by_hand(quiet: Running, open_page: Open, width: int) -> None:
    (fire,) = quiet.do(lambda app: app.schedules.preview("nightly", 1))
    page = open_page(f"{quiet.url}/schedules/nightly", width=width)
    by_hand = page.get_by_role("region", name="Slots by hand")
    by_hand.get_by_label("Slot").fill("2026-01-01")
    by_hand.get_by_role("button", name="Run it").click()
    expect(page.locator(".toast.error")).to_contain_text("at: 2026-01-01T00:00:00+00:00 is no slot of 'nightly'")
    refused(page)
    at = fire.scheduled_for.isoformat().replace("+00:00", "Z")
    page.goto(f"{quiet.url}/schedules/nightly?slot={at}")
    page.get_by_role("button", name="Run this slot").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator(".toast")).to_contain_text("It is still to come, and used up now")
    expect(page.get_by_role("region", name="Slot", exact=True)).to_contain_text("was triggered by hand")
    is_accessible(page)


@BOTH
def test_a_backfill_says_how_many_before_it_makes_them(quiet: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{quiet.url}/schedules/nightly", width=width)
    by_hand = page.get_by_role("region", name="Slots by hand")
    by_hand.get_by_label("From").fill("yesterday")
    by_hand.get_by_role("button", name="How many?").click()
    expect(by_hand.get_by_role("alert")).to_contain_text("from: expected an instant")
    by_hand.get_by_label("From").fill("-5d")
    by_hand.get_by_role("button", name="How many?").click()
    expect(by_hand).to_contain_text("5 slots would run")
    is_accessible(page)
    assert quiet.do(lambda app: app.schedules.latest_slots("nightly")) == []
    by_hand.get_by_role("button", name="Make 5 jobs").click()
    expect(page.locator(".toast")).to_contain_text("5 jobs made")
    expect(page.locator("#ledger .slots a")).to_have_count(5)
    by_hand.get_by_label("From").fill("-5d")
    by_hand.get_by_role("button", name="How many?").click()
    expect(by_hand).to_contain_text("Nothing to do: all 5 slots of the span are decided.")


@BOTH
def test_deleting_asks_first(quiet: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{quiet.url}/schedules/nightly", width=width)
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#confirm")).to_contain_text("oncue schedules remove nightly")
    page.get_by_role("button", name="No", exact=True).click()
    assert quiet.do(lambda app: app.schedules.get("nightly"))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("No schedule yet")).to_be_visible()
    with pytest.raises(ScheduleNotFound):
        quiet.do(lambda app: app.schedules.get("nightly"))


# --- editing --------------------------------------------------------------------------------------------------------


@BOTH
def test_an_edit_shows_which_runs_go_stay_and_come_before_it_is_saved(
    quiet: Running, open_page: Open, width: int
) -> None:
    page = open_page(f"{quiet.url}/edit-schedule/nightly", width=width)
    now, then = page.get_by_role("region", name="Now"), page.get_by_role("region", name="After")
    expect(now.locator(".stays")).to_have_count(8)
    page.get_by_label("Expression").fill("30 2,14 * * *")
    expect(then.locator(".new")).to_have_count(4)
    expect(now.locator(".stays")).to_have_count(8)
    expect(page.locator("#preview")).to_contain_text("14 runs in the next 7 days, 7 as it is now")
    expect(page.locator("#preview")).to_contain_text("oncue schedules edit --expression '30 2,14 * * *' nightly")
    is_accessible(page)
    page.get_by_label("Expression").fill("0 5 * * *")
    expect(now.locator(".goes")).to_have_count(8)
    assert quiet.do(lambda app: app.schedules.get("nightly")).revision == 1
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="every day at 05:00")).to_be_visible()
    assert quiet.do(lambda app: app.schedules.get("nightly")).expression == "0 5 * * *"


def test_an_edit_that_is_wrong_names_the_field_and_changes_nothing(quiet: Running, open_page: Open) -> None:
    page = open_page(f"{quiet.url}/edit-schedule/nightly")
    preview = page.locator("#preview")
    for label, text, sentence in (
        ("Expression", "30 25 * * *", "expression: expected an hour from 0 to 23"),
        ("Time zone", "Europe/Berlinn", "tz: there is no time zone 'Europe/Berlinn': did you mean Europe/Berlin?"),
        ("Arguments", "[1]", "args: expected a JSON object"),
        ("Arguments", '{"pages": "many"}', "pages: "),
        ("Grace", "soon", "grace: expected a duration"),
        ("Priority", "high", "priority: expected a whole number"),
        ("Queue", "a b", "queue: expected"),
        ("Task", "send_repot", "send_repot"),
    ):
        page.reload()
        page.get_by_label(label).fill(text)
        expect(preview.get_by_role("alert")).to_contain_text(sentence)
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast.error")).to_contain_text("Nothing was changed.")
    refused(page)
    assert quiet.do(lambda app: app.schedules.get("nightly")).revision == 1


def test_every_term_can_be_edited(quiet: Running, open_page: Open) -> None:
    page = open_page(f"{quiet.url}/edit-schedule/nightly")
    for label, text in (
        ("Time zone", "Asia/Tokyo"), ("Description", "For <b>anna</b>"),
        ("Grace", "10m"), ("Unfinished jobs at once", "2"), ("Priority", "70"), ("Queue", "reports"),
        ("Retries", "9"), ("Name", "daily"),
    ):  # fmt: skip
        page.get_by_label(label, exact=True).fill(text)
    page.locator("[name=args]").fill('{"pages": 3}')
    page.get_by_label("At clock changes").select_option("all")
    page.get_by_label("Slots found late").select_option("each")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("daily")
    one = quiet.do(lambda app: app.schedules.get("daily"))
    assert (one.tz, one.dst, one.args, one.description) == ("Asia/Tokyo", "all", '{"pages":3}', "For <b>anna</b>")
    assert (one.missed, one.grace, one.max_instances, one.priority) == ("each", 600.0, 2, 70)
    assert (one.queue, one.max_retries, one.expression) == ("reports", 9, "30 2 * * *")


def test_what_others_changed_meanwhile_is_not_overwritten(quiet: Running, open_page: Open) -> None:
    page = open_page(f"{quiet.url}/edit-schedule/nightly")
    expect(page.locator("#preview .stays").first).to_be_visible()
    quiet.do(lambda app: app.schedules.change("nightly", priority=9, changed_by="bert"))
    page.get_by_label("Queue").fill("reports")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast.error")).to_contain_text("was changed meanwhile")
    refused(page)
    assert quiet.do(lambda app: app.schedules.get("nightly")).queue == "default"


def test_what_code_declares_is_tried_and_not_saved(told: Running, open_page: Open) -> None:
    page = open_page(f"{told.url}/edit-schedule/{CODED}")
    expect(page.get_by_text("make it in the code")).to_be_visible()
    page.get_by_label("Expression").fill("0 12 * * *")
    expect(page.get_by_role("region", name="After").locator(".new").first).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    is_accessible(page)


@BOTH
def test_making_a_schedule(quiet: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{quiet.url}/new-schedule", width=width)
    expect(page.locator("#preview")).to_contain_text("Type an expression")
    page.get_by_label("Name", exact=True).fill("hourly")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator(".toast.error")).to_contain_text("expression: expected, and not there")
    page.get_by_label("Expression").fill("0 * * * *")
    expect(page.locator("#preview")).to_contain_text("168 runs in the next 7 days")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator(".toast.error").last).to_contain_text("task: expected a task or a webhook")
    page.get_by_label("Task").fill("send_report")
    page.locator("[name=args]").fill('{"pages": 2}')
    expect(page.locator("#preview")).to_contain_text("oncue schedules add")
    is_accessible(page)
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("h1")).to_have_text("hourly")
    one = quiet.do(lambda app: app.schedules.get("hourly"))
    assert (one.args, one.tz, one.enabled) == ('{"pages":2}', "UTC", True)
    refused(page)


def test_a_schedule_of_a_webhook(quiet: Running, open_page: Open) -> None:
    quiet.do(lambda app: app.webhooks.create("orders", url="https://example.com/"))
    page = open_page(f"{quiet.url}/new-schedule")
    page.get_by_label("Name", exact=True).fill("deliver")
    page.get_by_label("Expression").fill("@daily")
    page.get_by_label("or a webhook").fill("orders")
    page.get_by_label("Arguments").fill('{"payload": {"n": 1}}')
    page.get_by_label("Make it paused").check()
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.goto(f"{quiet.url}/edit-schedule/deliver")
    expect(page.get_by_label("Arguments")).to_have_value('{"payload": {"n": 1}}')
    page.get_by_label("Arguments").fill('{"payload": {"n": 2}}')
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("deliver")
    one = quiet.do(lambda app: app.schedules.get("deliver"))
    assert (one.group, one.enabled) == ("orders", False)
    assert '"n":2' in one.args.replace(" ", "")


# --- who may only look ----------------------------------------------------------------------------------------------


def test_who_may_only_look_sees_commands_and_no_buttons(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    app = an_app(sqlite_url, tmp_path)

    @app.task
    async def send_report() -> None: ...

    running = run(app, access=AccessMode.TOKEN)
    running.do(lambda app: app.schedules.create("nightly", "0 3 * * *", send_report))
    _, text = running.do(lambda app: app.tokens.create("anna", ["read"]))
    page = open_page(f"{running.url}/schedules/nightly")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("nightly")
    expect(page.get_by_text("oncue schedules disable nightly")).to_be_visible()
    expect(page.locator("main button:not(.copy)")).to_have_count(0)
    page.goto(f"{running.url}/edit-schedule/nightly")
    page.get_by_label("Expression").fill("0 4 * * *")
    expect(page.locator("#preview .new").first).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
