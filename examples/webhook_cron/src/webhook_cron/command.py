"""The command `webhook_cron`.

Exit codes: 0 fine; 1 the database cannot be reached, or its address is malformed; 2 a setting or the command line makes
no sense; 128 + n a second signal n.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from oncue import ConfigError, OncueError
from oncue.policy.durations import seconds
from oncue.store.addresses import hidden
from webhook_cron import settings
from webhook_cron.app import NAME, app

FAILED, BAD_USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parser().parse_args(arguments)
    try:
        app.configure(settings.load())
        given.run(given)
    except OncueError as error:
        print(f"{NAME}: {hidden(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, ConfigError) else FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Cron that calls URLs, with bounded retries.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="schedule, deliver and answer over HTTP until SIGINT or SIGTERM")
    serve.set_defaults(run=_serve)
    prune = commands.add_parser("prune-orphans", help="end executions that were emitted and never attempted")
    prune.add_argument(
        "--older-than", default="15m", metavar="DURATION", type=_duration, help="emitted before that  [default: 15m]"
    )
    prune.add_argument("--dry-run", action="store_true", help="only list them")
    prune.set_defaults(run=_prune_orphans)
    return parser


def _duration(text: str) -> float:
    try:
        return seconds(text, "--older-than")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--older-than: ")) from None


def _serve(given: argparse.Namespace) -> None:
    from webhook_cron import serving  # the HTTP server takes half a second to import

    serving.serve(app)


def _prune_orphans(given: argparse.Namespace) -> None:
    from webhook_cron import orphans

    async def prune() -> list[str]:
        try:
            return await orphans.prune(app, given.older_than, dry_run=given.dry_run)
        finally:
            await app.aclose()

    lines = asyncio.run(prune())
    for line in lines:
        print(line)
    print(f"{len(lines)} orphaned executions{' found' if given.dry_run else ' removed'}.")
