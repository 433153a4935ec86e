"""The verbs on the audit log."""

from __future__ import annotations

from oncue.client import reading, requests
from oncue.client.requests import Page, Request, query
from oncue.model import AuditEntry

PREFIX = "/api/admin/audit-log"

_entry = reading.record(AuditEntry)


def audit_log(
    *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
) -> Request[list[AuditEntry]]:
    """What was changed by hand, newest first, up to 1,000. `before` is the id of the entry to go on from."""
    wanted = query(actor=actor, subject=subject, before=before, limit=limit)
    return Request("GET", PREFIX, requests.rows(_entry, "entries"), wanted)


def all_audit_log(
    *, actor: str | None = None, subject: str | None = None, page: int = 500
) -> Request[Page[AuditEntry]]:
    """Everything that was changed by hand, newest first, fetched page by page as you go on."""
    wanted = query(actor=actor, subject=subject, limit=page)
    return Request("GET", PREFIX, requests.page(_entry, "entries"), wanted)
