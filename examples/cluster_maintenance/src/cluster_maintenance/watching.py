"""What one sees of a cluster job: a line for everything that changes, node by node, until its verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cluster_maintenance.jobs import app
from oncue import ClusterJob
from oncue.model import Part
from oncue.policy import quorum

LOOK_SECONDS = 0.05
Print = Callable[[str], None]


@dataclass
class Watch:
    """Tells what changes of one cluster job and of the leader."""

    job_id: int
    tell: Print
    began: float = field(default_factory=time.monotonic)
    leaders: list[tuple[float, str, int]] = field(default_factory=list)
    """When each began to lead, as far as it was seen: seconds, name, epoch."""
    _seen: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    async def until(self, is_reached: Callable[[ClusterJob], bool]) -> ClusterJob:
        """Tell what changes until the job has come so far, or has ended."""
        while True:
            await self._look_at_leader()
            cluster = await app.cluster.get(self.job_id)
            for part in cluster.parts:
                await self._look_at_part(cluster, part)
            self._changed("job", f"job {self.job_id}", _job_words(cluster))
            if is_reached(cluster) or cluster.job.finished:
                return cluster
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_at_leader(self) -> None:
        leader = await app.cluster.leader()
        if leader is None:
            why = "its lease is over" if self.leaders else "no node runs, or none leads yet; `up` starts nodes"
            self._changed("leader", "leader", f"none: {why}")
        elif self._changed("leader", "leader", f"{leader.name} (epoch {leader.epoch})"):
            self.leaders.append((self.seconds, leader.name, leader.epoch))

    async def _look_at_part(self, cluster: ClusterJob, part: Part) -> None:
        words: str = quorum.status_of(part, cluster.job)
        if words == "running" and part.job_id is not None:
            job = await app.jobs.get(part.job_id)
            words += (
                ""
                if job.progress is None
                else f" {job.progress:.0%}" + (f", {job.progress_note}" if job.progress_note else "")
            )
        elif words == "lost":
            words += ": its node is gone"
        self._changed(part.node_name, part.node_name, words + "".join(_outcome(part, words)))

    def _changed(self, what: str, who: str, words: str) -> bool:
        if self._seen.get(what) == words:
            return False
        self._seen[what] = words
        self.tell(f"+{self.seconds:5.1f} s  {who:<10}  {words}")
        return True


def _job_words(cluster: ClusterJob) -> str:
    words: str = quorum.job_status(cluster)
    if words == "running" and cluster.decided_at is not None:
        words += ": the leader acts, " + ("with a quorum" if cluster.quorum else "without a quorum")
    elif words in ("queued", "running", "retrying"):
        done = sum(status in ("completed", "skipped") for status in quorum.statuses_of(cluster))
        words += f": {done} of {len(cluster.parts)} parts are done, {quorum.needed(len(cluster.parts))} are a quorum"
    return words


def _outcome(part: Part, words: str) -> Iterator[str]:
    if words == "completed" and isinstance(part.result, dict):
        saved = part.result["bytes_before"] - part.result["bytes_after"]
        yield f": {part.result['dropped']:,} versions dropped, {part.result['keys']:,} keys in {part.result['segment']}"
        yield f", {saved / 1024:,.0f} KiB saved"
        yield ", an interrupted compaction went on" if part.result["resumed"] else ""
    elif words in ("failed", "skipped", "retrying"):
        why = part.error or part.reason
        yield f": {why}" if why else ""
