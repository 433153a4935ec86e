"""The application of the process tests on cluster jobs. Parts and leader actions leave marks, as all handlers here do.

Each waits for gates: `part` is the gate of all parts, and `part-NODE` that of one node's; `act` that of the action.
Without a name there is no gate.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from oncue import Node, NodeResult, Oncue, current_job
from tests.process import standstill
from tests.process.program import LOOK_SECONDS, is_open, mark, record

app = Oncue(name="cluster")


def is_free(gate: str, node: Node) -> bool:
    return not gate or is_open(gate) or is_open(f"{gate}-{node.name}")


@app.cluster_task(quorum_timeout="2s")
async def maintain(node: Node, part: str = "", act: str = "", seconds: float = 0.0) -> str:
    """A node's part: it runs until its gate is opened, and for so many seconds."""
    mark("start")
    while not is_free(part, node):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
    await asyncio.sleep(seconds)
    mark("end")
    return node.name


@maintain.leader_action
def publish(results: list[NodeResult], quorum: bool, node: Node, act: str, seconds: float) -> dict[str, Any]:
    """In a thread, which nothing can stop."""
    mark("start")
    while not is_free(act, node):
        time.sleep(LOOK_SECONDS)
    time.sleep(seconds)
    mark("end")
    completed = [result.node for result in results if result.completed]
    return {"by": node.name, "quorum": quorum, "completed": completed, "uid": str(current_job().uid)}


@app.cluster_task(leader_only=True)
async def rotate(node: Node) -> str:
    mark("start")
    mark("end")
    return node.name


if folder := os.environ.get("PROGRAM_FOLDER"):
    name = os.environ["PROGRAM_NAME"]
    record(app, Path(folder, f"{name}.history").open("w"), name)  # noqa: SIM115
    if "TEST_STANDSTILL" in os.environ:
        standstill.install(Path(folder), name)
