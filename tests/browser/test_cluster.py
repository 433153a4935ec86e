"""The cluster and its jobs: nodes, leader, parts, quorum, and every change that an operator can make."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from oncue import Oncue
from oncue.server.api import AccessMode
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running
from tests.browser.stories import cluster as story

pytestmark = pytest.mark.timeout(120)


class Told(NamedTuple):
    """A dashboard over a database that the story has filled."""

    running: Running
    addresses: list[str]

    @property
    def url(self) -> str:
        return self.running.url

    def job(self, task: str, status: str) -> str:
        """The address of the latest cluster job of a task whose job has this state."""
        found = self.running.do(lambda app: app.cluster.list())
        return next(f"{self.url}/cluster/{one.id}" for one in found if (one.job.task, one.job.state) == (task, status))


@pytest.fixture(scope="module")
def told(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("cluster")
    shutil.copyfile(sqlite_template, folder / "oncue.db")
    app = an_app(f"sqlite:///{folder}/oncue.db", folder, drain_timeout="100ms", node_name="cluster-1")
    story.declare(app)
    running = Running(app, with_worker=True).start()
    yield Told(running, running.do(story.tell))
    running.stop()


def says(page: Page, text: str, *, refused: bool = False) -> None:
    """A message says so. The console tells of a refusal, too."""
    toast = page.locator(".toast", has_text=text)
    expect(toast).to_be_visible()
    toast.locator("[data-dismiss]").click()
    if refused:
        forgive(page, "422", "409")


def forgive(page: Page, *statuses: str) -> None:
    complaints: list[str] = page.complaints  # type: ignore[attr-defined]
    assert all(any(status in one for status in statuses) for one in complaints), complaints
    complaints.clear()


def confirm(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.locator("#confirm").get_by_role("button", name="Yes").click()


def region(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def state(page: Page) -> Locator:
    return page.locator("#live > .row .badge").first


def part(page: Page, node: str) -> Locator:
    return region(page, "Parts").locator("tbody tr", has_text=node)


# --- what is seen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_of_the_story_fits(told: Told, open_page: Open, width: int) -> None:
    page = open_page(f"{told.url}/cluster", width=width, theme="dark" if width > 900 else "light")
    for number, address in enumerate(told.addresses):
        page.goto(told.url + address)
        expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} pixels wider than its window"
        if number % 3 == 0:
            is_accessible(page)


def test_nodes_leader_and_what_is_gone(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/cluster")
    own = region(page, "Nodes").locator("tbody tr", has_text="cluster-1")
    expect(own).to_contain_text("leads")
    expect(own).to_contain_text("default, webhooks, cluster")
    expect(own).to_contain_text("1 of 64")
    other = region(page, "Nodes").locator("tbody tr", has_text="cluster-4")
    expect(other).to_contain_text("http://cluster-4.example:8080")
    expect(region(page, "Leader")).to_contain_text("Epoch1 ")
    expect(region(page, "Leader")).to_contain_text("Leads since")
    expect(region(page, "Gone lately")).to_contain_text("cluster-3 was lost")
    rows = region(page, "Cluster jobs").locator("tbody tr")
    expect(rows).to_have_count(7)
    expect(rows.last).to_contain_text("cluster.compact tonight")
    expect(rows.last.locator(".strip .completed")).to_have_count(3)
    expect(rows.last).to_contain_text("3 of 3")


def test_cluster_jobs_are_paged(told: Told, open_page: Open) -> None:
    jobs = told.running.do(lambda app: app.cluster.list())
    page = open_page(f"{told.url}/cluster?before={jobs[-1].id + 1}")
    expect(region(page, "Cluster jobs").locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Newest").click()
    expect(region(page, "Cluster jobs").locator("tbody tr")).not_to_have_count(1)


def test_a_job_that_waits_for_a_quorum(told: Told, open_page: Open) -> None:
    page = open_page(told.job("cluster.warm", "queued"))
    expect(state(page)).to_have_text("running")
    expect(region(page, "Quorum")).to_contain_text("1 of 3 needed")
    expect(region(page, "Quorum").locator("progress")).to_have_attribute("value", "1")
    expect(region(page, "Quorum")).to_contain_text("cluster-2 has failed; cluster-3 is lost")
    expect(region(page, "Time-out").locator("progress")).to_have_attribute("max", "600.0")
    expect(region(page, "Time-out")).to_contain_text("without a quorum: the leader acts without one")
    expect(region(page, "Leader action")).to_contain_text("It begins once the leader has decided.")
    statuses = {"cluster-1": "completed", "cluster-2": "failed", "cluster-3": "lost", "cluster-4": "queued"}
    for node, status in statuses.items():
        expect(part(page, node)).to_contain_text(status)
        expect(page.locator(f".grid-of-parts .{status}", has_text=node)).to_be_visible()
    expect(part(page, "cluster-1")).to_contain_text("5000")
    expect(part(page, "cluster-1").get_by_role("link")).to_have_attribute("href", re.compile(r"^/jobs/\d+$"))
    expect(region(page, "Why")).to_contain_text("The leader cluster-1 waits for a quorum until")
    expect(region(page, "Timeline")).to_contain_text("The leader wrote 4 parts, epoch 1.")


def test_what_a_job_came_to(told: Told, open_page: Open) -> None:
    page = open_page(told.job("cluster.compact", "succeeded"))
    expect(state(page)).to_have_text("completed")
    expect(region(page, "Quorum")).to_contain_text("reached")
    expect(region(page, "Leader action")).to_contain_text("completed")
    expect(region(page, "Leader action").locator("pre")).to_contain_text('"freed_mb": 112')
    expect(part(page, "cluster-1")).to_contain_text('"note": "<b>größer</b>"')
    expect(part(page, "cluster-4")).to_contain_text("yes")
    expect(part(page, "cluster-2")).to_contain_text("no")
    page.goto(told.job("cluster.flush", "failed"))
    expect(region(page, "Quorum")).to_contain_text("not reached")
    expect(region(page, "Leader action")).to_contain_text("the bucket does not answer: <script>alert(1)</script>")
    expect(region(page, "Timeline")).to_contain_text("The leader decided to act, without a quorum, epoch 1.")
    page.goto(told.job("cluster.warm", "failed"))
    expect(page.locator("#live > .row")).to_contain_text("parts_failed")
    expect(region(page, "Leader action")).to_contain_text("It ended before the leader acted.")
    page.goto(told.job("cluster.rotate", "succeeded"))
    expect(region(page, "Quorum")).to_contain_text("on the leader alone")
    expect(region(page, "Leader action")).to_contain_text("cluster-1 has rotated the keys")


def test_what_is_not_there_is_said(told: Told, open_page: Open) -> None:
    part_job = told.running.do(lambda app: app.cluster.list())[-1].parts[0].job_id
    page = open_page(f"{told.url}/cluster/{part_job}")
    expect(page.get_by_text("is no cluster job: it is a part of job")).to_be_visible()
    page.goto(f"{told.url}/cluster/zzz")
    expect(page.get_by_text("there is no job 'zzz'")).to_be_visible()
    page.goto(f"{told.url}/cluster?before=x")
    expect(page.get_by_text("before: expected a whole number")).to_be_visible()
    forgive(page, "404", "422")


# --- what is changed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cluster_task_is_run_seen_live_cancelled_and_run_again(told: Told, open_page: Open, width: int) -> None:
    page = open_page(f"{told.url}/cluster", width=width)
    page.locator("select[name=task]").select_option("cluster.reindex")
    page.get_by_label("Arguments").fill("{broken")
    page.get_by_role("button", name="Run", exact=True).click()
    says(page, "args: expected JSON", refused=True)
    page.get_by_label("Arguments").fill('{"chair": "orders"}')
    page.get_by_role("button", name="Run", exact=True).click()
    says(page, "missing a required argument", refused=True)
    page.get_by_label("Arguments").fill('{"table": "orders"}')
    page.get_by_role("checkbox", name="cluster-2").check()
    page.get_by_label("Key").fill(f"key-{width}")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/cluster/*")
    expect(page.locator("h1")).to_contain_text("cluster.reindex")
    expect(region(page, "Parts").locator("tbody tr")).to_have_count(1)
    expect(state(page)).to_have_text("queued")
    number = int(page.url.rpartition("/")[2])

    page.goto(f"{told.url}/cluster")
    page.locator("select[name=task]").select_option("cluster.reindex")
    page.get_by_label("Arguments").fill('{"table": "orders"}')
    page.get_by_label("Key").fill(f"key-{width}")
    page.get_by_role("button", name="Run", exact=True).click()
    says(page, f"job {number} of the cluster task 'cluster.reindex' has the same key", refused=True)

    page.goto(f"{told.url}/cluster/{number}")
    expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
    told.running.do(lambda app: story.set_part(app, number, "cluster-2", "success"))
    expect(state(page)).to_have_text("completed")
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url(lambda url: "/cluster/" in url and not url.endswith(f"/{number}"))
    expect(region(page, "Parts").locator("tbody tr")).to_have_count(1)
    confirm(page, "Cancel")
    says(page, "is cancelled")
    expect(state(page)).to_have_text("cancelled")
    expect(part(page, "cluster-2")).to_contain_text("cancelled")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_queue_is_pinged(told: Told, open_page: Open, width: int) -> None:
    page = open_page(f"{told.url}/cluster", width=width)
    page.get_by_role("button", name="Ping").click()
    says(page, "cluster-1 ran job")
    page.locator("select[name=address]").select_option("node:cluster-4")
    page.get_by_label("Wait at most").fill("soon")
    page.get_by_role("button", name="Ping").click()
    says(page, "timeout: expected a duration", refused=True)
    page.get_by_label("Wait at most").fill("100ms")
    page.get_by_role("button", name="Ping").click()
    says(page, "No worker ran job")


def test_without_a_node_the_page_says_what_to_do(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    app = an_app(sqlite_url, tmp_path)

    @app.cluster_task
    async def compact() -> None:
        pass

    running = run(app)
    page = open_page(f"{running.url}/cluster", width=390)
    expect(page.get_by_text("No node is alive")).to_be_visible()
    expect(page.get_by_text("No cluster job yet")).to_be_visible()
    expect(region(page, "Leader")).to_contain_text("No node leads")
    is_accessible(page)
    page.get_by_role("button", name="Run", exact=True).click()  # a web process hands its wish to the leader to come
    page.wait_for_url("**/cluster/*")
    expect(state(page)).to_have_text("new")
    expect(region(page, "Quorum")).to_contain_text("It waits for a leader, which writes its parts.")
    is_accessible(page)


def test_a_read_only_visitor_sees_commands_and_no_buttons(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    app = an_app(sqlite_url, tmp_path)

    @app.cluster_task
    async def compact() -> None:
        pass

    running = run(app, access=AccessMode.TOKEN)

    async def made(app: Oncue) -> int:
        return (await app.cluster.run("compact", timeout=0)).id

    number = running.do(made)
    _, text = running.do(lambda app: app.tokens.create("anna", ["read"]))
    page = open_page(f"{running.url}/cluster")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Cluster")
    for address, commands in {
        "/cluster": ("oncue cluster run compact", "oncue ping --queue default"),
        f"/cluster/{number}": (f"oncue cancel {number}", f"oncue cluster show --watch {number}"),
    }.items():
        page.goto(running.url + address)
        for command in commands:
            expect(page.locator("code", has_text=command)).to_be_visible()
        assert page.locator("main button:not([data-copy]), main form").count() == 0
