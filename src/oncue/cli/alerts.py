"""`oncue alerts`: the rules file for Prometheus, and how the SLOs and alerts stand."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from oncue.cli import output, values
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import AlertBook
from oncue.observe.alerts import Thresholds, rules
from oncue.policy import durations
from oncue.records.alerts import book_record, state_of

DEFAULTS = Thresholds()
COLOURS = {"ok": "green", "breached": "yellow", "warned": "red"}


def show_rules(
    context: typer.Context,
    queue_depth: Annotated[
        int, typer.Option("--queue-depth", metavar="N", help="More jobs than this wait in a queue.")
    ] = DEFAULTS.queue_depth,
    failed_rate: Annotated[
        str, typer.Option("--failed-rate", metavar="SHARE", help="More than this share of a task's jobs fail.")
    ] = "10%",
    running_for: Annotated[
        str, typer.Option("--running-for", metavar="DURATION", help="A job runs for longer than this.")
    ] = durations.describe(DEFAULTS.running_for),
    waiting_for: Annotated[
        str, typer.Option("--waiting-for", metavar="DURATION", help="A job waits for longer, in a queue that is open.")
    ] = durations.describe(DEFAULTS.waiting_for),
    late: Annotated[
        str, typer.Option("--late", metavar="DURATION", help="A slot of a schedule is due, undecided, for longer.")
    ] = durations.describe(DEFAULTS.late),
    paused_for: Annotated[
        str, typer.Option("--paused-for", metavar="DURATION", help="A queue is paused for longer than this.")
    ] = durations.describe(DEFAULTS.paused_for),
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Only about what Prometheus scrapes under this job name."),
    ] = None,
) -> None:
    """Print alert rules for Prometheus: `oncue alerts --queue-depth 5000 > oncue.rules.yml`.

    The options are the thresholds. Name the file under `rule_files` in prometheus.yml. No database is needed.
    `oncue alerts list` shows how the SLOs and alerts stand that the leader watches itself.
    """
    if context.invoked_subcommand is not None:
        return
    thresholds = Thresholds(
        _checked_depth(queue_depth), share(failed_rate, "--failed-rate"), _seconds(running_for, "--running-for"),
        _seconds(waiting_for, "--waiting-for"), _seconds(late, "--late"), _seconds(paused_for, "--paused-for"),
    )  # fmt: skip
    output.show_plain(rules(thresholds, None if job is None else _checked_job(job)).removesuffix("\n"))


def share(text: str, option: str) -> float:
    """A share as people write it: `10%` or `0.1`."""
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise typer.BadParameter(f"expected a share such as 10% or 0.1, less than all, not {text!r}", param_hint=option)
    return value


def _checked_depth(depth: int) -> int:
    if depth < 0:
        raise typer.BadParameter(f"expected a whole number from 0, not {depth}", param_hint="--queue-depth")
    return depth


def _seconds(text: str, option: str) -> float:
    return durations.seconds(values.duration(text, option))


def _checked_job(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise typer.BadParameter(f"expected the name of a scrape job, not {name!r}", param_hint="--job")
    return name


def list_alerts(
    as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """List each SLO and alert as the leader last saw it: its value, its threshold, and since when it is breached."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[AlertBook, datetime]:
        return await found.alerts.book(), await found.now()

    book, now = ask(found, work)
    if as_json:
        output.show_json(book_record(book))
    elif book.evaluated_at is None:
        output.show("Nothing was evaluated yet: the leader does so once a minute. Start a worker with `oncue worker`.")
    else:
        _show(book, now)


def _show(book: AlertBook, now: datetime) -> None:
    table = output.table("alert", "of", "state", "value", "threshold", "since", "what", right=("value", "threshold"))
    for state in sorted(book.alerts, key=lambda state: (state.warned_at is None, -state.breaches)):
        word = state_of(state)
        since = "" if state.since is None else output.when(state.since, now)
        table.add_row(
            state.alert, escape(state.of), f"[{COLOURS[word]}]{word}[/]", f"{state.value:g}", f"{state.threshold:g}",
            since, escape(state.text),
        )  # fmt: skip
    output.show(table)
    output.show(f"evaluated {output.when(book.evaluated_at, now)}")


def register(cli: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True)
    group.callback()(show_rules)
    group.command("list")(list_alerts)
    cli.add_typer(group, name="alerts")
