"""The peers on their own, without oncue."""

from __future__ import annotations

from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, plain


def measure(bench: Bench) -> list[Figure]:
    drains, absent = bench.drains(*bench.settings.peers)
    pickups, _ = bench.pickups(*(name for name in ("pgqueuer", "procrastinate") if name in drains))
    return _figures(bench, "drain", drains, "jobs/s") + _figures(bench, "pickup_p50", pickups, "ms") + absent


def _figures(bench: Bench, what: str, sides: dict[str, Side], unit: str) -> list[Figure]:
    medians = bench.medians({f"{name} {what}": side for name, side in sides.items()})
    return [plain(name, value, unit) for name, value in medians.items()]
