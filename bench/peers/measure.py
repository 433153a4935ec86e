"""Runs a peer's verbs in its own environment, on a fresh database, and returns one number."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import database
from bench.crew import Child
from bench.peers import environment, redis
from bench.peers.catalog import PEERS, Peer
from bench.settings import SCRATCH


def drain(name: str, server: database.Server, drain_jobs: int) -> float:
    """Jobs per second from the first handler call to the last."""
    peer = PEERS[name]
    python, jobs = prepare(peer), peer.jobs(drain_jobs)
    with broker(peer, server) as address:
        Child(peer.module, "fill", address, jobs, python=python).done()
        if peer.broker == "postgres":
            database.calm(address)
        return float(Child(peer.module, "drain", address, jobs, python=python).result()["rate"])


def pickup(name: str, server: database.Server, samples: int) -> float:
    """Median milliseconds from the call that enqueues to the start of the handler."""
    peer = PEERS[name]
    python = prepare(peer)
    with broker(peer, server) as address:
        worker = Child(peer.module, "pickup", address, samples, python=python)
        try:
            worker.wait_ready()
            Child(peer.module, "feed", address, samples, python=python).done()
            return float(worker.result()["p50"])
        finally:
            worker.stop()


def fire(name: str, server: database.Server, slots: int) -> float:
    """Slots per second, from the first run to the last."""
    peer = PEERS[name]
    python, some = prepare(peer), peer.jobs(slots)
    with broker(peer, server) as address:
        Child(peer.module, "fill", address, some, python=python).done()
        database.calm(address)
        return float(Child(peer.module, "fire", address, some, python=python).result()["rate"])


def check(peer: Peer) -> None:
    """Install what the peer needs, or say why it cannot run here."""
    prepare(peer)
    if peer.broker == "redis":
        redis.server_binary()


def prepare(peer: Peer) -> str:
    if peer.node:
        environment.node_modules(peer)
    return environment.python_for(peer)


@contextlib.contextmanager
def broker(peer: Peer, server: database.Server) -> Iterator[str]:
    if peer.broker == "postgres":
        with server.fresh() as dsn:
            yield dsn
    elif peer.broker == "redis":
        with redis.running() as address:
            yield address
    else:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            yield str(Path(folder) / "peer.db")
