"""The command `k2dailybrief-web`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import uvicorn

from k2_daily_brief import settings


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the page. Any number of processes; none of them runs a job."""
    parser = argparse.ArgumentParser(prog="k2dailybrief-web", description="The K2 Daily Brief as a page.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1, help="how many processes answer")
    given = parser.parse_args(arguments)
    try:
        settings.load()
    except settings.SettingsError as error:
        parser.error(str(error))
    uvicorn.run("k2_daily_brief.web.app:app", host=given.host, port=given.port, workers=given.workers)
