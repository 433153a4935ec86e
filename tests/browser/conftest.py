"""A real browser on a real dashboard. Every page that a test opens must be free of errors in its console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from oncue import Oncue
from oncue.settings import load
from tests import postgres
from tests.browser.running import Running

FLAGS = [
    "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--no-first-run", "--disable-sync", "--disable-default-apps",
]  # fmt: skip
WIDTHS = (1280, 390)
MISSING = "a Chromium is needed: `apt-get install chromium` (`make test` does it as root)"

Open = Callable[..., Page]
Runs = Callable[..., Running]


@pytest.fixture(autouse=True)
def runner() -> None:
    """Tests with a browser have no event loop of their own: the browser's is in their thread."""


@pytest.fixture(scope="module")
def browser(sqlite_template: Path, postgres_server: postgres.Server, worker_database: str) -> Iterator[Browser]:
    """One for each module. While it runs, its thread can run no other event loop: so databases are started first."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert program is not None, MISSING
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def run() -> Iterator[Runs]:
    """Start a dashboard; it stops with the test."""
    started: list[Running] = []

    def start(app: Oncue, **options: Any) -> Running:
        started.append(Running(app, **options).start())
        return started[-1]

    yield start
    for running in started:
        running.stop()


def is_complaint(told: ConsoleMessage) -> bool:
    """What says that something went wrong. A preview that a newer one replaces, htmx calls an error too."""
    return told.type in ("error", "warning") and not told.text.startswith(("htmx:sendAbort", "htmx:afterRequest"))


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open an address in a window of its own. At the end its console must be empty but for what the test expects."""
    opened: list[tuple[Any, list[str]]] = []

    def open_at(url: str, *, width: int = 1280, theme: str = "light", zone: str = "UTC", **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            timezone_id=zone,
            **options,  # type: ignore[arg-type]
        )
        context.set_default_timeout(10_000)
        complaints: list[str] = []
        page = context.new_page()
        page.on("console", lambda told: complaints.append(told.text) if is_complaint(told) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        opened.append((context, complaints))
        page.complaints = complaints  # type: ignore[attr-defined]
        page.goto(url)
        return page

    yield open_at
    for context, complaints in opened:
        context.close()
        assert not complaints, complaints


def an_app(url: str, folder: Path, **settings: Any) -> Oncue:
    """An application with settings of its own. What still runs when it stops is given back soon."""
    return Oncue(settings=load({"database_url": url, "drain_timeout": "1s", **settings}, environment={}, folder=folder))


def is_accessible(page: Page) -> None:
    """No serious or critical finding of axe-core, and nothing that is wider than the window."""
    found = [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert not found, found
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} pixels wider than its window"
