"""window_close: 100,000 users with the same cutoff, whose jobs wait: until each day is decided, its job ended and its
user moved on to the next day; and the same with the job of a cutoff hook for each of them.

Another process claims and settles ordinary jobs meanwhile, a hundred at a time; its rate is compared with what it has
on the same database while nothing is closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import bare_windows, oncue_side, oncue_windows
from bench.crew import Child
from bench.figures.context import Bench
from bench.verdict import Figure, at_least, plain

BAR = 0.1


def measure(bench: Bench) -> list[Figure]:
    users, jobs = bench.settings.closed_users, bench.settings.claimed_jobs
    found: dict[str, list[float]] = {"alone": [], "beside": []}

    def closed(url: str, hooks: bool = False) -> float:
        oncue_windows.fill(url, users, users, hooks=hooks)
        return _closed(url, users)

    def beside(dsn: str) -> float:
        """How much of its rate a process keeps that claims ordinary jobs."""
        oncue_windows.fill(dsn, users, users)
        oncue_side.fill_for_claims(dsn, jobs, 0)
        planner = Child("bench.oncue_windows", "crowd", dsn, users)
        try:
            planner.wait_ready()
            alone = _claiming(dsn, lambda: time.sleep(bench.settings.claiming_seconds))

            def close() -> None:
                planner.go()
                planner.result()

            during = _claiming(dsn, close)
        finally:
            planner.stop()
        found["alone"].append(alone)
        found["beside"].append(during)
        return during / alone

    sides = {
        "bare": bench.on_postgres(lambda dsn: bare_windows.close_postgres(dsn, users)),
        "oncue": bench.on_postgres(closed),
        "with hooks": bench.on_postgres(lambda dsn: closed(dsn, hooks=True)),
        "bare, SQLite": bench.on_sqlite(lambda path: bare_windows.close_sqlite(path, users)),
        "oncue, SQLite": bench.on_sqlite(lambda path: closed(f"sqlite:///{path}")),
        "claims": bench.on_postgres(beside),
    }
    rates = bench.medians(sides, bench.settings.long_runs)
    middle = sorted(zip(found["beside"], found["alone"], strict=True), key=lambda pair: pair[0] / pair[1])
    during, alone = middle[len(middle) // 2]
    return [
        at_least("window_close", rates["oncue"], rates["bare"], BAR),
        at_least("window_close, hooks", rates["with hooks"], rates["bare"], BAR),
        at_least("window_close, SQLite", rates["oncue, SQLite"], rates["bare, SQLite"], BAR),
        at_least("window_close claims", during, alone, 0.5),
    ]


def bare(bench: Bench) -> list[Figure]:
    users = bench.settings.closed_users
    side = bench.on_postgres(lambda dsn: bare_windows.close_postgres(dsn, users))
    return [plain("bare window_close", bench.medians({"bare": side})["bare"], "users/s")]


def _claiming(dsn: str, meanwhile: Callable[[], object]) -> float:
    """Jobs per second that a process claims and settles while something else is done."""
    claiming = Child("bench.oncue_windows", "claim", dsn)
    try:
        claiming.wait_ready()
        meanwhile()
        claiming.go()
        return float(claiming.result()["rate"])
    finally:
        claiming.stop()


def _closed(url: str, users: int) -> float:
    planner = Child("bench.oncue_windows", "crowd", url, users)
    try:
        planner.wait_ready()
        planner.go()
        answer = planner.result()
    finally:
        planner.stop()
    return float(answer["close_rate"])
