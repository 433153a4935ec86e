"""The webhook: a URL that deliveries are sent to, with how they are sent; and deliveries that no node would look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from oncue.identity import job_uid

WEBHOOKS_QUEUE = "webhooks"
"""The queue of every delivery."""
DELIVER = "oncue.deliver"
"""The task of every delivery."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where deliveries of this name go, and how. A deleted one keeps its row, without headers and secrets."""

    id: int
    name: str
    description: str
    url: str
    method: str
    headers: Mapping[str, str]
    content_type: str
    body: str | None
    """The template of the body."""
    timeout: float
    """Seconds that one attempt may take."""
    secrets: tuple[str, ...]
    """The keys that sign: `whsec_…`, or `env:ONCUE_SECRET_…`, where one is found."""
    retry: str
    """The ladder of its retries, as it is stored: JSON."""
    redirects: int
    """How many are followed."""
    ca: str | None
    """The file with the certificates that its server is checked against, by its name in the directory for these."""
    certificate: str | None
    """The file with the certificate and the key that it shows to its server, likewise."""
    enabled: bool
    reason: str | None
    """Why it is disabled."""
    declared_by: str | None
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    """When it was last deleted: deliveries that were made up to then belong to the deleted one."""
    deleted: bool = False


class Orphan(NamedTuple):
    """A delivery that is due and queued, and that no node would look at: nothing tells of it in its group."""

    id: int
    created_at: datetime
    group: str
    schedule_id: int | None
    schedule_created_at: datetime | None
    scheduled_for: datetime | None
    due_at: datetime
    """Since when it could have been sent."""

    @property
    def uid(self) -> UUID:
        """The execution's name."""
        return job_uid(self.id, self.created_at)

    @property
    def schedule_uid(self) -> UUID | None:
        """The name of the schedule that made it: `job_id` in the view `executions`."""
        if self.schedule_id is None or self.schedule_created_at is None:
            return None
        return job_uid(self.schedule_id, self.schedule_created_at)
