"""Which peers there are, what they are made of and what is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    name: str
    broker: str
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    pickup: bool = False
    # A scheduler, not a queue: it fires slots and drains nothing.
    schedules: bool = False
    # Slow peers get fewer jobs: their rate does not depend on the number, the run's length does.
    jobs_divisor: int = 1

    @property
    def module(self) -> str:
        return f"bench.peers.{self.name}"

    def jobs(self, drain_jobs: int) -> int:
        return drain_jobs // self.jobs_divisor


PEERS = {
    peer.name: peer
    for peer in (
        Peer("pgqueuer", "postgres", python=("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop"), pickup=True),
        Peer("graphile_worker", "postgres", node=("graphile-worker@0.17.3",)),
        Peer(
            "procrastinate",
            "postgres",
            python=("procrastinate==3.10.0", "psycopg[binary,pool]", "uvloop"),
            pickup=True,
            jobs_divisor=10,
        ),
        Peer("celery", "redis", python=("celery[redis]==5.7.0",), jobs_divisor=5),
        Peer(
            "apscheduler",
            "postgres",
            python=("apscheduler==3.11.3", "sqlalchemy==2.1.8", "psycopg[binary]==3.3.8"),
            jobs_divisor=25,
            schedules=True,
        ),
        Peer("huey", "sqlite", python=("huey==3.5.4",), jobs_divisor=10),
    )
}
