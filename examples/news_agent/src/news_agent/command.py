"""The command `news_agent`.

Exit codes: 0 fine; 1 the database cannot be reached, or refuses; 2 a setting, the command line or a field makes no
sense; 3 there is no such user; 128 + n a second signal n.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sqlalchemy.exc import SQLAlchemyError

from oncue import ConfigError, InvalidSubject, OncueError
from oncue.policy.durations import seconds
from oncue.store.addresses import hidden

if TYPE_CHECKING:
    from news_agent.users import Wanted

NAME = "news_agent"
FAILED, BAD_USAGE, NOT_FOUND = 1, 2, 3
BY = "shell"


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except ConfigError as error:
        _end(error, error.exit_code)
    except InvalidSubject as error:
        _end(error, BAD_USAGE)
    except LookupError as error:
        _end(error, NOT_FOUND)
    except (OncueError, SQLAlchemyError, OSError) as error:
        _end(error, FAILED)


def _end(error: Exception, code: int) -> None:
    print(f"{NAME}: {hidden(str(error))}", file=sys.stderr)
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="A news digest for every user, by the user's time.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="deliver digests and answer over HTTP until SIGINT or SIGTERM")
    serve.set_defaults(run=_serve)
    users = commands.add_parser("users", help="sign up, list and remove users").add_subparsers(
        required=True, metavar="VERB"
    )
    add = users.add_parser("add", help="sign up a user, or change one")
    add.add_argument("name")
    add.add_argument("--at", required=True, metavar="TIME", help="by when: 09:00, or +10m for so long from now")
    add.add_argument("--tz", default="UTC", metavar="ZONE", help="such as Europe/Berlin  [default: UTC]")
    add.add_argument("--topics", default="", metavar="LIST", help="separated by commas")
    add.set_defaults(run=_add)
    listing = users.add_parser("list", help="list users with what today came to")
    listing.set_defaults(run=_list)
    bulk = users.add_parser("import", help="sign up the users of a CSV file: name, at, and tz, topics if wanted")
    bulk.add_argument("file", type=Path)
    bulk.set_defaults(run=_import)
    remove = users.add_parser("remove", help="remove a user with all messages and digests")
    remove.add_argument("name")
    remove.set_defaults(run=_remove)
    return parser


# --- commands -------------------------------------------------------------------------------------------------------
# The application reads its settings when it is imported, and the HTTP server takes half a second to import.


def _serve(given: argparse.Namespace) -> None:
    from news_agent import serving

    serving.serve(_configured())


def _add(given: argparse.Namespace) -> None:
    async def add() -> None:
        from news_agent import membership, users
        from news_agent.jobs import app

        at = given.at
        if at.startswith("+"):
            at = _from_now(at, given.tz, await app.now())
        topics = [topic for topic in given.topics.split(",") if topic.strip()]
        (user,) = await membership.sign_up([users.wanted(given.name, at, given.tz, topics)], by=BY)
        print(f"{user.name}: digest by {user.at} in {user.tz}, about {', '.join(user.topics)}")

    _run(add)


def _from_now(text: str, tz: str, now: Any) -> str:
    """The minute at which a duration from now is over, as a time of day in a zone."""
    from oncue.policy.subjects import checked_zone

    try:
        after = seconds(text.removeprefix("+"), "at")
    except ValueError as error:
        raise InvalidSubject("at", str(error).removeprefix("at: ")) from None
    if not 0 < after < 86_400:
        raise InvalidSubject("at", f"expected less than a day from now, not {text!r:.40}")
    due = now + timedelta(seconds=after + 59)  # the next full minute
    return str(due.astimezone(ZoneInfo(checked_zone(tz) or "UTC")).strftime("%H:%M"))


def _list(given: argparse.Namespace) -> None:
    async def listed() -> None:
        from news_agent import days

        after = ""
        while page := await days.today(after, 1000):
            for entry in page:
                shown = f"{entry.user.name}\t{entry.user.at}\t{entry.user.tz}\t{entry.day or '-'}\t{entry.status}"
                print(shown if entry.reason is None else f"{shown}\t{entry.reason}")
            after = page[-1].user.name

    _run(listed)


def _import(given: argparse.Namespace) -> None:
    async def imported() -> None:
        from news_agent import membership

        with given.file.open(encoding="utf-8-sig", newline="") as file:
            done = await membership.sign_up_many(_rows(file), by=BY, progress=_tell)
        print(f"{done} users are signed up.")

    _run(imported)


def _rows(file: Any) -> Iterator[Wanted]:
    from news_agent import users

    reader = csv.DictReader(file)
    if not {"name", "at"} <= set(reader.fieldnames or ()):
        raise InvalidSubject("file", f"expected the columns name and at, not {', '.join(reader.fieldnames or ())}")
    for row in reader:
        try:
            topics = [topic for topic in (row.get("topics") or "").split(",") if topic.strip()]
            yield users.wanted(row["name"], row["at"] or "", row.get("tz") or "UTC", topics)
        except InvalidSubject as error:
            message = str(error).removeprefix(f"{error.field}: ")
            raise InvalidSubject(error.field, f"{message} (line {reader.line_num})") from None


def _tell(done: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:,} users", end="", file=sys.stderr)


def _remove(given: argparse.Namespace) -> None:
    async def removed() -> None:
        from news_agent import membership

        await membership.leave(given.name, by=BY)
        print(f"{given.name} is removed.")

    _run(removed)


def _configured() -> Any:
    """This program's settings; the application has oncue's from now on."""
    from news_agent import settings
    from news_agent.jobs import app

    own = settings.load()
    app.configure(settings.oncue_settings(own))
    return own


def _run(work: Callable[[], Awaitable[None]]) -> None:
    _configured()

    async def prepared() -> None:
        from news_agent import serving
        from news_agent.jobs import app

        try:
            await serving.prepare()
            await work()
        finally:
            await app.aclose()

    asyncio.run(prepared())
