"""A process that stands still at a chosen write, as if its machine had been suspended just there.

Whoever wants that leaves a file beside the process, with a verb of the store and a side. The next such call stops the
whole process with SIGSTOP, right before the store is asked or right after it has answered, until somebody sends
SIGCONT. What was asked, and what was answered to a question that came so late, is written down in another file.
"""

from __future__ import annotations

import functools
import json
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from oncue.model import Change, Claim, Receipt
from oncue.store.postgres.cluster import PostgresCluster
from oncue.store.postgres.jobs import PostgresJobs
from oncue.store.postgres.leases import PostgresLeases
from oncue.store.postgres.nodes import PostgresNodes
from oncue.store.postgres.slots import PostgresSlots
from oncue.store.sqlite.cluster import SqliteCluster
from oncue.store.sqlite.jobs import SqliteJobs
from oncue.store.sqlite.leases import SqliteLeases
from oncue.store.sqlite.nodes import SqliteNodes
from oncue.store.sqlite.slots import SqliteSlots

VERBS: dict[str, tuple[type, type]] = {
    "beat": (PostgresNodes, SqliteNodes),
    "claim": (PostgresJobs, SqliteJobs),
    "apply": (PostgresJobs, SqliteJobs),
    "decide": (PostgresSlots, SqliteSlots),
    "renew": (PostgresLeases, SqliteLeases),
    "enqueue": (PostgresJobs, SqliteJobs),
    "spread": (PostgresCluster, SqliteCluster),
    "release": (PostgresCluster, SqliteCluster),
}
"""The verbs at which a process can stand still, and the classes that have them."""


class Point(NamedTuple):
    """Where to stand still: at the next call of this verb, on this side of it ("before" or "after")."""

    verb: str
    side: str


class Stood(NamedTuple):
    """A standstill: what the call wrote, and what it was told; the answer is None until it has come."""

    point: Point
    wanted: list[Any]
    answer: Any


# --- for whoever wants a zombie ---------------------------------------------------------------------------------------


def arm(folder: Path, name: str, point: Point) -> None:
    unfinished = folder / f"{name}.aim"
    unfinished.write_text(" ".join(point))
    unfinished.rename(folder / f"{name}.stop")


def disarm(folder: Path, name: str) -> bool:
    """Take the wish back, unless it is too late for that."""
    try:
        (folder / f"{name}.stop").unlink()
    except FileNotFoundError:
        return False
    return True


def stood(folder: Path, name: str) -> list[Stood]:
    """The standstills of a process so far."""
    path = folder / f"{name}.stood"
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    answers = {line["number"]: line["answer"] for line in lines if "answer" in line}
    return [
        Stood(Point(*line["point"]), line["wanted"], answers.get(line["number"])) for line in lines if "point" in line
    ]


# --- in the process ---------------------------------------------------------------------------------------------------


def install(folder: Path, name: str) -> None:
    """Let the stores of this process look for the wish at each of these verbs."""
    for verb, kinds in VERBS.items():
        for kind in kinds:
            setattr(kind, verb, _stoppable(verb, getattr(kind, verb), folder, name))


def _stoppable(verb: str, ask: Callable[..., Awaitable[Any]], folder: Path, name: str) -> Callable[..., Awaitable[Any]]:
    wish, notes = folder / f"{name}.stop", folder / f"{name}.stood"

    def stand_still(side: str, wanted: list[Any], **told: Any) -> int | None:
        """Do so if it is wished for here; the number of the standstill."""
        try:
            if wish.read_text() != f"{verb} {side}":
                return None
            wish.unlink()
        except FileNotFoundError:
            return None
        number = len(notes.read_text().splitlines()) if notes.exists() else 0
        _note(notes, number=number, point=[verb, side], wanted=wanted, **told)
        # To this thread: a signal to the process may wait for another thread, and this one go on meanwhile.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return number

    @functools.wraps(ask)
    async def asked(self: Any, *arguments: Any, **options: Any) -> Any:
        wanted = _plain(arguments[0]) if arguments else []
        number = stand_still("before", wanted)
        answer = await ask(self, *arguments, **options)
        if number is not None:
            _note(notes, number=number, answer=_plain(answer))
        elif answer:
            stand_still("after", wanted, answer=_plain(answer))
        return answer

    return asked


def _note(path: Path, **told: Any) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(told).encode() + b"\n")


def _plain(value: Any) -> Any:
    """As much of a value as is needed to tell what became of it."""
    if isinstance(value, list | tuple) and not isinstance(value, Claim | Change | Receipt):
        return [_plain(part) for part in value]
    if isinstance(value, Claim | Change):
        return [value.id, value.claim_no]
    return value.id if isinstance(value, Receipt) else value if isinstance(value, bool) else str(value)
