"""Tells stories: requests that depend on each other, with an eye on the audit log.

After every request the log has grown by exactly the changes that were made: by none if the request was refused, or if
it asked for what was so already.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

from fuzz.calls import bearer
from fuzz.site import Site
from fuzz.wire import Header, Reply, Request
from oncue.model import AuditEntry

BROKEN = "broken_stories"
MOST_ENTRIES = 20
"""No step of a story makes so many."""


@dataclass(frozen=True)
class Said:
    """What was answered."""

    request: Request
    reply: Reply

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def took(self) -> bool:
        """Whether this request itself was carried out."""
        return self.status < 300 and "idempotency-replayed" not in self.reply.headers

    @property
    def json(self) -> Any:
        return json.loads(self.reply.body)


Look = Callable[[], Awaitable[Any]]
Entries = Callable[[Any, Any, Said], int]
"""How many lines of the audit log a request is worth that was carried out: by what was before and after."""


def always(before: Any, after: Any, said: Said) -> int:
    return 1


def if_different(before: Any, after: Any, said: Said) -> int:
    return int(before != after)


def never(before: Any, after: Any, said: Said) -> int:
    return 0


async def nothing() -> None:
    return None


class Teller:
    """Sends the requests of one story, and notes what does not fit."""

    def __init__(self, site: Site, dice: Random) -> None:
        self.site = site
        self.app = site.world.app
        self.dice = dice
        self.actor = f"token:fuzz#{site.world.token_id}"

    async def ask(self, method: str, path: str, body: Any = None, *headers: Header, token: str | None = None) -> Said:
        content = () if body is None else (json.dumps(body).encode(),)
        shown = bearer(self.site.world.token if token is None else token)
        request = Request(method, quote(path, safe="/?&=%:,+"), (shown, *headers), content)
        return Said(request, await self.site.wire.send(request))

    async def change(
        self,
        method: str,
        path: str,
        body: Any = None,
        *headers: Header,
        look: Look = nothing,
        entries: Entries = always,
    ) -> Said:
        """Send a request that changes something, and compare the audit log with what it has changed."""
        before, newest = await look(), await self.newest()
        said = await self.ask(method, path, body, *headers)
        after, grown = await look(), await self.since(newest)
        expected = entries(before, after, said) if said.took else 0
        self.hold(said, len(grown) == expected, f"{len(grown)} lines in the audit log, expected {expected}")
        self.hold(said, all(entry.actor == self.actor for entry in grown), "the audit log names somebody else")
        self.hold(said, said.took or before == after, f"it was refused, and {before} became {after}")
        return said

    def hold(self, said: Said, holds: bool, what: str) -> None:
        if not holds:
            self.site.wire.blame(said.request, said.reply, [(BROKEN, what)])

    def name(self, word: str) -> str:
        """A name that nothing has yet."""
        return f"{word}-{self.dice.getrandbits(40):x}"

    async def newest(self) -> int:
        return max((entry.id for entry in await self.app.audit_log.list(limit=1)), default=0)

    async def since(self, newest: int) -> list[AuditEntry]:
        return [entry for entry in await self.app.audit_log.list(limit=MOST_ENTRIES) if entry.id > newest]
