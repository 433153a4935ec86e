"""The audit log: every change by hand, with who made it, and what was before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from starlette.requests import Request

from oncue.model import AuditEntry
from oncue.records.access import audit_entry_record
from oncue.server.api import pages
from oncue.server.api.documents import looking
from oncue.server.api.models.control import AuditPage
from oncue.server.api.pages import Before, Limit
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes

if TYPE_CHECKING:
    from oncue.app import Oncue


def add(routes: Routes, app: Oncue) -> None:
    @routes.get("/api/admin/audit-log", **looking("audit log", "List the changes made by hand", AuditPage))
    async def list_audit_log(
        request: Request,
        actor: Annotated[str | None, Query(description="Only what this one did.", examples=["local"])] = None,
        subject: Annotated[str | None, Query(description="Only what was done to this.", examples=["job:42"])] = None,
        limit: Limit = 100,
        before: Before = None,
    ) -> Answer:
        """Newest first."""

        async def read(last: AuditEntry | None, most: int) -> list[AuditEntry]:
            reached = before if last is None else last.id
            return await app.audit_log.list(actor=actor, subject=subject, before=reached, limit=most)

        return await pages.in_parts(request, "entries", read, limit, audit_entry_record, before=lambda entry: entry.id)
