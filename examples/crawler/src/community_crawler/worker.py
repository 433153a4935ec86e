"""The command `crawler-worker`: oncue's own worker, on the queue `crawl`. As many as you like."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from community_crawler import settings
from oncue.cli import run

APP = "community_crawler.jobs:app"
DATABASE = "--database-url"
BAD_CONFIGURATION = 2
USUAL = {
    "ONCUE_QUEUES": "crawl,upkeep",
    "ONCUE_CONCURRENCY": "8",
    "ONCUE_POLL_INTERVAL": "5s",
    "ONCUE_TICK_INTERVAL": "60s",
    "ONCUE_MAINTENANCE_INTERVAL": "5m",
    "ONCUE_AGING_INTERVAL": "5m",
    "ONCUE_AGING_AFTER": "1h",
    "ONCUE_AGING_GAIN": "10",
}
"""For what the environment does not say: the origin's values. An enqueue wakes the workers all the same."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Make oncue's tables, then work until a signal. Takes the options of `oncue worker`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(_run(given))


def _run(arguments: Sequence[str]) -> int:
    try:
        settings.load()
    except settings.SettingsError as error:
        print(f"crawler-worker: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    for name, value in USUAL.items():
        os.environ.setdefault(name, value)
    if "--help" not in arguments and "-h" not in arguments:
        migrated = run(["migrate", "--app", APP, *_database(arguments)])
        if migrated != 0:
            return migrated
        _create_tables(arguments)
    return run(["worker", "--app", APP, *arguments])


def _create_tables(arguments: Sequence[str]) -> None:
    """The crawler's own tables, and its views of oncue's."""
    from community_crawler import jobs  # it reads its settings when it is imported

    given = _database(arguments)
    if given:
        jobs.app.override({"database_url": given[-1].removeprefix(f"{DATABASE}=")})
    jobs.engine()


def _database(arguments: Sequence[str]) -> list[str]:
    """The option that names the database, if it was given: what is worked on is what is migrated."""
    found: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == DATABASE:
            found = list(arguments[number : number + 2])
        elif argument.startswith(f"{DATABASE}="):
            found = [argument]
    return found
