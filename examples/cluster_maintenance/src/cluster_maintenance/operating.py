"""What the commands do: start the nodes, compact, kill the leader, and tell what became of it."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster_maintenance import manifest, store
from cluster_maintenance.fleet import Fleet, Started
from cluster_maintenance.jobs import app, compact, evict
from cluster_maintenance.settings import Settings
from cluster_maintenance.watching import Watch
from oncue import ClusterJob, Conflict, Node
from oncue.policy import quorum
from oncue.verbs.cluster import Leader

KEY = "compact"
"""Of two compactions that are asked for at once, one is made."""
PORT = 8081
READY_SECONDS = 60.0
LEADER_SECONDS = 60.0
LOOK_SECONDS = 0.1
tell = partial(print, flush=True)
"""A line at once, into a pipe too."""


class Refused(Exception):
    """What was asked for cannot be done now; the message says why."""


async def up(fleet: Fleet, count: int, port: int | None, lease: str) -> None:
    """Start the nodes that do not run, and wait until they are members and one of them leads.

    `port`: of the first one's API; 0 for none, None for those that the nodes had before, or the usual ones.
    """
    running = {started.name for started in fleet.alive()}
    before = {started.name: started.address for started in fleet.all()} if port is None else {}
    started = []
    for number in range(count):
        name = f"node-{number + 1}"
        usual = None if port == 0 else f"127.0.0.1:{(port or PORT) + number}"
        if name not in running:
            started.append(fleet.start(name, before.get(name, usual), lease))
    await _until_members(fleet, started)
    print(f"{len(started)} nodes started, {len(running)} were there; logs are in {fleet.log('NAME')}")


async def _until_members(fleet: Fleet, started: list[Started]) -> None:
    end = time.monotonic() + READY_SECONDS
    while True:
        alive = {(node.name, node.pid) for node in await app.nodes.list() if node.named}
        missing = [one for one in started if (one.name, one.pid) not in alive]
        if not missing and await app.cluster.leader() is not None:
            return
        gone = [one for one in missing if not one.is_alive()]
        if gone or time.monotonic() > end:
            late = (gone or missing or started)[0].name
            raise Refused(f"{late} did not become a member of the cluster:\n{fleet.last_words(late)}")
        await asyncio.sleep(LOOK_SECONDS)


async def status(settings: Settings, fleet: Fleet) -> None:
    """The nodes with their stores, the last cluster jobs, and the manifest."""
    nodes, leader = {node.name: node for node in await app.nodes.list()}, await _leader_now()
    print(f"{'node':<10}  {'process':>8}  {'state':<8}  {'versions':>9}  {'garbage':>9}  {'file':>10}  API")
    for started in fleet.all():
        print(_line_of(settings, started, nodes.get(started.name), leader))
    print()
    for cluster in reversed(await app.cluster.list(limit=5)):
        counts = quorum.statuses_of(cluster)
        parts = ", ".join(f"{counts.count(one)} {one}" for one in dict.fromkeys(counts))
        print(f"job {cluster.id:<5} {cluster.job.task:<8} {quorum.job_status(cluster):<10} {parts}")
    newest = manifest.latest(settings.manifest)
    if newest is not None:
        kept = len(manifest.generations(settings.manifest))
        print(f"manifest: generation {newest['generation']}, by {newest['by']}, {kept} kept in {settings.manifest}")


async def _leader_now() -> str | None:
    leader = await app.cluster.leader()
    return None if leader is None else leader.name


def _line_of(settings: Settings, started: Started, node: Node | None, leader: str | None) -> str:
    state = "gone" if not started.is_alive() else "starts" if node is None else "alive"
    if node is not None and leader == started.name:
        state = "leads"
    with store.opened(settings.folder / started.name) as local:
        size = local.size()
    api = "" if started.address is None else f"http://{started.address}"
    return (
        f"{started.name:<10}  {started.pid:>8}  {state:<8}  {size.versions:>9,}  {size.garbage:>9,}  "
        f"{size.bytes / 1024:>6,.0f} KiB  {api}"
    )


async def create(pause: float, nodes: list[str] | None = None) -> int:
    """Create a compaction, or find the one that is under way."""
    try:
        return (await app.cluster.run(compact, {"pause": pause}, nodes=nodes, key=KEY)).id
    except Conflict as error:
        if error.job_id is None:
            raise
        print(f"job {error.job_id} is under way already")
        return error.job_id


async def run(settings: Settings, pause: float, nodes: list[str] | None) -> ClusterJob:
    """Compact all nodes, or these, and show what happens."""
    watch = Watch(await create(pause, nodes), tell)
    cluster = await watch.until(lambda _: False)
    print()
    _sum_up(settings, cluster)
    return cluster


async def run_eviction() -> ClusterJob:
    """Let the leader remove old manifests."""
    cluster = await app.cluster.run(evict)
    return await Watch(cluster.id, tell).until(lambda _: False)


async def kill_leader(settings: Settings, fleet: Fleet, during: str, pause: float) -> ClusterJob:
    """Start a compaction, kill -9 the leader in the middle of it, and show what becomes of it."""
    if len(fleet.alive()) < 3:
        raise Refused("three nodes are needed, so that two of three are a quorum without the leader: `up --nodes 3`")
    watch = Watch(await create(pause), tell)

    def is_in_the_middle(cluster: ClusterJob) -> bool:
        if during == "action":
            return bool(_published(settings, cluster))
        return _parts_run(cluster) and watch.seconds > 3 * pause

    cluster = await watch.until(is_in_the_middle)
    if cluster.job.finished:
        raise Refused(f"job {cluster.id} ended before its leader was killed: try a longer --pause")
    leader = await _leader(fleet)
    victim = next(started for started in fleet.alive() if started.name == leader.name)
    killed_at = watch.seconds
    victim.send(signal.SIGKILL)
    tell(f"+{killed_at:5.1f} s  kill -9 {victim.pid}: {leader.name}, which led under epoch {leader.epoch}")
    cluster = await watch.until(lambda _: False)
    print()
    taken_over = next(((at, name, epoch) for at, name, epoch in watch.leaders if epoch > leader.epoch), None)
    if taken_over is not None:
        at, name, epoch = taken_over
        print(f"leader    {name} took over {at - killed_at:.1f} s after the kill, under epoch {epoch}")
    _sum_up(settings, cluster)
    print(f"{leader.name} is gone; `cluster_maintenance up` starts it again")
    return cluster


def _parts_run(cluster: ClusterJob) -> bool:
    return quorum.statuses_of(cluster).count("running") > len(cluster.parts) // 2


def _published(settings: Settings, cluster: ClusterJob) -> list[Path]:
    """The generations of the manifest that this job has published: one at most."""
    uid = str(cluster.job.uid)
    return [path for path in manifest.generations(settings.manifest) if uid in path.read_text("utf-8")]


async def _leader(fleet: Fleet) -> Leader:
    """The leader, if it is one of the nodes that were started here."""
    end = time.monotonic() + LEADER_SECONDS
    while (leader := await app.cluster.leader()) is None:
        if time.monotonic() > end:
            raise Refused("no node leads")
        await asyncio.sleep(LOOK_SECONDS)
    if leader.name not in {started.name for started in fleet.alive()}:
        raise Refused(f"{leader.name} leads, which was not started here")
    return leader


def _sum_up(settings: Settings, cluster: ClusterJob) -> None:
    job = cluster.job
    quorate = {None: "", True: ", with a quorum", False: ", without a quorum"}[cluster.quorum]
    print(f"job       {cluster.id} {quorum.job_status(cluster)}{quorate}" + _because(job.error or job.reason))
    found = zip(cluster.parts, quorum.statuses_of(cluster), strict=True)
    if cluster.parts:
        print("parts     " + ", ".join(f"{part.node_name} {status}" for part, status in found))
    if isinstance(job.result, dict):
        print(f"action    recorded once, by {job.result['by']}, attempt {job.attempt}")
    for path in _published(settings, cluster):
        print(f"manifest  {path}")


def _because(why: str | None) -> str:
    return "" if why is None else f" ({why})"


def keep_busy(settings: Settings, name: str, seconds: float, wait: Callable[[float], None] = time.sleep) -> None:
    """Lock the file of a node's store, as a backup might."""
    path = settings.folder / name / "store.db"
    if not path.exists():
        raise Refused(f"{name}: expected the name of a node that has a store in {settings.folder}")
    connection = sqlite3.connect(path, timeout=READY_SECONDS, isolation_level=None)
    try:
        connection.execute("begin immediate")
        print(f"{path} is locked for {seconds:g} s")
        wait(seconds)
    finally:
        connection.close()
