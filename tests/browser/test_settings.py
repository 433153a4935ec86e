"""Settings, the doctor, tokens and sessions."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from oncue import Oncue
from oncue.doctor.effective import value_of
from oncue.doctor.findings import Check
from oncue.server.api import AccessMode
from oncue.server.api.problems import Problem
from oncue.server.dashboard.settings import Doctor, verdict
from oncue.settings import load
from tests.browser.conftest import WIDTHS, Open, Runs, an_app, is_accessible
from tests.browser.stories.settings import make_tokens

pytestmark = pytest.mark.timeout(60)


def sign_in(page: Page, text: str) -> None:
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#live-state")).to_be_visible()


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_set_and_where_it_comes_from(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int, theme: str
) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path, concurrency=7)).url}/settings", width=width, theme=theme)
    row = page.locator(".settings tbody tr", has_text="concurrency")
    expect(row).to_contain_text("7")
    expect(row).to_contain_text("--concurrency")
    expect(page.get_by_role("region", name="This process")).to_contain_text(sqlite3.sqlite_version)
    is_accessible(page)
    page.get_by_role("link", name="All settings").click()
    expect(page.locator(".settings tbody tr", has_text="session_lifetime")).to_contain_text("12h")
    is_accessible(page)
    page.get_by_label("Setting", exact=True).fill("no-such-setting")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No setting has")).to_be_visible()


def test_no_password_is_shown() -> None:
    settings = load(
        {
            "database_url": "postgresql://ada:s3cr3t@db.example/shop?password=s3cr3t", "redis_url": "redis://:s3cr3t@r/0",
            "alert_webhook": "https://hooks.example/services/s3cr3t?token=s3cr3t",
        },
        environment={}, folder=Path("/nowhere"),
    )  # fmt: skip
    shown = {name: value_of(settings, name) for name in settings.names()}
    assert "s3cr3t" not in str(shown)
    assert shown["database_url"] == "postgresql://ada:***@db.example/shop?password=***"
    assert shown["alert_webhook"] == "https://hooks.example/***"
    assert shown["max_runtime"] == "1h"


# --- the doctor -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_the_doctor_runs_when_it_is_asked_to(
    run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int
) -> None:
    running = run(an_app(sqlite_url, tmp_path))
    page = open_page(f"{running.url}/settings/doctor", width=width)
    expect(page.get_by_text("The doctor has not run in this process yet")).to_be_visible()
    page.get_by_role("button", name="Run the doctor").click()
    nodes = page.locator(".doctor tbody tr", has_text="no node is alive")
    expect(nodes).to_contain_text("start one with `oncue worker`")
    expect(page.locator(".doctor tbody tr", has=page.get_by_text("database", exact=True))).to_contain_text("answers")
    is_accessible(page)
    running.do(lambda app: app.queues.pause("mail"))
    page.get_by_role("button", name="Run the doctor again").click()
    expect(page.locator(".doctor tbody tr", has_text="paused: mail")).to_be_visible()


def test_one_doctor_at_a_time(run: Runs, sqlite_url: str, tmp_path: Path) -> None:
    async def both(app: Oncue) -> None:
        doctor = Doctor()
        first = asyncio.ensure_future(doctor.examine(app))
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="at work already"):
            await doctor.examine(app)
        assert (await first).checks
        assert await doctor.examine(app) == doctor.latest

    run(an_app(sqlite_url, tmp_path)).do(both)


def test_a_verdict() -> None:
    ok, warn, fail = (Check("a", status, "") for status in ("ok", "warn", "fail"))
    assert verdict([ok]) == "All is well."
    assert verdict([ok, warn, warn]) == "2 warnings."
    assert verdict([warn, fail]) == "1 check failed."


# --- tokens and sessions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_tokens_and_sessions(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path, width: int) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)
    page = open_page(f"{running.url}/settings/access", width=width)
    sign_in(page, running.do(make_tokens))
    expect(page.locator("tr", has_text="settings-shop").first).to_contain_text("read, enqueue")
    expect(page.locator("tr", has_text="settings-old-deploy")).to_contain_text("revoked")
    expect(page.locator("tr", has_text="settings-expired").first).to_contain_text("expired")
    is_accessible(page)

    page.get_by_label("Whose it is").fill("ada <b>")
    page.get_by_label("enqueue").check()
    page.get_by_label("Expires after").fill("90d")
    page.get_by_role("button", name="Make the token").click()
    text = page.locator("#new-token .secret code").inner_text()
    token = running.do(lambda app: app.tokens.authenticate(text))
    assert token is not None
    assert (token.name, token.scopes) == ("ada <b>", ("read", "enqueue"))
    made = page.locator("tr", has_text="ada <b>")
    expect(made).to_contain_text("settings-admin#")
    is_accessible(page)

    made.get_by_role("button", name="Revoke").click()
    expect(page.locator("#confirm .command")).to_contain_text(f"oncue token revoke {token.id}")
    page.get_by_role("button", name="Yes").click()
    expect(made).to_contain_text("revoked")
    assert running.do(lambda app: app.tokens.authenticate(text)) is None
    expect(page.locator("#new-token .secret")).to_have_count(0)

    sessions = page.locator("tr", has=page.get_by_role("button", name="End"))
    expect(sessions).to_have_count(3)
    shop = sessions.filter(has_text="settings-shop")
    shop.first.get_by_role("button", name="End").click()
    page.get_by_role("button", name="Yes").click()
    expect(sessions).to_have_count(2)
    assert len(running.do(lambda app: app.sessions.list())) == 2
    page.reload()
    assert text not in page.content()


def test_bad_input_for_a_token(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    page = open_page(f"{run(an_app(sqlite_url, tmp_path)).url}/settings/access")
    expect(page.get_by_text("There is no token yet, so this machine may do everything")).to_be_visible()
    expect(page.get_by_label("admin")).to_be_checked()
    is_accessible(page)
    page.get_by_label("Whose it is").fill("shop")
    page.get_by_label("admin").uncheck()
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator(".toast.error").last).to_contain_text("scopes: expected some of read, enqueue")
    page.get_by_label("enqueue").check()
    page.get_by_label("Expires after").fill("soon")
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator(".toast.error").last).to_contain_text("expires: expected a duration")
    page.complaints.clear()  # type: ignore[attr-defined]


def test_who_may_only_read_sees_no_tokens(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)
    _, text = running.do(lambda app: app.tokens.create("reader-of-pages", ["read"], expires="1h"))
    page = open_page(f"{running.url}/settings")
    sign_in(page, text)
    expect(page.get_by_role("link", name="Tokens and sessions")).to_have_count(0)
    page.goto(f"{running.url}/settings/doctor")
    expect(page.locator("#main form")).to_have_count(0)
    expect(page.get_by_text("oncue doctor", exact=True)).to_be_visible()
    page.goto(f"{running.url}/settings/access")
    expect(page.locator("#main")).to_contain_text("has not the scope `admin`")
    assert "reader-of-pages" not in page.content()
    page.complaints.clear()  # type: ignore[attr-defined]


def test_the_findings_about_tokens_are_for_admins(run: Runs, open_page: Open, sqlite_url: str, tmp_path: Path) -> None:
    running = run(an_app(sqlite_url, tmp_path), access=AccessMode.TOKEN)

    async def made(app: Oncue) -> list[str]:
        return [(await app.tokens.create(name, [name], expires="1h"))[1] for name in ("operate", "admin")]

    operator, admin = running.do(made)
    page = open_page(f"{running.url}/settings/doctor")
    sign_in(page, operator)
    page.get_by_role("button", name="Run the doctor").click()
    expect(page.locator(".doctor tbody tr", has=page.get_by_text("nodes", exact=True))).to_be_visible()
    expect(page.get_by_text("the next to expire")).to_have_count(0)
    other = open_page(f"{running.url}/settings/doctor")
    sign_in(other, admin)
    expect(other.get_by_text("the next to expire")).to_be_visible()
