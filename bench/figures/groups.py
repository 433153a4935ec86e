"""groups: what groups of a queue cost.

A claim beside a million jobs of groups that have no room, the drain of a thousand limited groups and of a hundred
thousand groups of one job, and how evenly four nodes keep a rate.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench import oncue_groups, oncue_side
from bench.crew import Child
from bench.figures.context import Bench
from bench.oncue_groups import LIMIT, START
from bench.settings import SCRATCH
from bench.verdict import Figure, at_least, at_most, limited

SEATS = 100
CLAIMS = 7
FULL_GROUPS = 100
RATE = 1000
WITHIN_PERCENT = 5


def measure(bench: Bench) -> list[Figure]:
    return [*_claims(bench), *_drains(bench), *_rates(bench)]


def bare(bench: Bench) -> list[Figure]:
    return []


def _claims(bench: Bench) -> list[Figure]:
    """The server counts the pages, so these do not depend on how busy the machine is."""
    waiting = bench.settings.grouped_rows
    alone, beside = _pages(bench, 0), _pages(bench, waiting)
    return [
        at_most("groups claim without a group", beside[0], alone[0], 1.5),
        at_most("groups claim of others", beside[1], alone[1], 1.5),
    ]


def _pages(bench: Bench, waiting: int) -> tuple[float, float]:
    with bench.server.fresh() as dsn:
        oncue_groups.fill_for_claims(dsn, SEATS, CLAIMS, waiting, FULL_GROUPS)
        plain, grouped = (oncue_groups.claim_pages(dsn, SEATS, CLAIMS, grouped=grouped) for grouped in (False, True))
    return statistics.median(plain), statistics.median(grouped)


def _drains(bench: Bench) -> list[Figure]:
    jobs, groups = bench.settings.drain_jobs, bench.settings.limited_groups
    rates = bench.medians(
        {
            "no groups": bench.on_postgres(lambda dsn: oncue_side.drain_pg(dsn, jobs, processes=1)),
            "limited": bench.on_postgres(lambda dsn: oncue_groups.drain(dsn, jobs, groups, LIMIT)),
            "single": bench.on_postgres(lambda dsn: oncue_groups.drain(dsn, jobs, jobs, None)),
        }
    )
    return [
        at_least("groups drain, limited", rates["limited"], rates["no groups"], 0.4),
        at_least("groups drain, of one job", rates["single"], rates["no groups"], 0.3),
    ]


def _rates(bench: Bench) -> list[Figure]:
    seconds, nodes = bench.settings.paced_seconds, bench.settings.limited_nodes
    of_group = bench.on_postgres(lambda dsn: _worst_second(dsn, seconds, nodes, group="paced"))()
    of_queue = bench.on_postgres(lambda dsn: _worst_second(dsn, seconds, nodes, group=None))()
    return [
        limited("groups rate of a group, worst second", of_group, WITHIN_PERCENT, "% off"),
        limited("groups rate of a queue, worst second", of_queue, WITHIN_PERCENT, "% off"),
    ]


def _worst_second(dsn: str, seconds: int, nodes: int, group: str | None) -> float:
    """By how many percent the starts of any whole second differ from what the rate says."""
    oncue_groups.prepare_rate(dsn, RATE, RATE * (seconds + 2), group)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rate-", dir=SCRATCH) as folder:
        traces = [Path(folder) / f"{number}.trace" for number in range(nodes)]
        crew = [Child("bench.oncue_groups", "work", dsn, trace) for trace in traces]
        try:
            for node in crew:
                node.wait_ready()
            oncue_groups.resume(dsn)
            time.sleep(seconds + 1)
            for node in crew:
                node.go()
            for node in crew:
                node.result()
        finally:
            for node in crew:
                node.stop()
        starts = [at for trace in traces for (at,) in START.iter_unpack(trace.read_bytes())]
    return _percent_off(starts, seconds)


def _percent_off(starts: list[int], seconds: int) -> float:
    """The seconds begin with the first start; what the rate lets start at once belongs to the part that is left out."""
    began = min(starts) + 500_000_000
    found = Counter((at - began) // 1_000_000_000 for at in starts)
    counts = [found[second] for second in range(seconds)]
    print(f"  starts: {counts}", file=sys.stderr, flush=True)
    return max(abs(count - RATE) for count in counts) * 100 / RATE
