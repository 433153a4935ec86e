"""The stories of the dashboard, told once into a SQLite file that is copied for each test."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fuzz.dashboard import Hurried
from oncue import Oncue
from oncue.clock import VirtualClock
from oncue.settings import load
from tests.browser import stories
from tests.browser.running import Running

SECRETS = {
    "header": "Bearer planted-in-a-header", "secret": "whsec_" + "cGxhbnRlZC1zZWNyZXQtb2YtYS13ZWJob29rISE=",
}  # fmt: skip
"""What no page may ever show."""


@dataclass(frozen=True)
class Told:
    """A database in which all stories have happened, and when it was copied from under a running worker."""

    file: Path
    addresses: list[str]
    at: datetime

    def application(self, file: Path, **settings: Any) -> Oncue:
        """The stories' application on this copy. Nobody works for it."""
        app = Oncue(
            settings=load({"database_url": f"sqlite:///{file}", **settings}, environment={}, folder=file.parent)
        )
        stories.declare(app)
        return app

    async def held_still(self, app: Oncue) -> None:
        """It is the instant of the copy, and stays so: nodes are alive, and two pages tell of the same time."""
        (await app.internals.connected()).clock = VirtualClock(self.at)

    async def goes_on(self, app: Oncue) -> None:
        """Time passes again, and fast: what waits for something that does not come gives up soon."""
        (await app.internals.connected()).clock = Hurried(self.at)


def tell(folder: Path, template: Path) -> Told:
    """Run a worker, let every story happen, and copy the file while it runs."""
    file, note = folder / "told.db", folder / "told.json"
    if not note.exists():
        live = folder / "live.db"
        live.write_bytes(template.read_bytes())
        given = {"database_url": f"sqlite:///{live}", "drain_timeout": "0.5s"}
        app = Oncue(settings=load(given, environment={}, folder=folder))
        stories.declare(app)
        running = Running(app, with_worker=True).start()
        try:
            running.do(_led)
            addresses = ["/"]
            for story in stories.stories():
                addresses += running.do(story.tell)
            running.do(_secrets)
            at = running.do(lambda app: app.now())
            with closing(sqlite3.connect(live)) as source, closing(sqlite3.connect(file)) as copy:
                source.backup(copy)
        finally:
            running.stop()
        note.write_text(json.dumps([list(dict.fromkeys(addresses)), at.isoformat()]))
    addresses, at_text = json.loads(note.read_text())
    return Told(file, addresses, datetime.fromisoformat(at_text))


async def _led(app: Oncue) -> None:
    """Before any story begins the worker leads."""
    async with asyncio.timeout(20):
        while await app.cluster.leader() is None:
            await app.internals.pause_before_retry(0.02)


async def _secrets(app: Oncue) -> None:
    """A webhook with something to hide, and deliveries of it."""
    await app.webhooks.create(
        "planted", url="https://shop.example/hooks",
        headers={"Authorization": SECRETS["header"]}, secrets=[SECRETS["secret"]],
    )  # fmt: skip
    await app.webhooks.deliver("planted", {"order": 1}, delay="1h")
