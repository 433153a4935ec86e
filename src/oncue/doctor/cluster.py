"""What can be in the way of cluster jobs: no leader, a pause, or a limit on their queue."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.doctor.findings import Check, Snapshot, few
from oncue.model import CLUSTER_ADDRESS, CLUSTER_QUEUE, Queue
from oncue.policy.words import plural


def checked(snapshot: Snapshot) -> list[Check]:
    """Nothing is said where there are no cluster jobs."""
    queue = next((queue for queue in snapshot.queues if queue.name == CLUSTER_QUEUE), None)
    waiting = [job.id for job in snapshot.waiting if job.address == CLUSTER_ADDRESS and job.visible_at <= snapshot.now]
    found = [*_unled(snapshot, waiting), *([] if queue is None else _held_up(snapshot, queue))]
    if not found and waiting:
        return [Check("cluster", "ok", f"{plural(len(waiting), 'cluster job')} waiting for their parts")]
    return found


def _unled(snapshot: Snapshot, waiting: list[int]) -> Iterator[Check]:
    lease = snapshot.leader
    if not waiting or (lease is not None and lease.expires_at > snapshot.now):
        return
    jobs = f"no node leads, and {plural(len(waiting), 'cluster job')} waiting: {few([str(job) for job in waiting])}"
    if snapshot.live:
        yield Check("cluster", "warn", jobs, "a live node takes the lead within its lease; look again in a minute")
    else:
        yield Check("cluster", "fail", jobs, "start a worker: the leader writes their parts and decides them")


def _held_up(snapshot: Snapshot, queue: Queue) -> Iterator[Check]:
    """What holds up parts counts against their quorum's time-out."""
    serving = sum(CLUSTER_QUEUE in node.queues for node in snapshot.live)
    advice = f"`oncue queues limit {CLUSTER_QUEUE} --global none --rate none`"
    if queue.paused_at is not None:
        text = f"the queue {CLUSTER_QUEUE} is paused: no part and no leader action of a cluster job begins"
        yield Check("cluster", "warn", text, f"`oncue queues resume {CLUSTER_QUEUE}`")
    if queue.global_limit is not None and queue.global_limit < serving:
        jobs = plural(queue.global_limit, "job")
        text = f"{jobs} of the queue {CLUSTER_QUEUE} may run at once, and {serving} nodes serve it"
        yield Check("cluster", "warn", f"{text}: parts wait for each other, and may miss their quorum", advice)
    if queue.rate is not None:
        text = f"the queue {CLUSTER_QUEUE} begins {queue.rate} jobs at most: parts wait, and may miss their quorum"
        yield Check("cluster", "warn", text, advice)
