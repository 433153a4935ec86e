"""The pages of jobs: what is listed and found, one job in full, and every change, of one and of many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from oncue import Oncue
from oncue.model import State
from oncue.server.api import AccessMode
from oncue.server.dashboard import job_changes, jobs
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running
from tests.browser.stories import jobs as story

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A dashboard that is told the story of the jobs; a worker runs them. What a test changes is of its own."""
    folder = tmp_path_factory.mktemp("jobs")
    app = an_app(f"sqlite:///{folder}/jobs.db", folder, drain_timeout="100ms")
    story.declare(app)
    running = Running(app, with_worker=True).start()
    running.do(story.tell)
    yield running
    running.stop()


def waiting(shop: Running, count: int = 1, **using: str) -> list[int]:
    """Jobs that wait, since their queue is paused."""

    async def put(app: Oncue) -> list[int]:
        call = app.find("jobs_publish").using(queue="jobs_paused", **using)
        return [(await call.aenqueue(f"text {number}")).id for number in range(count)]

    return shop.do(put)


def failed(shop: Running, count: int = 1, **using: str) -> list[int]:
    ids = waiting(shop, count, **using)
    shop.do(lambda app: app.jobs.set_status_many(ids, "failed"))
    return ids


def states(shop: Running, ids: list[int]) -> list[State]:
    return [shop.do(lambda app, each=each: app.jobs.get(each)).state for each in ids]  # type: ignore[misc]


def one_id(shop: Running, **wanted: str) -> int:
    return shop.do(lambda app: app.jobs.list(**wanted))[-1].id  # type: ignore[arg-type]


def confirm(page: Page, said: str, shell: str = "") -> None:
    dialog = page.locator("#confirm")
    expect(dialog).to_contain_text(said)
    if shell:
        expect(dialog.locator("code")).to_have_text(shell)
    dialog.get_by_role("button", name="Yes").click()


def row(page: Page, job_id: int) -> object:
    return page.locator(f"#job-{job_id}")


# --- the listing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_the_listing_says_of_each_job_how_it_stands(shop: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shop.url}/jobs", width=width, theme="dark" if width < 900 else "light")
    table = page.locator("table.jobs")
    expect(table.get_by_text("LookupError: row 3 has no column 'amount'")).to_be_visible()
    expect(table.get_by_text("33,611 bytes")).to_be_visible()
    running = table.locator("tr.running").first
    expect(running.get_by_role("progressbar")).to_be_visible()
    expect(running).to_contain_text("40.0 % page 4 of 10")
    expect(table.locator("tr.scheduled").first).to_contain_text("in 1 h 59 min")
    is_accessible(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_filters_are_in_the_address(shop: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shop.url}/jobs", width=width)
    page.get_by_role("link", name="Failed", exact=True).click()
    expect(page).to_have_url(f"{shop.url}/jobs?status=failed")
    expect(page.get_by_role("link", name="Failed", exact=True)).to_have_attribute("aria-current", "page")
    page.get_by_text("Filter", exact=True).first.click()
    page.get_by_label("Task").fill("jobs_import")
    page.get_by_label("cancelled").check()
    page.get_by_label("Made since").fill("-1d")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("table.jobs tbody tr")).to_have_count(3)
    is_accessible(page)
    command = "oncue jobs --status failed,cancelled --task jobs_import --since -1d"
    expect(page.locator("main .command code")).to_have_text(command)
    page.get_by_role("link", name="since -1d ×").click()
    expect(page.locator(".chips a")).to_have_count(2)


def test_what_is_searched_is_found(shop: Running, open_page: Open) -> None:
    job_id = one_id(shop, task="jobs_charge", key="order:7")
    uid = str(shop.do(lambda app: app.jobs.get(job_id)).uid)
    page = open_page(f"{shop.url}/jobs")
    for text, goes_to in (
        (str(job_id), f"/jobs/{job_id}"), (uid, f"/jobs/{uid}"), ("jobs_import", "/jobs?task=jobs_import"),
        ("jobs_paused", "/jobs?queue=jobs_paused"), ("order:7", "/jobs?key=order%3A7"),
    ):  # fmt: skip
        page.goto(f"{shop.url}/jobs")
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{shop.url}{goes_to}")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)


