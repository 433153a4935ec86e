"""The verbs on the audit log: what was changed by hand."""

from __future__ import annotations

from oncue.model import AuditEntry
from oncue.verbs.base import NounVerbs, checked_before, checked_limit


class AuditLog(NounVerbs):
    async def list(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """What was changed by hand, newest first. `before` is the id of the entry to go on from."""
        store, before = (await self._connected()).store, checked_before(before, "an entry")
        return await store.audit_log.page(actor=actor, subject=subject, before=before, limit=checked_limit(limit))
