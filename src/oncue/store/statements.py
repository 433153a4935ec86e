"""Reads the `.sql` files: statements under the names of the verbs, and numbered migrations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from oncue.errors import SchemaMismatch

JOB_COLUMNS = (
    "id, task, queue, priority, state, reason, args, options, key, enqueued_by, created_at, updated_at, "
    "order_at, visible_at, deadline_at, max_runtime, max_retries, retry_count, attempt, crashes, claim_no, node_id, "
    "claimed_at, run_until, started_at, finished_at, cancel_requested_at, result, error, retry_of, schedule_id, "
    "scheduled_for, start_by, group, address, subject, details, progress, progress_note"
)
# How far its latest attempt has come is kept apart from the job, and few jobs say it.
_PROGRESS = "(select {0} from oncue_progress p where p.job_id = oncue_jobs.id and p.claim_no = oncue_jobs.claim_no)"
# `group` is a word of SQL's own.
JOB_SOURCE = JOB_COLUMNS.replace(" group,", ' group_name as "group",').replace(
    "progress, progress_note",
    f"{_PROGRESS.format('fraction')} as progress, {_PROGRESS.format('note')} as progress_note",
)
# What a listing leaves out of a large field; its size is told instead. The sizes are in bytes.
LARGEST_SHOWN, ERROR_SHOWN, ERROR_END_SHOWN = 2048, 500, 1000
"""Of a large error its beginning and its end are listed: what a traceback comes to stands at its end."""
_SIZES = {"sqlite": "length(cast({0} as blob))", "postgres": "octet_length({0}::text)"}
_SHORT = {
    "args": "'{}'",
    "result": "null",
    "error": f"substr(error, 1, {ERROR_SHOWN}) || '…' || {{error_end}}",
    "details": "null",
}
_ERROR_END = {"sqlite": f"substr(error, -{ERROR_END_SHOWN})", "postgres": f"right(error, {ERROR_END_SHOWN})"}
SHORTENED = tuple(_SHORT)
_LISTINGS = (
    "jobs", "jobs_by_ids", "jobs_of_kinds", "job_with_key", "jobs_with_key", "jobs_by_rows", "jobs_among",
    "executions",
)  # fmt: skip
NEW_JOB_COLUMNS = (
    "id, args, key, task, queue, priority, state, options, max_retries, max_runtime, created_at, updated_at, order_at, "
    "visible_at, deadline_at, enqueued_by, retry_of, schedule_id, scheduled_for, start_by, group_name, "
    "address"
)
"""What every insert of a job writes, in this order: a column that is new is asked of all of them."""
CLAIM_COLUMNS = (
    "id, task, queue, priority, args, options, created_at, visible_at, deadline_at, claimed_at, started_at, "
    "claim_no, attempt, retry_count, max_retries, crashes, cancel_requested, scheduled_for, start_by, "
    "group_name, address"
)
CLAIM_SOURCE = CLAIM_COLUMNS.replace("cancel_requested", "cancel_requested_at is not null as cancel_requested")
CLAIMED_COLUMNS = CLAIM_COLUMNS.replace("claimed_at, started_at, ", "")
"""What a claim has to be told. The others it wrote itself."""
CLAIMED_SOURCE = CLAIM_SOURCE.replace("claimed_at, started_at, ", "")
NODE_COLUMNS = (
    "id, name, host, pid, boot_id, version, queues, tasks, concurrency, address, started_at, beat_at, expires_at, "
    "process_start, exclusive, schedules, beat_no, named"
)
SCHEDULE_FIELDS = (
    "name, description, task, args, queue, priority, expression, tz, dst, missed, grace, max_instances, enabled, "
    "options, max_retries, max_runtime, deadline, declared_by, reason, revision, started_at, version, cursor, "
    "next_run_at, last_run_at, horizon, created_by, created_at, updated_at, deleted_at, key, "
    "group, address"
)
SCHEDULE_COLUMNS = f"id, {SCHEDULE_FIELDS}"
_SCHEDULE_WRITTEN = SCHEDULE_FIELDS.replace(" group,", " group_name,")
_SCHEDULE_SOURCE = "id, " + SCHEDULE_FIELDS.replace(" group,", ' group_name as "group",')
REVISION_COLUMNS = (
    "schedule_id, revision, started_at, task, args, queue, priority, expression, tz, dst, missed, grace, "
    "max_instances, enabled, reason, changed_by"
)
SLOT_COLUMNS = (
    "s.schedule_id, s.scheduled_for, s.until, s.slots, s.verdict, s.reason, s.job_id, s.blocked_by, s.revision, "
    "s.decided_at, s.decided_by, s.epoch, coalesce(s.outcome, j.state), coalesce(s.outcome_reason, j.reason), "
    "coalesce(s.started_at, j.started_at), coalesce(s.finished_at, j.finished_at), "
    "coalesce(s.worker, n.name, cast(j.node_id as text)), coalesce(s.error, j.error)"
)
LIMIT_COLUMNS = "global_limit, node_limit, group_limit, rate_count, rate_seconds, group_rate_count, group_rate_seconds"
TOKEN_COLUMNS = "id, name, digest, scopes, created_by, created_at, expires_at, revoked_at, last_used_at"
SESSION_COLUMNS = "id, digest, token_id, created_at, expires_at, ended_at, last_used_at"
AUDIT_COLUMNS = "id, at, actor, action, subject, before, after"
WEBHOOK_FIELDS = (
    "description, url, method, headers, content_type, body, timeout, secrets, retry, redirects, ca, certificate, "
    "enabled, reason, declared_by, created_by, created_at, updated_at, deleted_at, deleted"
)
WEBHOOK_COLUMNS = f"id, name, version, {WEBHOOK_FIELDS}"
SUBJECT_COLUMNS = (
    "schedule_id, name, due, tz, weekdays, days_off, args, version, since, day, opens_at, cutoff_at, next_at, job_id, "
    "last_date, status, reason, last_run_at, created_at, updated_at, removed_at"
)
LEASE_COLUMNS = "name, holder, holder_name, epoch, acquired_at, renewed_at, expires_at"
CLAIMABLE = "state = 'queued' and isolation = 0 and group_name is null and address is null"
"""What any claim may take: the words of the index that has it."""
GROUPED = "state = 'queued' and isolation = 0 and group_name is not null and address is null"
"""What is claimed in the turn of its group. Its index has those that are kept apart and addressed too."""
ADDRESSED = "state = 'queued' and isolation = 0 and address is not null"
"""What only the node with that address may take: the words of the index that has it."""
SET_APART = (
    "state = 'queued' and isolation = 0 and (group_name is not null or address is not null or order_at > created_at)"
)
"""What the common claim index does not have, or not by age: the words of the index that has it by age."""
_COLUMNS = {
    "{grouped}": GROUPED,
    "{addressed}": ADDRESSED,
    "{set_apart}": SET_APART,
    "{claimable}": CLAIMABLE,
    "{job}": JOB_SOURCE,
    "{new_job}": NEW_JOB_COLUMNS,
    "{claim}": CLAIM_SOURCE,
    "{claim_out}": CLAIM_COLUMNS,
    "{claimed}": CLAIMED_COLUMNS,
    "{taken}": CLAIMED_SOURCE,
    "{node}": NODE_COLUMNS,
    "{schedule}": _SCHEDULE_SOURCE,
    "{schedule_fields}": _SCHEDULE_WRITTEN,
    "{revision}": REVISION_COLUMNS,
    "{slot}": SLOT_COLUMNS,
    "{webhook}": WEBHOOK_COLUMNS,
    "{webhook_fields}": WEBHOOK_FIELDS,
    "{subject}": SUBJECT_COLUMNS,
    "{lease}": LEASE_COLUMNS,
    "{limits}": LIMIT_COLUMNS,
    "{token}": TOKEN_COLUMNS,
    "{session}": SESSION_COLUMNS,
    "{audit}": AUDIT_COLUMNS,
}


DEFAULT_SCHEMA = "public"
_PART = re.compile(r"\{_\w+\}")
_RELATION = re.compile(r"(?<![\w.])oncue_\w+(?![\w.])")
_CHANNEL = "'oncue'"
_LIST_OF_STATES = re.compile(r"\b((?:\w+\.)?state) in \(('\w+'(?:, '\w+'){2,})\)")


def qualified(text: str, schema: str) -> str:
    """The same SQL with our tables, sequences and functions in this schema, and its notifications on its channel.

    A statement must mean the same on every connection: the `search_path` of a session, which may be a caller's own,
    decides nothing. `oncue_jobs.id` names a column of a table that the statement has named before, and stays.
    """
    return _RELATION.sub(rf'"{schema}".\g<0>', text).replace(_CHANNEL, f"'{channel(schema)}'")


def channel(schema: str) -> str:
    """Where the wake-ups of the tables in this schema are sent. PostgreSQL takes names of up to 63 bytes."""
    return f"oncue:{schema}"


@cache
def load(dialect: str, schema: str = DEFAULT_SCHEMA) -> Mapping[str, str]:
    """The statements of one dialect by name; on PostgreSQL, for tables in this schema."""
    known = _unqualified(dialect)
    return known if dialect == "sqlite" else {name: qualified(text, schema) for name, text in known.items()}


@cache
def _unqualified(dialect: str) -> Mapping[str, str]:
    folder = files(f"oncue.store.{dialect}")
    nouns = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    text = "".join(entry.read_text("utf-8") for entry in nouns)
    for placeholder, columns in _COLUMNS.items():
        text = text.replace(placeholder, columns)
    blocks = _put_together(_blocks(spelled_out(text) if dialect == "sqlite" else text))
    return {**blocks, **{f"{name}_short": _shortened(blocks[name], dialect) for name in _LISTINGS if name in blocks}}


def _shortened(statement: str, dialect: str) -> str:
    """The same listing without the large fields, and with a column more for each: its size if it is left out."""
    source = JOB_SOURCE
    for column, instead in _SHORT.items():
        size = _SIZES[dialect].format(column)
        instead = instead.replace("{error_end}", _ERROR_END[dialect])
        if dialect == "postgres" and column == "args":
            instead = f"{instead}::json"
        shown = f"case when {size} > {LARGEST_SHOWN} then {instead} else {column} end as {column}"
        source = source.replace(f" {column},", f" {shown},")
        source += f", case when {size} > {LARGEST_SHOWN} then {size} end as {column}_bytes"
    return statement.replace(JOB_SOURCE, source)


def spelled_out(text: str) -> str:
    """A list of three or more states as comparisons: the words of the indexes' conditions (see migration 006)."""
    return _LIST_OF_STATES.sub(lambda found: f"({_comparisons(*found.groups())})", text)


