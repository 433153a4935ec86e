"""The command `k2dailybrief-worker`: oncue's own worker, as the only one that is active."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from k2_daily_brief import settings
from oncue.cli import run

APP = "k2_daily_brief.jobs:app"
NAME = "k2dailybrief-worker"
DATABASE = "--database-url"
BAD_CONFIGURATION = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Make oncue's tables and views, then work until a signal. Takes the options of `oncue worker`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(_run(given))


def _run(arguments: Sequence[str]) -> int:
    try:
        settings.load()
    except settings.SettingsError as error:
        print(f"k2dailybrief-worker: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    os.environ.setdefault("ONCUE_NODE_NAME", NAME)
    if "--help" not in arguments and "-h" not in arguments:
        migrated = run(["migrate", "--views", "--app", APP, *_database(arguments)])
        if migrated != 0:
            return migrated
    return run(["worker", "--app", APP, "--exclusive", *arguments])


def _database(arguments: Sequence[str]) -> list[str]:
    """The option that names the database, if it was given: what is worked on is what is migrated."""
    found: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == DATABASE:
            found = list(arguments[number : number + 2])
        elif argument.startswith(f"{DATABASE}="):
            found = [argument]
    return found
