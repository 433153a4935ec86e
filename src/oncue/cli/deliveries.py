"""`oncue webhooks deliver`, `executions`, `execution` and `retry`: deliveries, each with its attempts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import UUID

import typer

from oncue.cli import output, values, webhook_options
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.cli.webhook_options import Headers, Method, Payload, PayloadFile, Secrets
from oncue.errors import InvalidWebhook
from oncue.model import Attempt, Job, Receipt, State
from oncue.policy.deliveries import execution_status, states_of
from oncue.policy.urls import origin
from oncue.records.documents import Document
from oncue.records.webhooks import delivery_attempt_record, execution_detail, execution_record

if TYPE_CHECKING:
    from rich.table import Table

    from oncue.policy.deliveries import ExecutionStatus

STYLES = {"emitted": "blue", "delivered": "green", "failed": "red"}

Uid = Annotated[str, typer.Argument(metavar="UID", help="The execution: its uid, or its number.", show_default=False)]


def _reference(text: str) -> int | UUID:
    return values.reference(text, "the number of an execution", "UID")


# --- sending --------------------------------------------------------------------------------------------------------


def deliver(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The webhook.", show_default=False)] = None,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="To this URL, without a webhook.")] = None,
    payload: Payload = None,
    payload_file: PayloadFile = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="DURATION", help="Not before, such as 10m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="INSTANT", help="Not before, in ISO 8601.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="At most one unfinished delivery has it.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", "-p", help="From 0 to 100.")] = None,
    method: Method = None,
    header: Headers = None,
    secret: Secrets = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Enqueue a delivery: `oncue webhooks deliver orders --payload '{"order": 7}'`. A worker sends it.

    With --url it goes to a bare URL; --method, --header and --secret are for
    that alone, and secrets are references (env:ONCUE_SECRET_…) there: a job
    shows its arguments. `oncue webhooks test` sends at once instead.
    """
    if (name is None) == (url is None):
        raise typer.BadParameter("give the name of a webhook, or --url: one of the two", param_hint="NAME")
    fields = webhook_options.given(
        method=method, headers=webhook_options.headers(header) if header else None,
        secrets=webhook_options.secrets(secret) if secret else None,
    )  # fmt: skip
    if url is None and fields:
        raise typer.BadParameter(
            "--method, --header and --secret go with --url: a webhook has its own", param_hint="--url"
        )
    options: dict[str, Any] = {
        "key": key,
        "priority": priority,
        "delay": None if delay is None else values.duration(delay, "--delay"),
        "at": None if at is None else values.instant(at, "--at"),
        "enqueued_by": "cli",
    }
    content = webhook_options.payload(payload, payload_file)
    found = find(app, may_create=url is not None, database_url=database_url, schema=schema)

    async def work() -> Receipt:
        if url is not None:
            return await found.adeliver(url, content, **options, **fields)
        assert name is not None
        declared = found.internals.webhooks.get(name)
        if declared is not None:  # as its code would: the next worker that starts makes the webhook
            return await declared.adeliver(content, **options)
        return await found.webhooks.deliver(name, content, **options)

    receipt = ask(found, work)
    if as_json:
        output.show_json({"id": str(receipt.uid), "number": receipt.id, "created": receipt.created})
    elif receipt.created:
        output.show(f"execution {receipt.uid} is made: `oncue webhooks execution {receipt.uid}` tells how it goes")
    else:
        output.show(f"nothing written: execution {receipt.uid} has this key and is not finished")


# --- looking --------------------------------------------------------------------------------------------------------


