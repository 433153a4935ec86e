"""The parts of a run: how much of each there is, and how one act of it is carried out in a process of its own."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from subprocess import CalledProcessError
from typing import TypeAlias

import asyncpg

from bench.settings import BUILD
from chaos import cluster, kills, lines, replies, restarts, windows, zombies
from chaos.stage import Outcome, Stage, kept, staged
from oncue.store import PostgresStore
from tests import postgres
from tests.process.wire import wired

SQLITE, POSTGRES = "sqlite", "postgresql"


@dataclass(frozen=True)
class Act:
    """So much of one part, on one store, from one seed."""

    part: str
    dialect: str
    amount: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.part} on {self.dialect}, seed {self.seed}"


@dataclass(frozen=True)
class Order:
    """How much of a part there is on a store, and in how many acts."""

    part: str
    dialect: str
    amount: int
    acts: int


FULL = (
    Order("restarts", POSTGRES, 50, 2),
    Order("kills", SQLITE, 500, 5),
    Order("kills", POSTGRES, 500, 5),
    Order("replies", POSTGRES, 1000, 4),
    Order("zombies", SQLITE, 50, 2),
    Order("zombies", POSTGRES, 52, 2),
    Order("lines", POSTGRES, 300, 2),
    Order("windows", SQLITE, 100, 2),
    Order("windows", POSTGRES, 100, 2),
    Order("cluster", POSTGRES, 200, 4),
)
QUICK = (
    Order("restarts", POSTGRES, 5, 1),
    Order("kills", SQLITE, 50, 1),
    Order("kills", POSTGRES, 50, 1),
    Order("replies", POSTGRES, 80, 1),
    Order("zombies", SQLITE, 12, 1),
    Order("zombies", POSTGRES, 12, 1),
    Order("lines", POSTGRES, 40, 1),
    Order("windows", SQLITE, 12, 1),
    Order("windows", POSTGRES, 12, 1),
    Order("cluster", POSTGRES, 20, 1),
)
TINY = (
    Order("restarts", POSTGRES, 1, 1),
    Order("kills", SQLITE, 2, 1),
    Order("replies", POSTGRES, 20, 1),
    Order("zombies", SQLITE, 1, 1),
    Order("lines", POSTGRES, 6, 1),
    Order("windows", POSTGRES, 2, 1),
    Order("cluster", POSTGRES, 2, 1),
)
"""For the tests: each part comes to its verdict in a few seconds."""
PARTS = ("kills", "zombies", "restarts", "replies", "lines", "windows", "cluster")


def acts(orders: tuple[Order, ...], seed: int) -> list[Act]:
    """The acts of a run; the same seed makes the same ones."""
    dice = Random(seed)
    return [
        Act(order.part, order.dialect, order.amount // order.acts, dice.randrange(1_000_000))
        for order in orders
        for _ in range(order.acts)
    ]


def carried_out(act: Act, server: postgres.Server) -> tuple[Outcome, float]:
    """Carry an act out on an empty database. What it did, and how many seconds it took."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oncue-chaos-") as folder:
        outcome = _played(act, server, Path(folder))
        if outcome.faults:
            Path(folder, "faults.txt").write_text("\n".join(f"{promise}: {told}" for promise, told in outcome.faults))
            place = kept(Path(folder), BUILD / "chaos" / f"{act.part}-{act.dialect}-{act.seed}")
            outcome.faults.append(("kept", f"what the processes of {act.name} wrote is in {place}"))
    return outcome, time.monotonic() - begun


def _played(act: Act, server: postgres.Server, folder: Path) -> Outcome:
    stage: Stage | None = None
    try:
        with _set(act, server, folder) as (stage, play):
            play()
    except Exception:
        outcome = Outcome() if stage is None else stage.outcome
        outcome.faults.append(("the act is played to its end", traceback.format_exc()))
    assert stage is not None or outcome.faults
    return outcome if stage is None else stage.outcome


Play: TypeAlias = Callable[[], None]


@contextmanager
def _set(act: Act, server: postgres.Server, folder: Path) -> Iterator[tuple[Stage, Play]]:
    """The stage of an act, and what is played on it."""
    dice = Random(act.seed)
    if act.part == "restarts":
        with own_server() as own, staged(database(own, "chaos"), folder, dice) as stage:
            yield stage, lambda: restarts.run(stage, act.amount, own)
    elif act.part == "windows":
        with staged(address(act, server, folder), folder, dice, schedules=False) as stage:
            yield stage, lambda: windows.run(stage, act.amount)
    elif act.part in ("kills", "zombies"):
        run = kills.run if act.part == "kills" else zombies.run
        with staged(address(act, server, folder), folder, dice) as stage:
            yield stage, lambda: run(stage, act.amount)
    else:
        through = {"replies": replies.run, "lines": lines.run, "cluster": cluster.run}[act.part]
        url, schedules = address(act, server, folder), act.part != "cluster"
        with wired(url, Random(act.seed)) as wire, staged(url, folder, dice, wire.url, schedules=schedules) as stage:
            yield stage, lambda: through(stage, act.amount, wire)


def address(act: Act, server: postgres.Server, folder: Path) -> str:
    if act.dialect == SQLITE:
        return f"sqlite:///{folder / 'oncue.db'}"
    return database(server, f"{act.part}_{act.seed}")


@contextmanager
def own_server() -> Iterator[postgres.Server]:
    """A server that nobody else uses, so that it may be restarted."""
    server = postgres.start(os.getpid())
    try:
        yield server
    finally:
        with suppress(CalledProcessError):
            server.control("stop", "-m", "immediate")


def database(server: postgres.Server, name: str) -> str:
    """The address of a new database with our tables."""

    async def make() -> None:
        connection = await asyncpg.connect(server.url())
        await connection.execute(f"create database {name}")
        await connection.close()
        store = PostgresStore(server.url(name))
        await store.migrate()
        await store.close()

    asyncio.run(make())
    return server.url(name)
