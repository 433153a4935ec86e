"""What both clients are made of: where the server is, who asks, and how long to wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID, uuid4

from oncue.client.requests import Page, Request
from oncue.client.servers import Servers
from oncue.client.transport import address_of
from oncue.client.trying import Asker
from oncue.client.verbs import Verbs
from oncue.errors import ConfigError

T = TypeVar("T")


class Caller(Verbs):
    """What both clients are made of."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        leaders: Sequence[str] = (),
        timeout: float = 10.0,
        patience: float = 20.0,
        new_id: Callable[[], UUID] = uuid4,
        watch: Callable[[], float] = time.monotonic,
    ) -> None:
        """A client of the server at `url`, or ONCUE_URL, with a `token`, or ONCUE_TOKEN. Nothing is opened yet.

        `leaders` are the addresses of servers that may lead the cluster. A server that does not lead names the leader:
        the request, and the token, go there only if its address is among these.

        `timeout` is how many seconds one answer may take; verbs about many jobs or slots get two minutes. For as many
        seconds as `patience` says it is asked again, so that a verb takes at most both together. `new_id` makes
        idempotency keys, and `watch` tells seconds that only grow.
        """
        self._address = address_of(_given(url))
        if isinstance(leaders, str):
            raise ConfigError("leaders: expected several addresses, such as ('http://web-1:8080',)")
        self._servers = Servers(self._address, leaders, watch)
        text = os.environ.get("ONCUE_TOKEN", "") if token is None else token
        self._asker = Asker(
            self._servers, _checked_token(text), _checked_seconds(timeout, "timeout"),
            _checked_seconds(patience, "patience"), new_id=new_id, watch=watch,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._address}>"


def following(request: Request[Page[T]], page: Page[T]) -> Request[Page[T]] | None:
    """The request for the next page, if there is one."""
    return None if page.next is None else replace(request, query=page.next)


def _given(url: str | None) -> str:
    found = os.environ.get("ONCUE_URL", "") if url is None else url
    if not found:
        raise ConfigError("url: expected the address of an oncue server, here or in ONCUE_URL")
    return found


def _checked_token(token: str) -> str | None:
    """A token that a header can carry. It is never repeated, not even if it is wrong."""
    token = token.strip()
    if not all("!" <= character <= "~" for character in token):
        raise ConfigError("token: expected visible ASCII characters, as `oncue token create` shows them")
    return token or None


def _checked_seconds(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= threading.TIMEOUT_MAX:
        raise ConfigError(f"{name}: expected a number of seconds, not {value!r}")
    return float(value)
