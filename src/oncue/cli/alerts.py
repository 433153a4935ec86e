"""`oncue alerts`: the rules file for Prometheus."""

from __future__ import annotations

from typing import Annotated

import typer

from oncue.cli import output, values
from oncue.observe.alerts import Thresholds, rules
from oncue.policy import durations

DEFAULTS = Thresholds()


def show_rules(
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
    """
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


def register(cli: typer.Typer) -> None:
    cli.command("alerts")(show_rules)
