"""`oncue worker`: a process that works until it is told to stop."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, find
from oncue.cli.process import run_worker
from oncue.observe import logs
from oncue.server import address
from oncue.settings import Settings

BARE = "-"  # what a `--http` without an address becomes on its way through the parser


class WithBareHttp(TyperCommand):
    """Lets `--http` stand without an address. There are no positional arguments to confuse it with."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, completed(args))


def completed(arguments: list[str]) -> list[str]:
    """The same arguments with something after a `--http` that has nothing of its own."""
    given: list[str] = []
    for number, argument in enumerate(arguments, 1):
        given.append(argument)
        if argument in ("--http", "--http-addr") and (arguments[number:] or ["-"])[0].startswith("-"):
            given.append(BARE)
    return given


def work(
    queues: Annotated[
        str | None, typer.Option("--queues", "-q", metavar="NAMES", help="Comma-separated. \\[default: default]")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Attempts at once. \\[default: 64]")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", help="Attempts of process tasks at once. \\[default: one per CPU]")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", "--node-name", help="Leased: of the living workers, one has it. \\[default: host:pid]"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            "--http-addr",
            metavar="[ADDR]",
            help="Answer /health, /health/ready and /metrics there (also HTTP_ADDR). "
            f"Without an address: {address.DEFAULT}",
        ),
    ] = None,
    advertise_url: Annotated[
        str | None,
        typer.Option(
            "--advertise-url",
            metavar="URL",
            help="How other hosts reach this process's API, such as http://web-1:8080 (ONCUE_ADVERTISE_URL).",
        ),
    ] = None,
    drain_timeout: Annotated[
        str | None,
        typer.Option("--drain-timeout", metavar="DURATION", help="For what runs at the end. \\[default: 30s]"),
    ] = None,
    start_timeout: Annotated[
        str | None,
        typer.Option(
            "--start-timeout", metavar="DURATION", help="Wait so long for the database at the start. \\[default: 1m]"
        ),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option("--lease", metavar="DURATION", help="Silent for so long, a node is lost. \\[default: 15s]"),
    ] = None,
    exclusive: Annotated[
        bool | None,
        typer.Option(
            "--exclusive", help="Be the only active worker, or stand by until that worker ends (ONCUE_EXCLUSIVE)."
        ),
    ] = None,
    tick_interval: Annotated[
        str | None,
        typer.Option(
            "--tick-interval", metavar="DURATION", help="Look for due schedules at least so often. \\[default: 30s]"
        ),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="debug, info, warning or error. \\[default: info]")
    ] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="text or json. \\[default: text]")] = None,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Work on jobs until SIGINT, SIGTERM or SIGHUP.

    Then no more is claimed, what runs may finish within the drain time, the rest is given back uncharged, and the exit
    code is 0. A second signal stops at once, with 130 (SIGINT), 143 (SIGTERM) or 129 (SIGHUP).
    """  # fmt: skip
    begin(
        app, http, name, with_api=False, advertise_url=advertise_url, database_url=database_url, schema=schema,
        queues=queues, concurrency=concurrency, processes=processes, exclusive=exclusive, tick_interval=tick_interval,
        drain_timeout=drain_timeout, lease=lease, start_timeout=start_timeout, log_level=log_level,
        log_format=log_format,
    )  # fmt: skip


def begin(app: str | None, http: str | None, name: str | None, *, with_api: bool, **flags: Any) -> None:
    """Find the application, with these flags over its settings, and work until a signal says stop."""
    found = find(
        app, needs_tasks=True, may_create=True, http_addr=None if http == BARE else http, node_name=name, **flags
    )
    settings = found.settings
    where = _address(settings, bare=http == BARE)
    listening = None if where is None else address.listen(where)
    logs.configure(settings.log_level, settings.log_format)
    run_worker(found, listening, with_api=with_api)


def _address(settings: Settings, *, bare: bool) -> address.ListenAddress | None:
    if settings.http_addr is not None:
        return address.parse(settings.http_addr, settings.origin("http_addr"))
    return address.parse(address.DEFAULT) if bare else None


def register(cli: typer.Typer) -> None:
    cli.command("worker", cls=WithBareHttp)(work)
