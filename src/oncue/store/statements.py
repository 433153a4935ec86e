"""Reads the `.sql` files: statements under the names of the verbs, and numbered migrations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from oncue.errors import SchemaMismatch

JOB_COLUMNS = (
    "id, task, queue, priority, state, reason, args, options, key, enqueued_by, created_at, updated_at, "
    "order_at, visible_at, deadline_at, max_runtime, max_retries, retry_count, attempt, crashes, claim_no, node_id, "
    "claimed_at, run_until, started_at, finished_at, cancel_requested_at, result, error, retry_of"
)
CLAIM_COLUMNS = (
    "id, task, queue, priority, args, options, created_at, visible_at, deadline_at, claimed_at, started_at, "
    "claim_no, attempt, retry_count, max_retries, crashes, cancel_requested"
)
CLAIM_SOURCE = CLAIM_COLUMNS.replace("cancel_requested", "cancel_requested_at is not null as cancel_requested")
NODE_COLUMNS = (
    "id, name, host, pid, boot_id, version, queues, tasks, concurrency, address, started_at, beat_at, expires_at"
)
_COLUMNS = {
    "{job}": JOB_COLUMNS,
    "{claim}": CLAIM_SOURCE,
    "{claim_out}": CLAIM_COLUMNS,
    "{node}": NODE_COLUMNS,
}


@cache
def load(dialect: str) -> Mapping[str, str]:
    """The statements of one dialect by name."""
    text = files("oncue.store").joinpath(f"{dialect}.sql").read_text("utf-8")
    for placeholder, columns in _COLUMNS.items():
        text = text.replace(placeholder, columns)
    blocks = text.split("-- name: ")[1:]
    return {name.strip(): body.strip() for name, _, body in (block.partition("\n") for block in blocks)}


class Migration(NamedTuple):
    number: int
    name: str
    script: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Every migration of one dialect, in order."""
    folder = files("oncue.store").joinpath("migrations", dialect)
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda e: e.name)
    return tuple(Migration(int(entry.name.split("_")[0]), entry.name[:-4], entry.read_text("utf-8")) for entry in found)


def check_version(dialect: str, found: int) -> None:
    """Refuse to work on tables of another version."""
    known = migrations(dialect)[-1].number
    if found < known:
        missing = "has no oncue tables" if found == 0 else f"has schema version {found}, this oncue needs {known}"
        raise SchemaMismatch(f"the database {missing}: run `oncue migrate`")
    if found > known:
        raise SchemaMismatch(
            f"the database has schema version {found}, newer than this oncue knows ({known}): upgrade oncue"
        )
