"""`oncue enqueue`: writes one job, the same job many times, or a job for every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from oncue.app import Oncue
from oncue.application.slots_only import refuse_declared
from oncue.cli import arguments, output, values
from oncue.cli.arguments import ArgsOption, Pairs
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.errors import InvalidJob
from oncue.model import Receipt
from oncue.task import Call, Task

CHUNK = 1000

Row: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


def enqueue(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.", show_default=False)],
    pairs: Pairs = None,
    args: ArgsOption = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Instead of the task's own.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", "-p", help="From 0 to 100.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="DURATION", help="Not before, such as 10m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="INSTANT", help="Not before, in ISO 8601.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="At most one unfinished job of the task has it.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Whom it is for, such as tenant:7: groups of a queue take turns.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="ADDRESS", help="Where alone it may run: node:NAME or role:leader."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="DURATION", help="Skipped if not done by then.")
    ] = None,
    max_retries: Annotated[int | None, typer.Option("--max-retries", help="Instead of the task's own.")] = None,
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="Write so many of them.")] = 1,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="ROWS.jsonl", help="One job per line of JSON; - is the standard input."),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Enqueue a task: `oncue enqueue send_invoice order_id=42 --delay 10m`."""
    found = find(app, needs_tasks=True, may_create=True, database_url=database_url, schema=schema)
    wanted = found.find(task)
    refuse_declared(wanted)
    call: Call[Any] = wanted.using(
        queue=queue,
        priority=priority,
        delay=None if delay is None else values.duration(delay, "--delay"),
        at=None if at is None else values.instant(at, "--at"),
        key=key,
        group=group,
        address=address,
        deadline=None if deadline is None else values.duration(deadline, "--deadline"),
        max_retries=max_retries,
        enqueued_by="cli",
    )
    if file is not None and count != 1:
        raise typer.BadParameter("give either --count or --file, not both", param_hint="--count")
    named = arguments.named(pairs, args)
    limit = found.settings.max_args_bytes
    rows = [_fitting(wanted, named, limit)] * count if file is None else _rows(file, wanted, named, limit)
    _show(ask(found, lambda: _written(found, call, rows)), call, as_json, single=file is None and count == 1)


async def _written(app: Oncue, call: Call[Any], rows: Sequence[Row]) -> list[Receipt]:
    receipts: list[Receipt] = []
    if len(rows) <= CHUNK:
        return await app.internals.enqueueing.write(call, rows)
    with output.progress(known=True) as bar:
        line = bar.add_task("enqueueing", total=len(rows))
        for start in range(0, len(rows), CHUNK):
            receipts += await app.internals.enqueueing.write(call, rows[start : start + CHUNK])
            bar.update(line, completed=len(receipts))
    return receipts


def _show(receipts: list[Receipt], call: Call[Any], as_json: bool, *, single: bool) -> None:
    created = [receipt for receipt in receipts if receipt.created]
    if single:
        _show_one(receipts[0], call, as_json)
    elif as_json:
        ids = [receipt.id for receipt in created]
        output.show_json({"created": len(created), "duplicates": len(receipts) - len(created), "ids": ids})
    else:
        span = f" (ids {created[0].id} to {created[-1].id})" if created else ""
        kept = len(receipts) - len(created)
        duplicates = f" {output.plural(kept, 'duplicate')} ignored: the key is taken." if kept else ""
        output.show(f"{output.plural(len(created), 'job')} of {escape(call.task.name)} enqueued{span}.{duplicates}")


def _show_one(receipt: Receipt, call: Call[Any], as_json: bool) -> None:
    if as_json:
        output.show_json({"id": receipt.id, "uid": str(receipt.uid), "created": receipt.created})
    elif receipt.created:
        output.show(f"job {receipt.id} ({receipt.uid}) of {escape(call.task.name)} enqueued in {escape(call.queue)}")
    else:
        output.show(f"nothing written: job {receipt.id} ({receipt.uid}) has this key and is not finished")


# --- arguments ------------------------------------------------------------------------------------------------------


def _fitting(task: Task[Any, Any], named: dict[str, Any], limit: int, positional: tuple[Any, ...] = ()) -> Row:
    return positional, arguments.fitting(named, lambda meant: task.arguments.dump(positional, meant, limit))


def _rows(file: str, task: Task[Any, Any], named: dict[str, Any], limit: int) -> list[Row]:
    """Read and check every line before the first job is written."""
    rows: list[Row] = []
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(json.loads(line), task, named, limit))
        except InvalidJob as error:
            raise InvalidJob(f"{file}:{number}", str(error)) from None
        except ValueError as error:
            raise InvalidJob(f"{file}:{number}", f"expected one JSON value per line; {error}") from None
    return rows


def _row(value: Any, task: Task[Any, Any], named: dict[str, Any], limit: int) -> Row:
    if isinstance(value, dict):
        return _fitting(task, {**named, **value}, limit)
    return _fitting(task, named, limit, tuple(value) if isinstance(value, list) else (value,))


def _lines(file: str) -> list[str]:
    if file == "-":
        return sys.stdin.read().split("\n")
    try:
        return Path(file).read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        wanted = "expected a file with one JSON value per line"
        raise typer.BadParameter(f"{wanted}; {file}: {reason}", param_hint="--file") from None


def register(cli: typer.Typer) -> None:
    cli.command("enqueue")(enqueue)