def _comparisons(column: str, states: str) -> str:
    return " or ".join(f"{column} = {state}" for state in states.split(", "))


@cache
def views(dialect: str) -> Mapping[str, str]:
    """The views of one dialect by name."""
    return _blocks(files("oncue.store").joinpath("views", f"{dialect}.sql").read_text("utf-8"))


def _blocks(text: str) -> dict[str, str]:
    blocks: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, body = block.partition("\n")
        if name.strip() in blocks:
            raise ValueError(f"two statements are named {name.strip()}")
        blocks[name.strip()] = body.strip()
    return blocks


def _put_together(blocks: Mapping[str, str]) -> dict[str, str]:
    """The statements, with the parts that several of them share: `-- name: _part` stands where `{_part}` is written."""
    parts = {f"{{{name}}}": body for name, body in blocks.items() if name.startswith("_")}
    whole = {name: body for name, body in blocks.items() if not name.startswith("_")}
    for name in whole:
        while (found := _PART.search(whole[name])) is not None:
            whole[name] = whole[name].replace(found[0], parts[found[0]])
    return whole


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


def check_version(dialect: str, found: int, schema: str | None = None) -> None:
    """Refuse to work on tables of another version."""
    known = migrations(dialect)[-1].number
    if found == 0:
        raise SchemaMismatch(f"the database {no_tables(schema)}")
    if found < known:
        raise SchemaMismatch(f"the database has schema version {found}, this oncue needs {known}: run `oncue migrate`")
    if found > known:
        raise SchemaMismatch(
            f"the database has schema version {found}, newer than this oncue knows ({known}): upgrade oncue"
        )


def no_tables(schema: str | None) -> str:
    """What a database lacks, and what to do: run a migration, or look in another schema."""
    if schema is None:
        return "has no oncue tables: run `oncue migrate`"
    return (
        f"has no oncue tables in its schema {schema!r}: run `oncue migrate`, or name the schema that has them "
        "(ONCUE_SCHEMA)"
    )
