"""What an address names: a job by id or uid, a schedule by number or name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias
from uuid import UUID

from fastapi import Path

from oncue.errors import JobNotFound
from oncue.model import Schedule
from oncue.server.api.models.base import LARGEST_ID

if TYPE_CHECKING:
    from oncue.app import Oncue

JobRef: TypeAlias = Annotated[str, Path(description="The job's id or uid.", examples=["42"])]
ScheduleRef: TypeAlias = Annotated[
    str, Path(description="The schedule's number, or its name unless that is a number.", examples=["3", "nightly"])
]


def job_ref(text: str) -> int | UUID:
    """A job's id or uid. Raises JobNotFound: there is no job under anything else."""
    if _is_number(text):
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise JobNotFound(f"there is no job {text!r:.100}: expected an id (a number) or a uid (a UUID)") from None


async def schedule_named(app: Oncue, text: str, *, deleted: bool = False) -> Schedule:
    """A schedule by its number or name; a deleted one only if they are wanted too. Raises ScheduleNotFound."""
    store = (await app.internals.connected()).store
    found = await (store.schedules.by_id(int(text)) if _is_number(text) else store.schedules.get(text))
    if found is None or (found.deleted_at is not None and not deleted):
        raise app.schedules.no_schedule(text)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= LARGEST_ID
