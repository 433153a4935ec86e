"""Webhooks and executions: what an operator sees of them, and every change that he can make."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from oncue import Oncue
from oncue.model import Receipt
from oncue.server.api import AccessMode
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.running import Running
from tests.browser.stories import webhooks as story

pytestmark = pytest.mark.timeout(120)

SECRET = "nobody-may-see-this"


class Told(NamedTuple):
    """A dashboard over a database that the story has filled."""

    running: Running
    addresses: list[str]

    @property
    def url(self) -> str:
        return self.running.url

    def execution(self, endpoint: str) -> str:
        """The address of the latest execution of an endpoint."""
        (job,) = self.running.do(lambda app: app.jobs.list(group=endpoint, limit=1))
        return f"{self.url}/executions/{job.uid}"


@pytest.fixture(scope="module")
def told(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("webhooks")
    shutil.copyfile(sqlite_template, folder / "oncue.db")
    app = an_app(f"sqlite:///{folder}/oncue.db", folder, drain_timeout="100ms")
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


def state(page: Page) -> Locator:
    """The badge that says how it is with what the page shows."""
    return page.locator("#live > .row .badge").first


# --- what is seen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_of_the_story_fits_and_keeps_secrets(told: Told, open_page: Open, width: int) -> None:
    page = open_page(f"{told.url}/webhooks", width=width, theme="light" if width > 900 else "dark")
    kinds = set()
    for address in told.addresses:
        page.goto(told.url + address)
        expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
        assert SECRET not in page.content(), address
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} pixels wider than its window"
        kind = address.split("?")[0].split("/")[1:]
        if (kind[0], len(kind)) not in kinds:
            is_accessible(page)
            kinds.add((kind[0], len(kind)))


def test_the_list_shows_what_is_wrong_first(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/webhooks")
    opened = page.get_by_role("region", name="Open circuit breakers")
    expect(opened).to_contain_text(f"open{story.DOWN}trip 5, next probe in")
    row = page.locator("tr", has_text=story.ORDERS)
    expect(row).to_contain_text("POST https://erp.example/hooks/orders")
    expect(row).to_contain_text("enabled")
    expect(row).to_contain_text("0 of 20")
    expect(row).to_contain_text("50/s")
    expect(row.locator(".strip a.succeeded")).to_have_count(8)
    expect(page.locator("tr", has_text="webhooks-paused")).to_contain_text("paused ends in")
    expect(page.locator("tr", has_text="webhooks-disabled")).to_contain_text("disabled")
    row.locator(".strip a").last.click()
    expect(page.locator("h1")).to_contain_text("Execution")


def test_a_webhook_with_its_ladder_its_facts_and_its_schedules(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/webhooks/{story.ORDERS}")
    rungs = page.locator(".ladder li")
    expect(rungs).to_have_count(4)
    expect(rungs.nth(0)).to_contain_text("at once")
    expect(rungs.nth(3)).to_contain_text("+12m30s")
    expect(rungs.nth(3)).to_contain_text("10m after the one before")
    facts = page.get_by_role("region", name="Facts")
    expect(facts).to_contain_text("Authorization: (hidden)")
    expect(facts).to_contain_text("not signed")
    expect(page.get_by_role("region", name="Schedules")).to_contain_text("webhooks-nightly")
    expect(page.get_by_role("link", name="As jobs")).to_have_attribute(
        "href", f"/jobs?queue=webhooks&group={story.ORDERS}"
    )


def test_secrets_are_shown_as_references_or_as_set(told: Told, open_page: Open) -> None:
    secret = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="
    told.running.do(
        lambda app: app.webhooks.create(
            "signed", url="https://erp.example/", secrets=["env:ONCUE_SECRET_NEW", secret], enabled=False
        )
    )
    page = open_page(f"{told.url}/webhooks/signed")
    facts = page.get_by_role("region", name="Facts")
    expect(facts).to_contain_text("env:ONCUE_SECRET_NEW")
    expect(facts).to_contain_text("set (")
    assert secret not in page.content()
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("keep")).to_have_count(2)
    assert secret not in page.content()
    page.get_by_label("keep env:ONCUE_SECRET_NEW").uncheck()
    page.get_by_label("Further secrets").fill("env:ONCUE_SECRET_NEWEST")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/webhooks/signed")
    found = told.running.do(lambda app: app.webhooks.get("signed"))
    assert found.secrets == ("env:ONCUE_SECRET_NEWEST", secret)


def test_an_open_breaker_says_when_the_probe_goes_and_sends_it_now(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/webhooks/{story.DOWN}")
    notice = page.locator(".breaker")
    expect(notice).to_contain_text("The circuit breaker is open, trip 5.")
    expect(notice).to_contain_text("if the probe fails, nothing is sent for 10m")
    expect(notice).to_contain_text(f"oncue webhooks resume {story.DOWN}")
    notice.get_by_role("button", name="Send the probe now").click()
    says(page, "is resumed")
    expect(notice).to_contain_text("trip 6")


def test_an_execution_shows_its_attempts_its_request_and_why(told: Told, open_page: Open) -> None:
    page = open_page(told.execution("webhooks-busy"))
    expect(page.locator(".ladder li")).to_have_count(4)
    expect(page.locator(".ladder .failed")).to_contain_text("503")
    expect(page.locator(".ladder .next")).to_contain_text("in ")
    attempt = page.locator(".attempt")
    expect(attempt).to_contain_text("192.0.2.7")
    expect(attempt.locator("pre")).to_have_text('{"error": "we are busy, come back later"}')
    expect(page.get_by_role("region", name="Request").locator("pre")).to_have_text('{"order":1}')
    expect(page.get_by_role("region", name="Why")).to_contain_text("The next one is due at")
    expect(page.get_by_role("link", name="As a job")).to_be_visible()


def test_the_response_of_an_endpoint_is_text(told: Told, open_page: Open) -> None:
    page = open_page(told.execution("webhooks-strict"))
    expect(page.locator(".attempt pre")).to_contain_text("<b>see the manual</b>")
    assert page.locator(".attempt pre b").count() == 0


def test_a_delivery_to_a_url_without_a_webhook(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/executions?endpoint={quote(story.PARTNER_ENDPOINT, safe='')}")
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("delivered")
    row.locator("a").first.click()
    expect(page.locator(".request")).to_have_text(f"POST {story.PARTNER}")
    expect(page.get_by_role("region", name="Facts")).to_contain_text(story.PARTNER_ENDPOINT)


def test_executions_are_filtered_and_paged(told: Told, open_page: Open) -> None:
    async def deliver(app: Oncue) -> list[Receipt]:
        await app.webhooks.create("many", url="https://erp.example/many")
        await app.webhooks.pause("many")
        return [await app.webhooks.deliver("many", {"number": number}) for number in range(25)]

    told.running.do(deliver)
    page = open_page(f"{told.url}/webhooks/many")
    expect(page.locator("tbody tr")).to_have_count(20)
    page.get_by_role("link", name="Older").click()
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_role("link", name="delivered").click()
    expect(page.get_by_text("No execution matches")).to_be_visible()
    page.get_by_role("link", name="emitted").click()
    expect(page.locator("tbody tr")).to_have_count(20)
    assert page.url.endswith("?status=emitted")


def test_a_name_that_no_path_could_say(told: Told, open_page: Open) -> None:
    told.running.do(lambda app: app.webhooks.create("a/../b", url="https://erp.example/odd"))
    page = open_page(f"{told.url}/webhooks")
    page.get_by_role("link", name="a/../b").click()
    expect(page.locator("h1")).to_have_text("a/../b")
    expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
    page.get_by_role("link", name="Edit").click()
    expect(page.locator("h1")).to_have_text("Edit a/../b")
    page.get_by_label("Description").fill("odd")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("odd", exact=True)).to_be_visible()


def test_a_query_that_cannot_be_meant_is_named(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/executions?status=lost")
    expect(page.get_by_text("status: expected one of emitted, delivered, failed, not 'lost'")).to_be_visible()
    page.goto(f"{told.url}/executions?before=-7")
    expect(page.get_by_text("before: expected a whole number")).to_be_visible()
    page.goto(f"{told.url}/webhooks/nothing")
    expect(page.get_by_text("there is no webhook 'nothing'")).to_be_visible()
    page.goto(f"{told.url}/executions/zzz")
    expect(page.get_by_text("there is no job 'zzz'")).to_be_visible()
    forgive(page, "422", "404")


# --- what is changed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_a_webhook_from_its_making_to_its_end(told: Told, open_page: Open, width: int) -> None:
    name = f"made-{width}"
    page = open_page(f"{told.url}/webhooks", width=width)
    page.get_by_role("link", name="New webhook").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("URL").fill("http://127.0.0.1/")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("[name=url]")).to_be_focused()
    says(page, "Nothing was changed. url: http://127.0.0.1:80 is a loopback address", refused=True)
    page.get_by_label("URL").fill("https://erp.example/made")
    page.get_by_label("Waits before").fill("soon")
    page.get_by_role("button", name="Make it").click()
    says(page, "retry: ", refused=True)
    page.get_by_label("Waits before").fill("1s, 2s")
    page.get_by_label("Headers").fill(f"X-Key: {SECRET}\nAccept: text/plain")
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url(f"**/webhooks/{name}")
    expect(page.locator(".ladder li")).to_have_count(3)
    assert SECRET not in page.content()
    expect(page.get_by_text("Nothing was delivered yet")).to_be_visible()

    page.get_by_label("For how long").fill("soon")
    page.get_by_role("button", name="Pause").click()
    says(page, "for: expected a duration", refused=True)
    page.get_by_label("For how long").fill("2h")
    page.get_by_role("button", name="Pause").click()
    says(page, f"{name} is paused for 2h")
    expect(state(page)).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    says(page, f"{name} is resumed")
    expect(state(page)).to_have_text("enabled")
    page.get_by_label("Share:").fill("7")
    page.get_by_label("Rate:").fill("often")
    page.get_by_role("button", name="Limit").click()
    says(page, "rate: expected", refused=True)
    page.get_by_label("Rate:").fill("20/min")
    page.get_by_role("button", name="Limit").click()
    says(page, f"The limits of {name} are set.")
    expect(page.locator(".figures")).to_contain_text("of a share of 7")
    expect(page.locator(".figures")).to_contain_text("20/min")
    confirm(page, "Disable")
    says(page, f"{name} is disabled")
    expect(state(page)).to_have_text("disabled")
    page.get_by_role("button", name="Enable").click()
    says(page, f"{name} is enabled")

    page.get_by_label("Payload").fill("{broken")
    page.get_by_role("button", name="Deliver").click()
    says(page, "payload: expected JSON", refused=True)
    page.get_by_label("Payload").fill('{"order": 7, "text": "<i>größe</i>"}')
    page.get_by_role("button", name="Deliver").click()
    page.wait_for_url("**/executions/*")
    expect(state(page)).to_have_text("delivered")
    expect(page.get_by_role("region", name="Request").locator("pre")).to_have_text('{"order":7,"text":"<i>größe</i>"}')
    first = page.url
    page.get_by_role("button", name="Replay").click()
    page.wait_for_url(lambda url: "/executions/" in url and url != first)
    expect(page.get_by_role("region", name="Facts")).to_contain_text("Repeats")

    page.goto(f"{told.url}/webhooks/{name}")
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Headers")).to_have_value("X-Key: (hidden)\nAccept: text/plain")
    page.get_by_label("Headers").fill("X-Key: (hidden)\nX-More: (hidden)")
    page.get_by_role("button", name="Save").click()
    says(page, "headers: the value of X-More: expected the value itself", refused=True)
    page.get_by_label("Headers").fill("X-Key: (hidden)")
    page.get_by_label("URL").fill("https://erp.example/changed")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/webhooks/{name}")
    changed = told.running.do(lambda app: app.webhooks.get(name))
    assert (changed.url, dict(changed.headers)) == ("https://erp.example/changed", {"X-Key": SECRET})
    assert changed.retry == told.running.do(lambda app: app.webhooks.get(name)).retry

    confirm(page, "Delete")
    page.wait_for_url("**/webhooks")
    expect(page.get_by_role("link", name=name)).to_have_count(0)
    page.goto(f"{told.url}/executions?endpoint={name}")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_an_edit_on_top_of_another_is_refused(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/edit-webhook/webhooks-idle")
    told.running.do(lambda app: app.webhooks.change("webhooks-idle", description="by somebody else"))
    page.get_by_label("Description").fill("mine")
    page.get_by_role("button", name="Save").click()
    says(page, "was changed by others meanwhile", refused=True)


def test_an_execution_is_replayed_from_a_list_and_one_that_waits_is_cancelled(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/executions?endpoint={story.ORDERS}")
    rows = page.locator("tbody tr")
    before = rows.count()
    rows.first.get_by_role("button", name="Replay").click()
    says(page, "it repeats execution")
    expect(rows).to_have_count(before + 1)
    page.goto(told.execution("webhooks-paused"))
    confirm(page, "Cancel")
    says(page, "is cancelled")
    expect(state(page)).to_have_text("failed")


def test_what_code_declares_is_changed_there(told: Told, open_page: Open) -> None:
    page = open_page(f"{told.url}/webhooks/webhooks-heartbeat")
    expect(page.get_by_text("declares it in code")).to_be_visible()
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_label("Payload").fill("7")
    page.get_by_role("button", name="Deliver").click()
    says(page, "payload: expected none", refused=True)


def test_empty_pages_say_what_to_do(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    page = open_page(f"{running.url}/webhooks", width=390)
    expect(page.get_by_text("No webhook yet")).to_be_visible()
    expect(page.locator(".empty code")).to_have_text("oncue webhooks add --url https://example.com/hook NAME")
    is_accessible(page)
    page.goto(f"{running.url}/executions")
    expect(page.get_by_text("Nothing was delivered yet")).to_be_visible()
    is_accessible(page)


def test_a_read_only_visitor_sees_commands_and_no_buttons(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path
) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)
    running.do(lambda app: app.webhooks.create("orders", url="https://erp.example/"))
    receipt = running.do(lambda app: app.webhooks.deliver("orders", {"order": 1}))
    _, text = running.do(lambda app: app.tokens.create("anna", ["read"]))
    page = open_page(f"{running.url}/webhooks/orders")
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("orders")
    for address in ("/webhooks/orders", "/webhooks", f"/executions/{receipt.uid}", "/executions"):
        page.goto(running.url + address)
        expect(page.locator("#live-state")).to_have_attribute("data-state", "live")
        assert page.locator("main button:not([data-copy]), main form").count() == 0, address
    page.goto(f"{running.url}/webhooks/orders")
    for command in ("pause --for 10m orders", "disable orders", "remove orders", "deliver --payload"):
        expect(page.locator("code", has_text=f"oncue webhooks {command}")).to_be_visible()
    page.goto(f"{running.url}/new-webhook")
    expect(page.get_by_text("has not the scope operate")).to_be_visible()
    forgive(page, "403")
