"""The tasks that oncue brings itself: every worker runs them, without code of the application's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.model import DELIVER, WEBHOOKS_QUEUE
from oncue.task import Task

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "oncue."
"""What the names of these tasks begin with, and no name that an application gives."""
PING = f"{PREFIX}ping"


async def ping() -> None:
    """Nothing. That it ran tells that a worker takes jobs and that their outcomes are written."""


def builtin_tasks(app: Oncue) -> dict[str, Task[Any, Any]]:
    async def deliver(
        webhook: str | None = None,
        payload: Any = None,
        url: str | None = None,
        headers: dict[str, str] | None = None,
        secrets: list[str] | None = None,
        timeout: float = 30.0,
        redirects: int = 0,
        ca: str | None = None,
        certificate: str | None = None,
    ) -> None:
        """Send a payload to a webhook, or to a URL."""
        from oncue.webhooks.delivery import Target

        bare = None if url is None else Target(
            url, headers or {}, tuple(secrets or ()), timeout, redirects, ca, certificate
        )  # fmt: skip
        await app.internals.deliveries.attempt(webhook, payload, bare)

    return {
        PING: Task(app, ping, name=PING, timeout="10s", max_retries=0),
        DELIVER: Task(app, deliver, name=DELIVER, queue=WEBHOOKS_QUEUE),
    }
