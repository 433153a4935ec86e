"""How large a run is and which peers take part, read once from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
SCRATCH = BUILD / "bench"

ALL_PEERS = ("pgqueuer", "graphile_worker", "procrastinate", "celery", "huey", "apscheduler")


@dataclass(frozen=True)
class Settings:
    """The sizes of one run. A quick run keeps every figure and shrinks the amounts."""

    peers: tuple[str, ...] = ("pgqueuer", "apscheduler")
    runs: int = 3
    drain_jobs: int = 100_000
    bulk_jobs: int = 100_000
    single_jobs: int = 3_000
    pickups: int = 300
    many_rows: int = 5_000_000
    few_rows: int = 10_000
    memory_jobs: int = 1_000_000
    slots: int = 100_000
    schedules: int = 100_000
    limited_jobs: int = 30_000
    kept_jobs: int = 2_000_000
    open_jobs: int = 100_000
    checked_days: float = 40
    simulated_days: float = 1_000
    repeated_seeds: int = 500


QUICK = {
    "drain_jobs": 30_000,
    "bulk_jobs": 30_000,
    "single_jobs": 1_000,
    "pickups": 150,
    "many_rows": 500_000,
    "memory_jobs": 200_000,
    "slots": 30_000,
    "limited_jobs": 15_000,
    "kept_jobs": 200_000,
    "open_jobs": 10_000,
    "checked_days": 4,
    "simulated_days": 16,
    "repeated_seeds": 10,
}


def chosen_peers(text: str) -> tuple[str, ...]:
    """`all`, a comma-separated list, or nothing for the default one."""
    if text == "all":
        return ALL_PEERS
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(set(names) - set(ALL_PEERS))
    if unknown:
        raise SystemExit(f"unknown peers: {', '.join(unknown)}; known are {', '.join(ALL_PEERS)}")
    return names or Settings.peers


def load() -> Settings:
    peers = chosen_peers(os.environ.get("PEERS", ""))
    return Settings(peers=peers, **(QUICK if os.environ.get("QUICK") else {}))
