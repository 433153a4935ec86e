"""What every figure needs: the server, the sizes, and a side of a comparison on a fresh database."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.database import Server
from bench.peers import measure
from bench.peers.catalog import PEERS
from bench.peers.environment import Unavailable
from bench.settings import SCRATCH, Settings
from bench.timing import Side, interleaved
from bench.verdict import Figure, missing


@dataclass(frozen=True)
class Bench:
    server: Server
    settings: Settings

    def on_postgres(self, run: Callable[[str], float]) -> Side:
        def side() -> float:
            with self.server.fresh() as dsn:
                return run(dsn)

        return side

    def on_sqlite(self, run: Callable[[Path], float]) -> Side:
        def side() -> float:
            SCRATCH.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="sqlite-", dir=SCRATCH) as folder:
                return run(Path(folder) / "jobs.db")

        return side

    def medians(self, sides: dict[str, Side], runs: int | None = None) -> dict[str, float]:
        return interleaved(runs or self.settings.runs, sides)

    def drains(self, *names: str) -> tuple[dict[str, Side], list[Figure]]:
        """The drains of those peers that take part and can run here, and a word on those that cannot."""
        jobs = self.settings.drain_jobs
        return self._rivals(names, lambda name: lambda: measure.drain(name, self.server, jobs))

    def pickups(self, *names: str) -> tuple[dict[str, Side], list[Figure]]:
        samples = self.settings.pickups
        return self._rivals(names, lambda name: lambda: measure.pickup(name, self.server, samples))

    def firings(self, *names: str) -> tuple[dict[str, Side], list[Figure]]:
        slots = self.settings.slots
        return self._rivals(names, lambda name: lambda: measure.fire(name, self.server, slots))

    def _rivals(self, names: tuple[str, ...], side: Callable[[str], Side]) -> tuple[dict[str, Side], list[Figure]]:
        sides: dict[str, Side] = {}
        absent: list[Figure] = []
        for name in (name for name in names if name in self.settings.peers):
            try:
                measure.check(PEERS[name])
                sides[name] = side(name)
            except Unavailable as reason:
                absent.append(missing(name, f"skipped: {reason}"))
        return sides, absent
