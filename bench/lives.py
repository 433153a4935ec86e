"""Lives of simulated clusters, as many at a time as there are processors."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from oncue.sim.checker import report
from oncue.sim.days import Life, simulate_days


class Lived(NamedTuple):
    """One life: its seed, what it came to, and what was not kept of the promises."""

    seed: int
    digest: str
    events: int
    jobs: int
    broken: str


def live(seed: int, days: float, digested: bool) -> Lived:
    """Live one life. What is garbage is collected between lives: a history is only ever added to."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    lived = _lived(seed, days, digested)
    gc.collect()
    return lived


def _lived(seed: int, days: float, digested: bool) -> Lived:
    world, violations = simulate_days(seed, Life(days=days))
    events = world.history.events
    jobs = sum(event.kind == "job" for event in events)
    digest = world.history.digest() if digested else ""
    lived = Lived(seed, digest, len(events), jobs, report(violations) if violations else "")
    world.close()
    return lived


def all_of(seeds: Sequence[int], days: float, hash_seed: str | None = None) -> list[Lived]:
    """The lives of these seeds, in their order. With a hash seed for the processes, each with its history's digest."""
    found, began = [], time.monotonic()
    with (
        _hashing(hash_seed or "random"),
        ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool,
    ):
        for lived in pool.map(live, seeds, [days] * len(seeds), [hash_seed is not None] * len(seeds)):
            found.append(lived)
            _show(len(found), len(seeds), time.monotonic() - began, lived)
    print(file=sys.stderr)
    return found


@contextmanager
def _hashing(seed: str) -> Iterator[None]:
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = seed
    try:
        yield
    finally:
        del os.environ["PYTHONHASHSEED"]
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


def _show(done: int, wanted: int, seconds: float, lived: Lived) -> None:
    if lived.broken:
        print(f"\nseed {lived.seed}:\n{lived.broken}", file=sys.stderr)
    print(f"\r  {done} of {wanted} lives, {seconds:.0f} s ", end="", file=sys.stderr, flush=True)