def list_executions(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of this webhook, or of a bare URL.", show_default=False)
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", "-s", metavar="STATUS", help="emitted (not ended), delivered or failed.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 50,
    before: Annotated[int | None, typer.Option("--before", metavar="NUMBER", help="Older than this one.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List deliveries, newest first: of one webhook, or all."""
    states = _states(status)
    endpoint = name if name is None or "://" not in name else origin(name)
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Job], dict[int, str], datetime]:
        jobs = await found.webhooks.executions(
            endpoint=endpoint, status=cast("ExecutionStatus | None", status), before=before, limit=limit
        )
        if not jobs and endpoint is not None and endpoint == name:
            await found.webhooks.get(name)  # of a deleted one what was delivered is shown
        return jobs, await found.webhooks.schedules_of(jobs), await found.now()

    jobs, names, now = ask(found, work)
    if as_json:
        output.show_json([record(job, names) for job in jobs])
    elif jobs:
        output.show(table(jobs, now))
        if len(jobs) == limit:
            output.show(f"[dim]There may be more: --before {jobs[-1].id}[/]")
    elif states or before or name is not None:
        output.show("No execution matches.")
    else:
        output.show("There are no executions yet. `oncue webhooks deliver NAME` makes one, and so does a schedule.")


def _states(status: str | None) -> tuple[State, ...]:
    try:
        return states_of(status)
    except InvalidWebhook as error:
        raise typer.BadParameter(str(error).removeprefix("status: "), param_hint="--status") from None


def record(job: Job, names: Mapping[int, str]) -> Document:
    return execution_record(job, None if job.schedule_id is None else names.get(job.schedule_id))


def table(jobs: Sequence[Job], now: datetime) -> Table:
    made = output.table(
        "number", "uid", "to", "status", "attempts", "created", "next or last", "error", right=("number", "attempts")
    )
    for job in jobs:
        told = execution_record(job, None)
        moment = job.visible_at if told["next_attempt_at"] else job.finished_at or job.updated_at
        made.add_row(
            str(job.id), str(job.uid), escape(job.group or ""), _status(job), str(told["attempts"]),
            output.when(job.created_at, now), output.when(moment, now), escape(_short(job.reason or job.error or "")),
        )  # fmt: skip
    return made


def _status(job: Job) -> str:
    status = execution_status(job.state)
    more = "" if job.state in ("succeeded", "failed") else f" ({job.state})"
    return f"[{STYLES[status]}]{status}[/]{more}"


def _short(text: str) -> str:
    line = text.strip().rpartition("\n")[2]
    return line if len(line) <= 60 else f"{line[:59]}…"


def show_execution(
    uid: Uid,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show one delivery with its attempts, one by one: what was answered, from which address, how long it took."""
    wanted, found = _reference(uid), find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Job, list[Attempt], dict[int, str], datetime]:
        job, attempts = await found.webhooks.execution(wanted)
        return job, attempts, await found.webhooks.schedules_of([job]), await found.now()

    job, attempts, names, now = ask(found, work)
    schedule = None if job.schedule_id is None else names.get(job.schedule_id)
    if as_json:
        output.show_json(execution_detail(job, schedule, attempts))
        return
    output.show(output.details(_lines(job, schedule, now)))
    if attempts:
        output.show(_attempts_table(attempts, now))
    else:
        output.show(f"No attempt has started. `oncue explain {job.id}` says why.")


def _lines(job: Job, schedule: str | None, now: datetime) -> list[tuple[str, Any]]:
    told = execution_record(job, schedule)
    payload = job.args.get("payload")
    return [
        ("execution", f"{job.uid}  (number {job.id})"),
        ("webhook", None if told["webhook"] is None else escape(told["webhook"])),
        ("URL", None if told["url"] is None else escape(told["url"])),
        ("schedule", None if schedule is None else escape(schedule)),
        ("scheduled", output.full(job.scheduled_for, now)),
        ("payload", None if payload is None else escape(json.dumps(payload, ensure_ascii=False))),
        ("status", _status(job) + (f"  {escape(job.reason)}" if job.reason else "")),
        ("next attempt", output.full(job.visible_at, now) if told["next_attempt_at"] else None),
        ("created", f"{output.full(job.created_at, now)} by {escape(job.enqueued_by)}"),
        ("finished", output.full(job.finished_at, now) if job.finished else None),
        ("retries", f"{job.retry_count} of {job.max_retries} used"),
        ("retry of", job.retry_of),
    ]


def _attempts_table(attempts: Sequence[Attempt], now: datetime) -> Table:
    made = output.table("attempt", "started", "got", "took", "address", "answer or error", right=("attempt", "took"))
    for attempt in attempts:
        told = delivery_attempt_record(attempt)
        got = str(told["status_code"] or told["failed"] or ("" if told["finished_at"] else "under way"))
        took = None if told["ms"] is None else told["ms"] / 1000
        made.add_row(
            str(attempt.attempt), output.when(attempt.started_at, now), got, output.took(took),
            escape(told["address"] or ""), escape(_short(told["excerpt"] or told["error"] or "")),
        )  # fmt: skip
    return made


# --- again ----------------------------------------------------------------------------------------------------------


def retry_execution(
    uid: Uid,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Deliver an ended execution again, as a new one with an id of its own. The old one stays as it is."""
    wanted, found = _reference(uid), find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Job, dict[int, str]]:
        old, _ = await found.webhooks.execution(wanted)
        job = await found.jobs.retry(old.id, by=actor())
        return job, await found.webhooks.schedules_of([job])

    job, names = ask(found, work)
    if as_json:
        output.show_json(record(job, names))
    else:
        output.show(f"execution {job.uid} is made, a retry of number {job.retry_of or job.id}")


def add_to(group: typer.Typer) -> None:
    group.command("deliver")(deliver)
    group.command("executions")(list_executions)
    group.command("execution")(show_execution)
    group.command("retry")(retry_execution)
