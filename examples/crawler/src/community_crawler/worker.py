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
    "ONCUE_QUEUES": "crawl",
    "ONCUE_CONCURRENCY": "8",
    "ONCUE_POLL_INTERVAL": "5s",
    "ONCUE_TICK_INTERVAL": "60s",
}
"""For what the environment does not say. The intervals are fallbacks: whoever enqueues wakes the workers at once."""


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
    return run(["worker", "--app", APP, *arguments])


def _database(arguments: Sequence[str]) -> list[str]:
    """The option that names the database, if it was given: what is worked on is what is migrated."""
    found: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == DATABASE:
            found = list(arguments[number : number + 2])
        elif argument.startswith(f"{DATABASE}="):
            found = [argument]
    return found
