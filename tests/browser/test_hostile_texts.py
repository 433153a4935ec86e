"""The payloads of tests/dashboard in a real browser: its parser sees the same elements, and nothing of them runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from oncue.server.api import AccessMode
from tests.browser.conftest import Open, Runs
from tests.browser.running import Running
from tests.dashboard.conftest import told  # noqa: F401
from tests.dashboard.hostile import spoiled, with_payloads
from tests.dashboard.kit import Door, without_limit
from tests.dashboard.payloads import harmless, some
from tests.dashboard.test_xss import lockstep, unnamed
from tests.dashboard.told import Told
from tests.server.routes_kept import kept_routes

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


def test_the_browser_sees_the_same_elements_and_nothing_of_them_runs(
    told: Told,  # noqa: F811
    run: Runs,
    open_page: Open,
    tmp_path: Path,
) -> None:
    """Neither as the page is loaded, nor as the stream morphs it: the console stays empty, and no dialog opens."""
    running = []
    for clean in (str, harmless):
        file = Path(shutil.copyfile(told.file, tmp_path / f"{clean.__name__}.db"))
        names = spoiled(file, with_payloads(some, 0, AT_ONCE, clean))
        running.append(run(told.application(file), access=AccessMode.TOKEN))
    wrong, shown = running[0].do(lambda app: _lockstep(told, running, names))
    assert not wrong, "\n".join(wrong)
    page: Any = open_page(f"{running[0].url}/sign-in?next=javascript:alert(1)")
    different: list[str] = page.evaluate(DIFFERENT, [[pair.hostile, *texts] for pair, texts in shown.items()])
    assert not different, "\n".join(different)

    without_limit(running[0].site.dashboard)
    name, session = running[0].do(lambda app: _cookie(running[0]))
    page.context.add_cookies([{"name": name, "value": session, "url": running[0].url}])
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    live = [pair for pair in shown if 'id="live"' in shown[pair][0]]
    for pair in live[:: max(len(live) // MOST_OPENED, 1)]:
        page.goto(f"{running[0].url}{pair.hostile}")
        page.locator("#live-state[data-state=live]").wait_for()
        page.evaluate("document.dispatchEvent(new CustomEvent('oncue:changed'))")
        links = page.evaluate(LINKS)
        assert all(link.startswith(("http://", "https://", "[object")) for link in links), links
    assert not dialogs


async def _lockstep(told: Told, running: list[Running], names: dict[str, str]) -> Any:  # noqa: F811
    """What is shown, asked for in the event loop of the first of them."""
    doors = []
    for one, kept in zip(running, [kept_routes(), kept_routes()], strict=True):
        app = told.application(Path(one.app.settings.database_url.removeprefix("sqlite:///")))
        await told.held_still(app)
        doors.append(Door(app, kept))
    found = await lockstep((doors[0], doors[1]), unnamed(doors[0].pages, told.addresses, names))
    for door in doors:
        await door.client.aclose()
        await door.app.aclose()
    return found


async def _cookie(running: Running) -> tuple[str, str]:
    host = urlsplit(running.url).netloc
    place = running.site.dashboard.entrance.place({"type": "http", "headers": [(b"host", host.encode())]})
    _, token = await running.app.tokens.create("ada", ["admin"])
    started = await running.app.sessions.start(token)
    assert started is not None
    return place.cookie, started[1]
