"""`oncue serve` and `oncue run`: the web process on its own, and together with a worker."""

from __future__ import annotations

from functools import wraps
from typing import Annotated, Any

import typer

from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, find
from oncue.cli.process import run_web
from oncue.cli.worker import BARE, WithBareHttp, begin, work
from oncue.observe import logs
from oncue.server import address


def serve(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            "--http-addr",
            metavar="[ADDR]",
            help=f"Where to answer (also HTTP_ADDR). Without an address: {address.DEFAULT}",
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
    """Show the dashboard and answer the admin API, /health, /health/ready and /metrics until SIGINT, SIGTERM or
    SIGHUP. No job is run.

    On a loopback address both are open until a token is made (`oncue token create`); /health/ready and /metrics stay
    open there. On any other address everything but /health needs a token. Over HTTP only tasks of --app can be
    enqueued. The server starts without its database, and is not ready until the database answers. After the first
    signal the exit code is 0. A second signal stops at once, with 130 (SIGINT), 143 (SIGTERM) or 129 (SIGHUP).
    """  # fmt: skip
    found = find(
        app, may_create=True, database_url=database_url, schema=schema, http_addr=None if http == BARE else http,
        log_level=log_level, log_format=log_format,
    )  # fmt: skip
    settings = found.settings
    where = address.parse(settings.http_addr or address.DEFAULT, settings.origin("http_addr"))
    listening = address.listen(where)
    logs.configure(settings.log_level, settings.log_format)
    run_web(found, listening)


@wraps(work)  # the options of a worker, whatever they are
def run(http: str | None = None, **options: Any) -> None:
    begin(http=http or BARE, with_api=True, **options)


run.__doc__ = f"""Work on jobs, show the dashboard and answer the admin API, in one process, until SIGINT, SIGTERM
    or SIGHUP.

    What `oncue worker` and `oncue serve` do together. Without an address it listens on HTTP_ADDR, or on
    {address.DEFAULT}.
    """


def register(cli: typer.Typer) -> None:
    cli.command("run", cls=WithBareHttp)(run)
    cli.command("serve", cls=WithBareHttp)(serve)
