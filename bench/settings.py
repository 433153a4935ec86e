"""How large a run is, how often it is repeated and which peers take part, read once from the environment."""

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
    """The sizes of one run. A quick or a tiny run keeps every figure and shrinks the amounts."""

    peers: tuple[str, ...] = ("pgqueuer", "apscheduler")
    runs: int = 5
    """How many runs a median is made of."""
    long_runs: int = 3
    """The same for what takes long and swings little."""
    drain_jobs: int = 100_000
    bulk_jobs: int = 100_000
    single_jobs: int = 3_000
    pickups: int = 300
    cluster_jobs: int = 150
    muted_cluster_jobs: int = 100
    many_rows: int = 5_000_000
    few_rows: int = 10_000
    memory_jobs: int = 1_000_000
    slots: int = 100_000
    few_schedules: int = 1_000
    schedules: int = 100_000
    ticks: int = 31
    limited_jobs: int = 30_000
    limited_nodes: int = 4
    kills: int = 6
    grouped_rows: int = 1_000_000
    limited_groups: int = 1_000
    paced_seconds: int = 8
    deliveries: int = 30_000
    endpoints: int = 1_000
    isolation_seconds: float = 20
    isolation_start_up: float = 3
    waiting_deliveries: int = 100_000
    hanging_seconds: float = 15
    scheduled_webhooks: int = 100_000
    scheduled_seconds: float = 600
    few_subjects: int = 10_000
    subjects: int = 1_000_000
    closed_users: int = 100_000
    claimed_jobs: int = 400_000
    claiming_seconds: float = 4
    kept_jobs: int = 2_000_000
    open_jobs: int = 100_000
    few_kept_jobs: int = 1_000
    requests: int = 45
    statistics_seconds: float = 1.2
    """How long it takes until the server's processes have told what they read."""
    tabs: int = 100
    tab_seconds: float = 30
    tab_warm_up: float = 6
    checked_days: float = 40
    simulated_days: float = 1_000
    repeated_seeds: int = 500
    repeated_days: float = 1


QUICK = {
    "drain_jobs": 30_000,
    "bulk_jobs": 30_000,
    "single_jobs": 1_000,
    "pickups": 150,
    "cluster_jobs": 50,
    "muted_cluster_jobs": 20,
    "many_rows": 500_000,
    "memory_jobs": 200_000,
    "slots": 30_000,
    "limited_jobs": 15_000,
    "grouped_rows": 100_000,
    "paced_seconds": 4,
    "deliveries": 10_000,
    "isolation_seconds": 10,
    "hanging_seconds": 8,
    "scheduled_seconds": 60,
    "subjects": 200_000,
    "closed_users": 20_000,
    "claimed_jobs": 150_000,
    "kept_jobs": 200_000,
    "open_jobs": 10_000,
    "tab_seconds": 12,
    "checked_days": 4,
    "simulated_days": 16,
    "repeated_seeds": 10,
}

TINY = Settings(
    peers=(),
    runs=1,
    long_runs=1,
    drain_jobs=300,
    bulk_jobs=300,
    single_jobs=20,
    pickups=5,
    cluster_jobs=3,
    muted_cluster_jobs=2,
    many_rows=2_000,
    few_rows=1_000,
    memory_jobs=300,
    slots=200,
    few_schedules=100,
    schedules=300,
    ticks=3,
    limited_jobs=200,
    limited_nodes=2,
    kills=1,
    grouped_rows=1_000,
    limited_groups=10,
    paced_seconds=1,
    deliveries=200,
    endpoints=20,
    isolation_seconds=0.5,
    isolation_start_up=0.1,
    waiting_deliveries=200,
    hanging_seconds=0.2,
    scheduled_webhooks=100,
    scheduled_seconds=2,
    few_subjects=100,
    subjects=300,
    closed_users=100,
    claimed_jobs=10_000,
    claiming_seconds=0.1,
    kept_jobs=300,
    open_jobs=100,
    few_kept_jobs=100,
    requests=1,
    statistics_seconds=0.0,
    tabs=4,
    tab_seconds=0.5,
    tab_warm_up=0.2,
    checked_days=0.05,
    simulated_days=0.04,
    repeated_seeds=1,
    repeated_days=0.05,
)
"""For the tests: every figure comes to its verdict in a second or two, and its numbers mean nothing."""


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
    amounts = QUICK if os.environ.get("QUICK") else {}
    return Settings(peers=peers, **amounts, **chosen_runs(os.environ.get("RUNS", "")))


def chosen_runs(text: str) -> dict[str, int]:
    """A number of runs for all medians, or nothing for the default ones."""
    if not text:
        return {}
    if not text.isdecimal() or int(text) < 1:
        raise SystemExit(f"RUNS: expected a number of runs from 1, not {text!r}")
    return {"runs": int(text), "long_runs": int(text)}
