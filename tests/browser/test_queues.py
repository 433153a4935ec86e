"""The pages of queues and workers: what they tell, and every action on a queue and on a group of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from oncue import Oncue
from oncue.model import Queue
from oncue.server.api import AccessMode
from tests.browser import stories
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The story of this page, told once; a worker runs."""
    folder = tmp_path_factory.mktemp("queues")
    app = an_app(f"sqlite:///{folder}/queues.db", folder)
    stories.declare(app, "queues")
    running = Running(app, with_worker=True).start()
    running.do(lambda app: stories.tell(app, "queues"))
    yield running
    running.stop()


def queue_of(running: Running, name: str) -> Queue:
    async def found(app: Oncue) -> Queue:
        return next(queue for queue in await app.queues.list() if queue.name == name)

    return running.do(found)


def row(page: Page, name: str) -> Page:
    return page.locator("tr", has=page.get_by_role("link", name=name, exact=True)).first  # type: ignore[return-value]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_tells_what_is_wrong_first(shown: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shown.url}/queues", width=width)
    names = page.locator(".queues tbody tr td:first-child")
    expect(names.first).to_have_text("queues.letters")
    expect(row(page, "queues.letters")).to_contain_text("by cli:berta")
    expect(row(page, "queues.letters")).to_contain_text("2 groups held back")
    expect(row(page, "queues.orphans")).to_contain_text("no worker")
    expect(row(page, "queues.media")).to_contain_text("40 in all, 50/s")
    worker = page.locator(".workers tbody tr", has_text="queues-media-1")
    expect(worker).to_contain_text("6 of 6")
    expect(worker).to_contain_text("+3")
    expect(worker.locator(".runs a").first).to_have_attribute("href", "/jobs/46")
    expect(page.locator(".gone")).to_contain_text("queues-media-2 was lost")
    is_accessible(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_queue_is_paused_and_resumed(shown: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shown.url}/queues", width=width)
    row(page, "queues.exports").get_by_role("button", name="Pause").click()
    expect(page.locator("#confirm .command")).to_contain_text("oncue queues pause queues.exports")
    page.get_by_role("button", name="Yes").click()
    expect(page.locator(".toast")).to_contain_text("Queue queues.exports is paused until it is resumed")
    assert queue_of(shown, "queues.exports").paused_at is not None
    row(page, "queues.exports").get_by_role("button", name="Resume").click()
    expect(row(page, "queues.exports")).to_contain_text("open")
    assert queue_of(shown, "queues.exports").paused_at is None


@pytest.mark.parametrize("width", WIDTHS)
def test_one_queue_says_why_it_stands(shown: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shown.url}/queues/queues.letters", width=width)
    why = page.get_by_role("region", name="Why", exact=True)
    expect(why).to_contain_text("Queue queues.letters is paused since")
    expect(why).to_contain_text("No live node serves queue queues.letters")
    expect(why).to_contain_text("oncue queues explain queues.letters")
    expect(page.get_by_role("region", name="Pause")).to_contain_text("cli:berta")
    expect(row(page, "tenant:3")).to_contain_text("paused")
    expect(row(page, "tenant:1")).to_contain_text("own")
    is_accessible(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_limits_are_set_and_lifted(shown: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shown.url}/queues/queues.exports", width=width)
    for field, option, value in (("globally", "global", "7"), ("per_node", "node", "3"), ("rate", "rate", "9/s")):
        line = page.locator(".limits li", has=page.locator(f"input[value={field}]"))
        line.get_by_role("textbox").fill(value)
        line.get_by_role("button", name="Set").click()
        toast = page.locator(".toast").last
        expect(toast).to_contain_text(f"is {value} now")
        expect(toast).to_contain_text(f"oncue queues limit --{option} {value} queues.exports")
        expect(line.locator(".what")).to_contain_text(value)
    queue = queue_of(shown, "queues.exports")
    assert (queue.global_limit, queue.node_limit, queue.rate) == (7, 3, "9/s")
    line = page.locator(".limits li", has=page.locator("input[value=rate]"))
    line.get_by_role("button", name="Lift").click()
    expect(line.locator(".what")).to_contain_text("no limit")
    assert queue_of(shown, "queues.exports").rate is None


@pytest.mark.parametrize("width", WIDTHS)
def test_a_group_is_paused_limited_and_resumed(shown: Running, open_page: Open, width: int) -> None:
    page = open_page(f"{shown.url}/queues/queues.letters", width=width)
    page.get_by_role("link", name="tenant:5", exact=True).click()
    group = page.get_by_role("region", name="Group tenant:5")
    is_accessible(page)
    group.get_by_label("For how long").fill("10m")
    group.get_by_role("button", name="Pause the group").click()
    expect(page.locator(".toast").last).to_contain_text("Group tenant:5 of queue queues.letters is paused for 10m")
    expect(group).to_contain_text("Opens")
    expect(group).to_contain_text("local")
    line = group.locator(".limits li", has=page.locator("input[value=per_group]"))
    line.get_by_role("textbox").fill("2")
    line.get_by_role("button", name="Set").click()
    expect(line.locator(".what")).to_contain_text("2")
    group.get_by_role("button", name="Resume the group").click()
    expect(group).to_contain_text("open")
    found = shown.do(lambda app: app.queues.group("queues.letters", "tenant:5"))
    assert (found.limit, found.paused_until) == (2, None)


def test_a_ping_tells_whether_a_worker_takes_jobs(shown: Running, open_page: Open) -> None:
    page = open_page(f"{shown.url}/queues/default")
    page.get_by_role("button", name="Ping").click()
    expect(page.locator("#ping-answer")).to_contain_text("of queue default within")


def test_a_ping_that_no_worker_answers_says_why(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.server.dashboard.queue_actions.PING_SECONDS", 0.2)
    running = run(an_app(sqlite_url, tmp_path))
    running.do(lambda app: app.queues.limit("mail", globally=1))
    page = open_page(f"{running.url}/queues/mail")
    page.get_by_role("button", name="Ping").click()
    expect(page.locator("#ping-answer")).to_contain_text("No worker is alive")


def test_bad_input_is_told_by_the_name_of_its_field(shown: Running, open_page: Open) -> None:
    page = open_page(f"{shown.url}/queues/queues.letters?group=tenant:6")
    group = page.get_by_role("region", name="Group tenant:6")
    group.get_by_label("For how long").fill("soon")
    group.get_by_role("button", name="Pause the group").click()
    expect(page.locator(".toast.error").last).to_contain_text("for: expected a duration")
    line = group.locator(".limits li", has=page.locator("input[value=per_group]"))
    line.get_by_role("textbox").fill("many")
    line.get_by_role("button", name="Set").click()
    expect(page.locator(".toast.error").last).to_contain_text("limit: expected a whole number")
    page.complaints.clear()  # type: ignore[attr-defined]
    page.goto(f"{shown.url}/queues/no-such-queue")
    expect(page.locator("#main")).to_contain_text("a queue begins with its first job")
    page.complaints.clear()  # type: ignore[attr-defined]


def test_many_groups_come_page_by_page(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.server.dashboard.queues.GROUPS", 2)
    running = run(an_app(sqlite_url, tmp_path))

    async def groups(app: Oncue) -> None:
        for name in ("a", "b/c", "d"):
            await app.queues.limit("mail", group=name, per_group=1)

    running.do(groups)
    page = open_page(f"{running.url}/queues/mail")
    expect(page.get_by_role("link", name="b/c")).to_be_visible()
    page.get_by_role("link", name="More groups").click()
    expect(page.get_by_role("link", name="d", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="b/c")).to_be_hidden()


def test_a_queue_whose_name_no_path_can_say(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    running.do(lambda app: app.queues.limit("a/../b", globally=1))
    page = open_page(f"{running.url}/queues")
    page.get_by_role("link", name="a/../b").click()
    expect(page.locator("h1")).to_have_text("a/../b")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_without_queues_and_workers_it_says_what_to_do(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path)).url}/queues", width=width, theme="dark")
    expect(page.get_by_text("A queue begins with its first job.")).to_be_visible()
    expect(page.get_by_text("No worker is alive")).to_be_visible()
    is_accessible(page)


def test_who_may_only_read_sees_commands_and_no_buttons(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)
    running.do(lambda app: app.queues.limit("mail", globally=3))
    _, text = running.do(lambda app: app.tokens.create("reader", ["read"]))
    page = open_page(f"{running.url}/queues/mail")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("mail")
    expect(page.locator("#main form")).to_have_count(0)
    expect(page.get_by_text("oncue queues pause mail", exact=True)).to_be_visible()
    expect(page.get_by_text("oncue queues limit --global 3 mail")).to_be_visible()
    is_accessible(page)
