"""kill -9, again and again: workers in the middle of their jobs, leaders, beginners, and clients."""

from __future__ import annotations

from signal import SIGKILL

from chaos.stage import LOAD, Stage
from tests.process.cluster import Process

CREW = 8
SECONDS = 0.5
PAUSE = (0.2, 1.4)
AT_ONCE = (1, 1, 1, 2, 3)
OF_LEADERS, OF_CLIENTS = 0.2, 0.1


def run(stage: Stage, amount: int) -> None:
    """Kill so many processes, and put others in their place at once."""
    cluster, dice = stage.cluster, stage.dice
    crew = [cluster.start("--concurrency", "4") for _ in range(CREW)]
    cluster.ready(*crew)
    client = cluster.run("tests.process.client", "0.1")
    with cluster.load(*LOAD, pause=0.15, times=1, seconds=SECONDS):
        killed = 0
        while killed < amount:
            stage.wait(dice.uniform(*PAUSE))
            cluster.ready(*crew[: CREW // 2])  # the older half: somebody has to be there to take over
            if dice.random() < OF_CLIENTS:
                kill_client(stage, client)
                client = cluster.run("tests.process.client", "0.1")
                killed += 1
            else:
                victims = chosen(stage, crew, min(dice.choice(AT_ONCE), amount - killed))
                kill(stage, victims)
                crew[:] = [worker for worker in crew if worker not in victims]
                crew += [cluster.start("--concurrency", "4") for _ in victims]
                killed += len(victims)
    cluster.kill(client)
    cluster.ready(*crew)
    stage.finish(crew)


def chosen(stage: Stage, crew: list[Process], many: int) -> list[Process]:
    """Whoever, or the leader and others."""
    victims = stage.dice.sample(crew, many)
    lease = stage.cluster.lease()
    if lease is not None and stage.dice.random() < OF_LEADERS:
        leaders = [worker for worker in crew if worker.name == lease.holder_name]
        victims = [*leaders, *(victim for victim in victims if victim not in leaders)][:many]
    return victims


def kill(stage: Stage, victims: list[Process]) -> None:
    done, lease = stage.outcome.done, stage.cluster.lease()
    stage.cluster.kill(*victims)
    nodes = stage.node_ids()
    for victim in victims:
        held = stage.held(nodes[victim.name]) if victim.name in nodes else []
        stage.watch.add(held)
        done["kills"] += 1
        done["kills in the middle of a job"] += bool(held or victim.in_the_middle)
        done["kills of leaders"] += lease is not None and lease.holder_name == victim.name
        done["kills at the start"] += victim.name not in nodes
        done["jobs taken from the dead"] += len(held)


def kill_client(stage: Stage, client: Process) -> None:
    client.send(SIGKILL)
    stage.cluster.died(client)
    stage.outcome.done["kills"] += 1
    stage.outcome.done["kills of clients"] += 1
