"""PostgreSQL is restarted without a farewell, again and again, sometimes before anybody has come back to it."""

from __future__ import annotations

from chaos.stage import LOAD, Stage, insisted
from tests.postgres import Server

CREW = 4
PAUSE = (0.2, 2.5)


def run(stage: Stage, amount: int, server: Server) -> None:
    cluster, dice, done = stage.cluster, stage.dice, stage.outcome.done
    crew = [cluster.start("--concurrency", "6") for _ in range(CREW)]
    cluster.ready(*crew)
    client = cluster.run("tests.process.client", "0.1")
    with cluster.load(*LOAD, pause=0.1, times=1, seconds=0.3) as load:
        for _ in range(amount):
            stage_wait(stage, dice.uniform(*PAUSE))
            busy = sum(len(worker.in_the_middle) for worker in crew)
            server.control("restart", "-m", "immediate")
            done["restarts"] += 1
            done["restarts under running jobs"] += busy > 0
        done["enqueues refused meanwhile"] += load.refused
    cluster.kill(client)
    insisted(cluster.time)
    stage.finish(crew)


def stage_wait(stage: Stage, seconds: float) -> None:
    insisted(lambda: stage.wait(seconds))
