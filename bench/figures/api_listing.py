"""api_listing: what the API takes to answer when two million finished jobs are kept, against one with a thousand."""

from __future__ import annotations

import socket
import sys

from bench import timing
from bench.figures.context import Bench
from bench.server.site import Site, fill, medians, serving
from bench.verdict import Figure, at_most, limited
from oncue.model import STATES

MOST_ROWS = 20_000
JOBS = "/api/admin/jobs"
FILTERS = (
    *(f"status={state}" for state in STATES),
    "status=success",
    "status=failed,cancelled",
    "queue=mail",
    "queue=rare",
    "queue=nosuch",
    "task=task3",
    "task=rare",
    "task=nosuch",
    "status=queued&queue=mail",
    "status=failed&task=rare",
    "status=failed&queue=mail&task=task3",
    "offset=50",
    "status=succeeded&offset=50",
    "status=queued&offset=50",
    "before=900",
)
PATHS = (
    JOBS,
    *(f"{JOBS}?{words}&limit=20" for words in FILTERS),
    f"{JOBS}/stats",
    "/api/admin/queues",
    "/api/admin/scheduled-jobs",
    "/api/admin/nodes",
    "/api/admin/audit-log",
    "/health/ready",
)


def measure(bench: Bench) -> list[Figure]:
    finished, unfinished, few_jobs = bench.settings.kept_jobs, bench.settings.open_jobs, bench.settings.few_kept_jobs
    requests, seconds = bench.settings.requests, bench.settings.statistics_seconds
    with bench.server.fresh() as many, bench.server.fresh() as few:
        timing.run(fill(many, finished, unfinished, rarity=1_000))
        # Of each kind so many that every filter has as much to show on both sides.
        timing.run(fill(few, few_jobs // 2, few_jobs // 2, rarity=4))
        with serving(many, _free_port()) as large, serving(few, _free_port()) as small:
            rows = timing.run(large.rows_read(PATHS, seconds))
            compared = [_compared(path, large, small, requests) for path in PATHS]
    worst = max(compared, key=lambda found: found[0] / found[1])
    figure = at_most("api_listing", *worst[:2], 2.5)
    slowest = Figure(**{**figure.record(), "note": f"ms, the worst of {len(PATHS)}: {worst[2]}"})  # type: ignore[arg-type]
    return [slowest, limited("api_listing, rows read", rows, MOST_ROWS, "rows")]


def bare(bench: Bench) -> list[Figure]:
    return []


def _compared(path: str, large: Site, small: Site, requests: int) -> tuple[float, float, str]:
    slow, quick = medians(path, (large, small), requests)
    print(f"  {path}: {slow:.2f} ms, {quick:.2f} ms", file=sys.stderr, flush=True)
    return slow, quick, path


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
