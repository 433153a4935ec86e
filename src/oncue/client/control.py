"""The verbs on nodes, tokens, the audit log and the process that answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncue.client import reading, requests
from oncue.client.records import LeaderRecord, NodeRecord, Readiness, TokenRecord
from oncue.client.requests import Page, Request, given, query, seconds, segment
from oncue.control import AuditEntry, Scope
from oncue.policy.durations import Duration

TOKENS = "/api/admin/tokens"
AUDIT_LOG = "/api/admin/audit-log"

_token = reading.record(TokenRecord)
_entry = reading.record(AuditEntry)


def nodes() -> Request[list[NodeRecord]]:
    """The worker processes that are alive, or whose lease is over and that nobody has buried yet."""
    return Request("GET", "/api/admin/nodes", requests.rows(reading.record(NodeRecord), "nodes"))


def leader() -> Request[LeaderRecord]:
    """The node that fires the schedules; or since when there is none."""
    return Request("GET", "/api/admin/leader", reading.record(LeaderRecord))


# --- tokens ---------------------------------------------------------------------------------------------------------


def tokens() -> Request[list[TokenRecord]]:
    """All tokens, the revoked and the expired too, oldest first."""
    return Request("GET", TOKENS, requests.rows(_token, "tokens"))


def create_token(
    name: str, scopes: Sequence[Scope], *, expires: Duration | None = None
) -> Request[tuple[TokenRecord, str]]:
    """Make a token that is good for these scopes, until it `expires`, so long from now.

    The text is told here, once: it is not kept. If the answer is lost on the way, so is the text: Conflict.
    """
    body = requests.body(given({"name": name, "scopes": list(scopes), "expires": seconds(expires)}))
    return Request("POST", TOKENS, _token_with_text, body=body, about="token")


def revoke_token(ref: str) -> Request[TokenRecord]:
    """Revoke a token, by its id or its name. From the next request on it is refused.

    Raises TokenNotFound, and Conflict if it is revoked already or several have this name.
    """
    return Request("DELETE", f"{TOKENS}/{segment(ref)}", _token, about="token")


def _token_with_text(document: Any) -> tuple[TokenRecord, str]:
    return _token(document), str(document["token"])


# --- the audit log --------------------------------------------------------------------------------------------------


def audit_log(
    *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
) -> Request[list[AuditEntry]]:
    """What was changed by hand, newest first, up to 1,000. `before` is the id of the entry to go on from."""
    wanted = query(actor=actor, subject=subject, before=before, limit=limit)
    return Request("GET", AUDIT_LOG, requests.rows(_entry, "entries"), wanted)


def all_audit_log(
    *, actor: str | None = None, subject: str | None = None, page: int = 500
) -> Request[Page[AuditEntry]]:
    """Everything that was changed by hand, newest first, fetched page by page as you go on."""
    wanted = query(actor=actor, subject=subject, limit=page)
    return Request("GET", AUDIT_LOG, requests.page(_entry, "entries"), wanted)


# --- the process ----------------------------------------------------------------------------------------------------


def health() -> Request[str]:
    """Is the process there? `ok`, without a token; else Unreachable. It is asked once."""
    return Request("GET", "/health", lambda document: str(document["status"]), is_probe=True)


def ready() -> Request[Readiness]:
    """May the process be given work, and why not? It is asked once."""
    return Request("GET", "/health/ready", _readiness, is_probe=True)


def _readiness(document: Any) -> Readiness:
    return Readiness(status=document["status"], facts=document)
