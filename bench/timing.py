"""Medians of interleaved runs: the machine is noisy, so every side sees the same weather."""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Side = Callable[[], float]


def interleaved(runs: int, sides: dict[str, Side]) -> dict[str, float]:
    """Run every side once per round and return each side's median."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, side in sides.items():
            samples[name].append(side())
            print(f"  {name}: {samples[name][-1]:,.2f}", file=sys.stderr, flush=True)
    return {name: statistics.median(values) for name, values in samples.items()}


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
