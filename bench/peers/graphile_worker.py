"""graphile-worker: the settings of its own performance page; the work is done by graphile_worker.cjs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench import child
from bench.peers.catalog import PEERS
from bench.peers.environment import node_modules

SCRIPT = Path(__file__).with_suffix(".cjs")


def node(*words: str) -> None:
    env = {**os.environ, "NODE_PATH": str(node_modules(PEERS["graphile_worker"])), "NO_LOG_SUCCESS": "1"}
    subprocess.run(["node", str(SCRIPT), *words], env=env, check=True)


def fill(dsn: str, jobs: str) -> None:
    node("fill", dsn, jobs)


def drain(dsn: str, jobs: str) -> None:
    node("drain", dsn, jobs)


if __name__ == "__main__":
    child.dispatch({"fill": fill, "drain": drain})
