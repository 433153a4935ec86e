"""Puts the demo together: a folder, a database, workers, the story and the account."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from oncue.app import Oncue
from oncue.cli import failures, output, values
from oncue.cli.demo import screen
from oncue.cli.demo.facts import Account, Facts
from oncue.cli.demo.story import Story
from oncue.cli.demo.workers import Workers
from oncue.settings import load

SCHEDULE = "take_pulse"


def demo(
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="About how long; it ends when the work is done.")
    ] = "22s",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the database behind, to look at it.")] = False,
) -> None:
    """Watch a few thousand jobs, three workers, and what happens when one of them is killed.

    Everything lives in a temporary folder: no database of yours is touched. Exit code 4 if a job was lost or settled
    twice, or a slot of the schedule is not accounted for.
    """
    values.duration(duration, "--for")
    console, folder = output.console(), Path(tempfile.mkdtemp(prefix="oncue-demo-"))
    try:
        found = asyncio.run(_played(console, folder, duration))
        if keep:
            where = output.escape(str(folder))
            console.print(f"To look around: [bold]DATABASE_URL=sqlite:///{where}/oncue.db oncue serve[/]")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(0 if found.holds else failures.CHECK)


async def _played(console: Console, folder: Path, duration: str) -> Account:
    from oncue.cli.demo.tasks import app

    path = folder / "oncue.db"
    url = f"sqlite:///{path}"
    app.configure(load({"database_url": url}, environment={}, folder=folder))
    try:
        return await _witnessed(console, app, path, url, duration)
    finally:
        await app.aclose()


async def _witnessed(console: Console, app: Oncue, path: Path, url: str, duration: str) -> Account:
    from oncue.cli.demo.page import beside  # with the server, which takes half a second to import

    await app.internals.connected()  # makes the tables
    facts = Facts(path)
    facts.place_witness()
    where = output.escape(str(path))
    console.print(f"[bold]oncue demo[/]: the embedded database is {where}, gone again at the end (--keep keeps it)\n")
    workers: Workers | None = None
    try:
        async with beside(app) as page:
            if page is not None:
                console.print(f"Dashboard: [bold]{page.url}[/] until the demo ends (--for 5m lets it last longer)\n")
            workers = Workers(path.parent, url)
            story = Story(app, workers, facts, duration, path)
            if page is not None:
                page.story = story
            with screen.shown(console) as show:
                await story.run(show)
            if page is not None:
                await page.show_end()
        exit_codes = workers.stop()
        found = replace(facts.account(story.acknowledged), slots=await app.schedules.audit(SCHEDULE))
        console.print(screen.account(found, exit_codes, min(screen.WIDTH, console.width)))
        return found
    finally:
        if workers is not None:
            workers.stop()
        facts.close()


def register(cli: typer.Typer) -> None:
    cli.command("demo")(demo)
