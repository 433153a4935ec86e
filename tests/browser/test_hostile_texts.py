"""The payloads of tests/dashboard in a real browser: its parser sees the same elements, and nothing of them runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser

from oncue import Oncue
from oncue.server.api import AccessMode
from tests.browser.conftest import Open, Runs
from tests.browser.running import Running
from tests.dashboard.conftest import told  # noqa: F401
from tests.dashboard.hostile import spoiled, with_payloads
from tests.dashboard.kit import without_limit
from tests.dashboard.payloads import PAYLOADS, harmless, some
from tests.dashboard.test_xss import readdressed
from tests.dashboard.told import Told

pytestmark = pytest.mark.timeout(120)
AT_ONCE, MOST_OPENED = 25, 10
DIFFERENT = """pages => pages.flatMap(([address, ...texts]) => {
  const parsed = texts.map(text => new DOMParser().parseFromString(text, "text/html"))
  const [hostile, tame] = parsed.map(page => [...page.querySelectorAll("*")]
    .map(element => [element.tagName, ...element.getAttributeNames().sort()].join(" ")))
  const at = hostile.findIndex((element, place) => element !== tame[place])
  return at < 0 && hostile.length === tame.length ? [] : [`${address}: ${hostile[at]} instead of ${tame[at]}`]
})"""
LINKS = "[...document.querySelectorAll('[href],[src],[action]')].map(e => (e.href || e.src || e.action) + '')"


class Shown(NamedTuple):
    """A dashboard that runs, the cookie of a session there, and the addresses of its pages."""

    running: Running
    cookie: dict[str, str]
    addresses: dict[str, str]

    def texts(self) -> dict[str, str]:
        with httpx.Client(base_url=self.running.url, cookies=self.cookie) as client:
            return {told: client.get(address).text for told, address in self.addresses.items()}


@pytest.fixture
def show(told: Told, run: Runs, tmp_path: Path) -> Callable[[Callable[[str], str]], Shown]:  # noqa: F811
    """Starts the dashboard of the stories with payloads in all texts."""

    def start(clean: Callable[[str], str]) -> Shown:
        file = Path(shutil.copyfile(told.file, tmp_path / f"{clean.__name__}.db"))
        names = spoiled(file, with_payloads(some, 0, AT_ONCE, clean))
        running = run(told.application(file), access=AccessMode.TOKEN)
        running.do(told.held_still)
        without_limit(running.site.dashboard)
        session = running.do(_session)
        host = urlsplit(running.url).netloc
        place = running.site.dashboard.entrance.place({"type": "http", "headers": [(b"host", host.encode())]})
        addresses = {one: readdressed(running.site.dashboard, one, names) for one in told.addresses}
        return Shown(running, {place.cookie: session}, addresses)

    return start


async def _session(app: Oncue) -> str:
    _, token = await app.tokens.create("ada", ["admin"])
    started = await app.sessions.start(token)
    assert started is not None
    return started[1]


def hostile(text: str) -> str:
    return text


def test_the_browser_sees_the_same_elements(show: Callable[..., Shown], browser: Browser) -> None:
    assert len(PAYLOADS) == 100
    texts, tame = show(hostile).texts(), show(harmless).texts()
    page = browser.new_page()
    different: list[str] = page.evaluate(DIFFERENT, [[one, texts[one], tame[one]] for one in texts])
    page.close()
    assert not different, "\n".join(different)


def test_nothing_of_them_runs(show: Callable[..., Shown], open_page: Open) -> None:
    """Neither as the page is loaded, nor as the stream morphs it: the console stays empty, and no dialog opens."""
    shown = show(hostile)
    page: Any = open_page(f"{shown.running.url}/sign-in?next=javascript:alert(1)")
    page.context.add_cookies(
        [{"name": name, "value": text, "url": shown.running.url} for name, text in shown.cookie.items()]
    )
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    step = max(len(shown.addresses) // MOST_OPENED, 1)
    for address in list(shown.addresses.values())[::step]:
        page.goto(f"{shown.running.url}{address}")
        page.locator("#live-state[data-state=live]").wait_for()
        page.evaluate("document.dispatchEvent(new CustomEvent('oncue:changed'))")
        links = page.evaluate(
            "[...document.querySelectorAll('[href],[src],[action]')].map(e => (e.href || e.src || e.action) + '')"
        )
        assert all(link.startswith(("http://", "https://", "[object")) for link in links), links
    assert not dialogs
