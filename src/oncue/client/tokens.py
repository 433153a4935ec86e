"""The verbs on tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncue.client import reading, requests
from oncue.client.requests import Request, given, seconds, segment
from oncue.model import Scope
from oncue.policy.durations import Duration
from oncue.records.access import TokenRecord

PREFIX = "/api/admin/tokens"

_token = reading.record(TokenRecord)


def tokens() -> Request[list[TokenRecord]]:
    """All tokens, the revoked and the expired too, oldest first."""
    return Request("GET", PREFIX, requests.rows(_token, "tokens"))


def create_token(
    name: str, scopes: Sequence[Scope], *, expires: Duration | None = None
) -> Request[tuple[TokenRecord, str]]:
    """Make a token that is good for these scopes, until it `expires`, so long from now.

    The text is told here, once: it is not kept. If the answer is lost on the way, so is the text: Conflict.
    """
    body = requests.body(given({"name": name, "scopes": list(scopes), "expires": seconds(expires)}))
    return Request("POST", PREFIX, _token_with_text, body=body, about="token")


def revoke_token(ref: str) -> Request[TokenRecord]:
    """Revoke a token, by its id or its name. From the next request on it is refused.

    Raises TokenNotFound, and Conflict if it is revoked already or several have this name.
    """
    return Request("DELETE", f"{PREFIX}/{segment(ref)}", _token, about="token")


def _token_with_text(document: Any) -> tuple[TokenRecord, str]:
    return _token(document), str(document["token"])
