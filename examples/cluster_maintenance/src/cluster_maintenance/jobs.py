"""The application: every node compacts its own store, the leader publishes the manifest and evicts old ones."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from cluster_maintenance import compaction, manifest, settings, store
from oncue import Cancel, Node, NodeResult, Oncue, Retry, Skip, cron, current_job

NAME = "cluster_maintenance"
APP = "cluster_maintenance.jobs:app"
FIRST_WRITES = 20_000
WRITE_EVERY = 0.2
UNNAMED = "local"

app = Oncue(name=NAME)


@app.cluster_task(schedule=cron("0 3 * * *"), max_retries=10)
def compact(node: Node, pause: float = 0.0) -> dict[str, Any]:
    """A node's part: compact its own store. `pause`: so many seconds between two steps, for spectators."""
    job = current_job()

    def tell(fraction: float, note: str) -> None:
        if job.cancel_requested:
            raise Cancel("it was asked to stop; the next compaction goes on from here")
        job.progress(fraction, note)
        time.sleep(pause)

    try:
        with store.opened(own_folder()) as local:
            report = compaction.compact(local, tell)
    except sqlite3.OperationalError as error:
        if compaction.is_busy(error):
            raise Retry("the disk is busy", after="1s") from error
        raise
    if report is None:
        raise Skip("nothing to compact")
    job.rows(report.dropped)
    job.details(segment=report.segment, saved=report.bytes_before - report.bytes_after, resumed=report.resumed)
    return asdict(report)


@compact.leader_action
def publish(results: list[NodeResult], quorum: bool, node: Node, pause: float) -> dict[str, Any]:
    """The leader: publish which segment of which node is the current one."""
    time.sleep(pause)
    segments = {
        result.node: {name: result.result[name] for name in ("segment", "checksum", "keys")}
        for result in results
        if result.completed
    }
    told = {"by": node.name, "quorum": quorum}
    published, is_new = manifest.publish(settings.load().manifest, str(current_job().uid), told, segments)
    time.sleep(pause)
    return {"generation": published["generation"], "published_now": is_new, "by": node.name, "nodes": sorted(segments)}


@app.cluster_task(leader_only=True, schedule=cron("30 3 * * *"))
def evict(node: Node) -> dict[str, Any]:
    """The leader alone: remove old generations of the manifest."""
    own = settings.load()
    return {"by": node.name, "removed": manifest.evict(own.manifest, own.keep)}


def own_folder() -> Path:
    """Where the store of this node is: it goes by the name that the node was given."""
    return settings.load().folder / (app.settings.node_name or UNNAMED)


# --- what a node does besides ---------------------------------------------------------------------------------------


@app.lifespan
async def writes() -> AsyncIterator[None]:
    """The load: clients that write to the store of this node for as long as it works."""
    per_second, over, dice = settings.load().writes, threading.Event(), Random(app.settings.node_name)
    thread = threading.Thread(target=_write, args=(per_second, dice, over), name="writes")
    if per_second:
        await asyncio.to_thread(_fill, dice, over)
        thread.start()
    yield
    over.set()
    if per_second:
        await asyncio.to_thread(thread.join)


def _fill(dice: Random, over: threading.Event) -> None:
    """A store that is new gets something to compact at once."""
    with store.opened(own_folder()) as local:
        if not local.size().versions:
            _insist(local, FIRST_WRITES, dice, over)


def _write(per_second: float, dice: Random, over: threading.Event) -> None:
    with store.opened(own_folder()) as local:
        while not over.wait(WRITE_EVERY):
            _insist(local, max(round(per_second * WRITE_EVERY), 1), dice, over)


def _insist(local: store.LocalStore, count: int, dice: Random, over: threading.Event) -> None:
    while not over.is_set():
        try:
            return local.write(count, dice)
        except sqlite3.OperationalError as error:
            if not compaction.is_busy(error):
                raise
