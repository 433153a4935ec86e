"""The dashboard beside the demo: it tells the story that the terminal tells, and ends with it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from oncue.app import Oncue
from oncue.cli.demo.story import Story
from oncue.cli.process import Front
from oncue.server import address
from oncue.server.dashboard.telling import Telling, ToldEvent, ToldFigure
from oncue.server.site import Site, site

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from oncue.server.api import AccessMode
    from oncue.server.health import Readiness

LAST_LOOK_SECONDS = 2.5
"""So long an open tab is given to show the end: a little more than it takes until a page is read again."""
COLOURS = {"[red]": "lost", "[yellow]": "warn", "[green]": "ok"}


class DemoPage:
    """A server for the dashboard, in the process of the demo."""

    def __init__(self, app: Oncue, listening: socket.socket) -> None:
        self.story: Story | None = None
        self._site: Site | None = None
        self._front = Front(app, listening, with_api=True, make_api=self._made)
        self.url = self._front.url

    def _made(self, app: Oncue, readiness: Readiness, registry: CollectorRegistry, access: AccessMode) -> Site:
        self._site = site(app, readiness, registry, access)
        self._site.dashboard.telling = lambda: None if self.story is None else told(self.story)
        return self._site

    async def open(self) -> None:
        await self._front.open()

    async def show_end(self) -> None:
        """Give open tabs the time to show how it ended."""
        if self._site is not None and self._site.dashboard.broadcaster.listeners:
            await asyncio.sleep(LAST_LOOK_SECONDS)

    async def close(self) -> None:
        await self._front.close()


@asynccontextmanager
async def beside(app: Oncue) -> AsyncIterator[DemoPage | None]:
    """The dashboard; None on a host where nothing can listen."""
    listening = _listening()
    if listening is None:
        yield None
        return
    page = DemoPage(app, listening)
    try:
        await page.open()
        yield page
    finally:
        await page.close()


def _listening() -> socket.socket | None:
    """At the usual address; at another port if that is taken."""
    usual = address.parse(address.DEFAULT)
    for port in (usual.port, 0):
        try:
            return address.listen(address.ListenAddress(usual.host, port))
        except address.CannotListen:
            continue
    return None


def told(story: Story) -> Telling:
    moment, is_over = story.moment, story.account is not None
    figures = [
        ToldFigure("Enqueued", len(story.acknowledged), "acknowledged"),
        ToldFigure("Done", moment.done, "at the end" if is_over else "so far"),
        ToldFigure("Retried", moment.retried, "attempts that failed on purpose"),
        ToldFigure("Cut short", moment.cut_short, "by the kill; other workers picked them up"),
        ToldFigure("Lost", story.lost, "acknowledged, and not done" if is_over else "acknowledged, and not there",
                   "bad" if story.lost else ""),
        ToldFigure("Settled twice", story.settled_twice, "as a trigger of the database saw it",
                   "bad" if story.settled_twice else ""),
    ]  # fmt: skip
    lead = "Three workers, and one of them killed in the middle of its work. The terminal tells the same story."
    return Telling("oncue demo", lead, figures, list(_events(story)))


def _events(story: Story) -> Iterator[ToldEvent]:
    if story.began_at is None:
        return
    for elapsed, text in story.events:
        kind = next((kind for colour, kind in COLOURS.items() if colour in text), "idle")
        yield ToldEvent(story.began_at + timedelta(seconds=elapsed), kind, f"Demo: {Text.from_markup(text).plain}")
