"""Lines that delay, break at any time, and lose every notification: jobs are then picked up by polling."""

from __future__ import annotations

from chaos.stage import Stage
from tests.process.cluster import TOLERANCE, Process
from tests.process.program import step
from tests.process.wire import Weather, Wire

CREW, CLIENTS = 5, 2
BAD = Weather(cut=0.02, delay=0.3, longest=3.0, mute=True)
MUTE = Weather(mute=True)
POLL_SECONDS = 0.5
PICKUPS = 10
LONGEST_SECONDS = 600.0


def run(stage: Stage, amount: int, wire: Wire) -> None:
    """Cut so many lines."""
    crew, clients = started(stage, CREW)
    suffer(stage, amount, wire)
    stage.cluster.kill(*clients)
    pick_up(stage, PICKUPS, wire)
    stage.finish(crew)


def started(stage: Stage, many: int) -> tuple[list[Process], list[Process]]:
    """So many workers, and clients that enqueue all the time."""
    crew = [stage.cluster.start("--concurrency", "4") for _ in range(many)]
    stage.cluster.ready(*crew)
    return crew, [stage.cluster.run("tests.process.client", "0.03") for _ in range(CLIENTS)]


def suffer(stage: Stage, amount: int, wire: Wire) -> None:
    done, before = stage.outcome.done, wire.happened["cut"]
    stage.tolerance += BAD.longest  # a process learns so late of what it did
    wire.weather = BAD
    stage.cluster.until(lambda: wire.happened["cut"] - before >= amount, f"{amount} lines are cut", LONGEST_SECONDS)
    wire.weather = Weather()
    for what, name in {"cut": "lines cut", "delay": "delays", "mute": "notifications lost"}.items():
        done[name] += wire.happened[what]


def pick_up(stage: Stage, amount: int, wire: Wire) -> None:
    """Let nobody tell of so many jobs, one after the other. A busy machine may be late for some of them."""
    cluster, lost = stage.cluster, wire.happened["mute"]
    waits = []
    wire.weather = MUTE
    cluster.until_done(cluster.enqueue(step))
    for _ in range(amount):
        stage.wait(0.2)
        (job,) = cluster.enqueue(step, 0.0)
        cluster.until_done([job])
        found = cluster.job(job)
        assert found.started_at is not None
        waits.append((found.started_at - found.created_at).total_seconds())
        stage.outcome.done["picked up by polling"] += 1
    if min(waits) > POLL_SECONDS + TOLERANCE:
        stage.fault("polling picks up what nobody tells of", f"they waited {waits}")
    if wire.happened["mute"] == lost:
        stage.fault("polling picks up what nobody tells of", "every notification was heard")