def test_pages_go_on_from_a_job(shop: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAGE", 2)
    ids = waiting(shop, 5, group="pages")
    page = open_page(f"{shop.url}/jobs?group=pages")
    rows = page.locator("table.jobs tbody tr td.ref")
    expect(rows).to_have_text([str(ids[4]), str(ids[3])])
    page.get_by_role("link", name="Older").click()
    expect(rows).to_have_text([str(ids[2]), str(ids[1])])
    page.get_by_role("link", name="Older").click()
    expect(rows).to_have_text([str(ids[0])])
    expect(page.get_by_role("link", name="Older")).to_have_count(0)
    page.get_by_role("link", name="Newest").click()
    expect(rows).to_have_text([str(ids[4]), str(ids[3])])


def test_a_new_job_is_seen_and_ticks_stay(shop: Running, open_page: Open) -> None:
    (first,) = waiting(shop, group="live")
    page = open_page(f"{shop.url}/jobs?group=live")
    page.get_by_label(f"Job {first}").check()
    (second,) = waiting(shop, group="live")
    expect(page.locator(f"#job-{second}")).to_be_visible()
    expect(page.get_by_label(f"Job {first}")).to_be_checked()
    expect(page.get_by_label(f"Job {second}")).not_to_be_checked()
    expect(page.locator("#ticked")).to_contain_text("1 ticked")


@pytest.mark.parametrize("width", WIDTHS)
def test_without_jobs_it_says_what_to_do(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    page = open_page(f"{running.url}/jobs", width=width)
    expect(page.get_by_text("No job yet")).to_be_visible()
    expect(page.locator(".empty code")).to_have_text("oncue enqueue TASK")
    is_accessible(page)
    page.goto(f"{running.url}/jobs?task=nothing")
    expect(page.get_by_text("There is no job with task nothing")).to_be_visible()
    page.goto(f"{running.url}/jobs/all?status=failed")
    expect(page.get_by_text("0 jobs: status failed.")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/jobs?status=lost", "status: expected one of scheduled, queued"),
        ("/jobs?since=yesterday", "since: expected an instant such as"),
        ("/jobs?before=x", "before: expected a whole number"),
        ("/jobs/all?until=%2D", "until: expected an instant such as"),
        ("/jobs/9999999", "There is no job 9999999. Jobs that have ended are deleted after a while"),
        ("/jobs/nightly", "expected an id (a number) or a uid (a UUID)"),
    ],
)
def test_what_is_wrong_is_said(shop: Running, open_page: Open, address: str, said: str) -> None:
    page = open_page(f"{shop.url}{address}")
    expect(page.locator(".problem")).to_contain_text(said)
    assert all("404" in text or "422" in text for text in page.complaints)  # type: ignore[attr-defined]
    page.complaints.clear()  # type: ignore[attr-defined]


# --- many jobs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_ticked_jobs_are_changed(shop: Running, open_page: Open, width: int) -> None:
    group = f"ticked-{width}"
    ids = waiting(shop, 3, group=group)
    page = open_page(f"{shop.url}/jobs?group={group}", width=width)
    for job_id in ids[:2]:
        page.get_by_label(f"Job {job_id}").check()
    bar = page.locator("#ticked")
    bar.get_by_label("Priority").fill("70")
    is_accessible(page)
    bar.get_by_role("button", name="Set").click()
    confirm(page, "Set the priority of 2 ticked jobs to 70?", f"oncue priority {ids[1]} {ids[0]} 70")
    expect(page.locator(".toast")).to_contain_text("2 jobs of 2 given the priority.")
    expect(bar).to_be_hidden()
    assert [shop.do(lambda app, each=each: app.jobs.get(each)).priority for each in ids] == [70, 70, 0]  # type: ignore[misc]

    page.get_by_label(f"Job {ids[0]}").check()
    page.get_by_label(f"Job {ids[2]}").check()
    bar.get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel 2 ticked jobs?")
    expect(page.locator("table.jobs .badge.cancelled")).to_have_count(2)

    for job_id in ids:
        page.get_by_label(f"Job {job_id}").check()
    bar.get_by_role("button", name="Retry").click()
    confirm(page, "Retry 3 ticked jobs?", f"oncue retry {ids[2]} {ids[1]} {ids[0]}")
    expect(page.locator(".toast", has_text="2 jobs of 3 retried.")).to_be_visible()
    expect(page.locator(".toast.error")).to_contain_text(f"job {ids[1]} is queued: only finished jobs are retried")
    assert states(shop, ids) == ["queued"] * 3


def test_all_of_a_page_are_ticked_and_unticked(shop: Running, open_page: Open) -> None:
    waiting(shop, 3, group="all-of-a-page")
    page = open_page(f"{shop.url}/jobs?group=all-of-a-page")
    page.get_by_label("All jobs of this page").check()
    expect(page.locator("#ticked")).to_contain_text("3 ticked")
    page.keyboard.press("Escape")
    expect(page.locator("#ticked")).to_be_hidden()


@pytest.mark.parametrize("width", WIDTHS)
def test_all_that_match_are_retried(
    shop: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """In parts; the page goes on by itself, and tells what was refused."""
    monkeypatch.setattr(job_changes, "PART", 2)
    group = f"all-{width}"
    ids = failed(shop, 4, group=group)
    (held,) = failed(shop, group=group, key=f"held-{width}")
    waiting(shop, key=f"held-{width}")
    page = open_page(f"{shop.url}/jobs?group={group}&status=failed", width=width)
    page.get_by_role("link", name="Change all that match…").click()
    expect(page.get_by_role("region", name="Retry")).to_contain_text(f"5 jobs: status failed, group {group}.")
    is_accessible(page)
    page.get_by_role("button", name="Retry 5 jobs").click()
    confirm(page, f"Retry 5 jobs: status failed, group {group}?", f"oncue retry --status failed --group {group}")
    progress = page.locator("#progress")
    expect(progress).to_contain_text("Done")
    expect(progress).to_contain_text("4 of 5 jobs retried; 1 refused.")
    expect(progress).to_contain_text(f"its key 'held-{width}' is held by job")
    is_accessible(page)
    assert states(shop, [*ids, held]) == ["queued"] * 4 + ["failed"]


def test_a_change_of_very_many_stops_and_goes_on(
    shop: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_changes, "PART", 2)
    monkeypatch.setattr(job_changes, "MOST_IN_A_GO", 4)
    ids = waiting(shop, 6, group="very-many")
    page = open_page(f"{shop.url}/jobs/all?group=very-many")
    page.locator("main input[type=number]").fill("33")
    page.get_by_role("button", name="Set the priority of 6 jobs").click()
    confirm(page, "Set the priority of 6 jobs: status scheduled or queued or running or retrying, group very-many?")
    progress = page.locator("#progress")
    expect(progress).to_contain_text("4 done so far")
    page.get_by_role("button", name="Go on with older jobs").click()
    expect(progress).to_contain_text("6 of 6 jobs given the priority 33; 0 refused.")
    assert [shop.do(lambda app, each=each: app.jobs.get(each)).priority for each in ids] == [33] * 6  # type: ignore[misc]
    page.get_by_role("button", name="Cancel 6 jobs").click()
    confirm(page, "Cancel 6 jobs")
    page.get_by_role("button", name="Go on with older jobs").click()
    expect(progress).to_contain_text("6 of 6 jobs cancelled or asked to stop")
    assert states(shop, ids) == ["cancelled"] * 6


def test_a_retry_of_all_wants_a_status(shop: Running, open_page: Open) -> None:
    page = open_page(f"{shop.url}/jobs/all?task=jobs_import")
    retry = page.get_by_role("region", name="Retry")
    expect(retry.get_by_role("button")).to_have_count(0)
    retry.get_by_role("link", name="failed").click()
    expect(retry.get_by_role("button", name="Retry 3 jobs")).to_be_visible()


# --- one job --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_a_failed_job_in_full(shop: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shop.url}/jobs/{one_id(shop, task='jobs_import')}", width=width, theme="dark")
    expect(page.get_by_role("region", name="Why")).to_contain_text("It is not retried: its task allows no retries")
    expect(page.get_by_role("region", name="Error")).to_contain_text("the file has: id, name")
    expect(page.get_by_role("region", name="Timeline").locator("li")).to_have_count(4)
    expect(page.get_by_role("region", name="Arguments")).to_contain_text('"path": "/data/a.csv"')
    is_accessible(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_attempts_have_their_details(shop: Running, open_page: Open, width: int) -> None:
    job_id = one_id(shop, task="jobs_charge", key="order:7")
    page = open_page(f"{shop.url}/jobs/{job_id}", width=width)
    attempts = page.get_by_role("region", name="Attempts")
    attempts.locator("summary").click()
    expect(attempts).to_contain_text('"status": 503')
    expect(attempts.locator("pre").first).to_contain_text("ConnectionError: the card processor does not answer")
    expect(page.get_by_role("region", name="Facts").get_by_role("link", name="order:7")).to_be_visible()
    is_accessible(page)


def test_what_is_large_is_cut_and_no_text_is_markup(shop: Running, open_page: Open) -> None:
    job_id = one_id(shop, task="jobs_publish")
    page = open_page(f"{shop.url}/jobs/{job_id}")
    arguments = page.get_by_role("region", name="Arguments")
    expect(arguments).to_contain_text("Cut: it has")
    expect(arguments.locator("code", has_text=f"oncue job {job_id} --json")).to_be_visible()
    expect(page.get_by_role("region", name="Result")).to_contain_text("<b>not bold</b>")


def test_relatives_are_linked(shop: Running, open_page: Open) -> None:
    first = one_id(shop, task="jobs_nightly")
    page = open_page(f"{shop.url}/jobs/{first}")
    related = page.get_by_role("region", name="Related")
    expect(related.get_by_role("link", name="jobs_nightly")).to_have_attribute("href", "/schedules/jobs_nightly")
    related.locator("dd", has=page.locator(".badge")).get_by_role("link").click()
    expect(related.get_by_role("link", name=f"job {first}")).to_be_visible()
    expect(page.get_by_role("region", name="Changes by hand")).to_contain_text("None.")
    page.go_back()
    expect(page.get_by_role("region", name="Changes by hand")).to_contain_text("anna job.retry")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_waiting_job_is_changed(shop: Running, open_page: Open, width: int) -> None:
    (job_id,) = waiting(shop)
    page = open_page(f"{shop.url}/jobs/{job_id}", width=width)
    actions, toast = page.get_by_role("region", name="Actions"), page.locator(".toast").last
    expect(actions.get_by_text(f"oncue priority {job_id} PRIORITY")).to_be_visible()
    actions.get_by_label("Priority").fill("42")
    actions.get_by_role("button", name="Set", exact=True).click()
    expect(toast).to_contain_text(f"Job {job_id} has priority 42.")
    actions.get_by_role("button", name="Boost by 10").click()
    expect(toast).to_contain_text(f"Job {job_id} has priority 52.")
    actions.get_by_role("button", name="Set succeeded").click()
    confirm(page, f"Set job {job_id} to succeeded?", f"oncue set-status {job_id} succeeded")
    expect(page.locator(".state-line .badge")).to_have_text("succeeded")
    actions.get_by_role("button", name="Retry").click()
    confirm(page, f"Job {job_id} has succeeded. Run it once more?", f"oncue retry {job_id}")
    expect(page.locator(".state-line .badge")).to_have_text("queued")
    actions.get_by_role("button", name="Cancel").click()
    confirm(page, f"Cancel job {job_id}?", f"oncue cancel {job_id}")
    expect(page.locator(".state-line .badge")).to_have_text("cancelled")
    expect(page.get_by_role("region", name="Changes by hand").locator("li")).to_have_count(5)
    is_accessible(page)


def test_a_running_job_is_asked_to_stop(shop: Running, open_page: Open) -> None:
    job_id = shop.do(lambda app: app.find("jobs_crawl").aenqueue("https://example.net")).id
    page = open_page(f"{shop.url}/jobs/{job_id}")
    expect(page.locator(".state-line")).to_contain_text("40.0 % page 4 of 10")
    page.get_by_role("button", name="Ask to stop").click()
    confirm(page, f"Ask job {job_id} to stop?")
    expect(page.locator(".state-line .badge").first).to_have_text("cancelled")


def test_a_retry_that_makes_another_job_goes_to_it(shop: Running, open_page: Open) -> None:
    first = one_id(shop, task="jobs_nightly")
    page = open_page(f"{shop.url}/jobs/{first}")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("region", name="Related").get_by_role("link", name=f"job {first}")).to_be_visible()
    assert page.url != f"{shop.url}/jobs/{first}"


def test_what_is_refused_says_why(shop: Running, open_page: Open) -> None:
    (job_id,) = waiting(shop)
    page = open_page(f"{shop.url}/jobs/{job_id}")
    page.get_by_label("Priority").evaluate("field => { field.max = '' }")
    page.get_by_label("Priority").fill("101")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator(".toast.error")).to_contain_text("priority: expected a whole number from 0 to 100, not 101")
    assert all("422" in text for text in page.complaints)  # type: ignore[attr-defined]
    page.complaints.clear()  # type: ignore[attr-defined]


# --- who may only read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_a_reader_sees_commands_and_no_buttons(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    app = an_app(sqlite_url, tmp_path)
    story.declare(app)
    running = run(app, access=AccessMode.TOKEN)
    job_id = running.do(lambda app: app.find("jobs_publish").aenqueue("text")).id
    _, token = running.do(lambda app: app.tokens.create("rita", ["read"]))
    page = open_page(f"{running.url}/jobs/{job_id}", width=width)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    actions = page.get_by_role("region", name="Actions")
    expect(actions.get_by_text(f"oncue cancel {job_id}")).to_be_visible()
    expect(actions.locator("form")).to_have_count(0)
    is_accessible(page)
    page.goto(f"{running.url}/jobs")
    expect(page.locator(f"#job-{job_id}")).to_be_visible()
    expect(page.locator("table.jobs input")).to_have_count(0)
    page.goto(f"{running.url}/jobs/all?queue=default")
    expect(page.get_by_role("region", name="Cancel")).to_contain_text("oncue cancel --status")
    expect(page.locator("main form")).to_have_count(0)
