"""Every kind of write is committed, again and again, without its author ever hearing of it."""

from __future__ import annotations

import time

from chaos.lines import started
from chaos.stage import Stage
from tests.process.wire import WRITES, Weather, Wire

CREW = 5
SWALLOWED = Weather(
    swallow={"enqueue": 0.15, "claim": 0.15, "apply": 0.15, "decide": 0.5, "beat": 0.15, "election": 0.35}
)
LEAST_OF_EACH = 0.05
LONGEST_SECONDS = 400.0


def run(stage: Stage, amount: int, wire: Wire) -> None:
    """Swallow so many replies, some of each kind."""
    crew, clients = started(stage, CREW)
    swallow(stage, amount, wire)
    stage.cluster.kill(*clients)
    stage.finish(crew)


def swallow(stage: Stage, amount: int, wire: Wire) -> None:
    done, end = stage.outcome.done, time.monotonic() + LONGEST_SECONDS
    wire.weather = SWALLOWED
    while not is_enough(wire, amount) and time.monotonic() < end:
        stage.wait(0.1)
    wire.weather = Weather()
    for kind in WRITES:
        done["replies"] += wire.happened[kind]
        done[f"replies: {kind}"] += wire.happened[kind]


def is_enough(wire: Wire, amount: int) -> bool:
    counts = [wire.happened[kind] for kind in WRITES]
    return sum(counts) >= amount and min(counts) >= amount * LEAST_OF_EACH
