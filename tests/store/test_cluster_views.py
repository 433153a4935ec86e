"""Cluster jobs in the words of their contract: the views `cluster_jobs` and `job_nodes`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from oncue.identity import job_uid
from oncue.model import Claim, ClusterJob, Failed, LeaderEpoch, Lost, NewParts, Outcome, Part, Succeeded, Terms
from oncue.policy import lifecycle, quorum
from oncue.policy.options import ClusterOptions, Options
from oncue.store import Store
from tests.store.scene import NOW, a_batch, a_node, after, as_stored, at, lead, query, settle, take
from tests.store.test_delivery_views import value
from tests.store.test_views import drop_views

JOBS = (
    *("id", "uid", "job_type", "status", "idempotency_key", "scheduled_for", "nodes", "quorum_needed", "completed"),
    *("failed", "skipped", "lost", "quorum", "epoch", "created_at", "spread_at", "decided_at", "finished_at"),
    *("reason", "error"),
)
NODES = (
    *("cluster_job_id", "node_id", "node_name", "job_id", "status", "lost", "attempt", "started_at", "finished_at"),
    *("error", "late"),
)
PARTS = NewParts("compact.part", "cluster", Options(delivery="at_most_once", of_cluster=True).stored(), 0, 60.0)
JOB = {
    "task": "compact", "queue": "cluster", "address": "cluster",
    "options": Options(cluster=ClusterOptions(PARTS, has_action=True)).stored(),
}  # fmt: skip
ENDED = ("succeeded", "failed", "cancelled", "skipped")
STATES = ("scheduled", "queued", "running", "retrying", *ENDED)
NAMES = ("alpha", "beta", "gamma")


@pytest.fixture
def viewed(store: Store, runner: asyncio.Runner) -> Iterator[Store]:
    """A store with its views; they are gone after the test."""
    runner.run(store.create_views())
    yield store
    runner.run(drop_views(store))


async def cluster_jobs(store: Store) -> dict[int, dict[str, Any]]:
    rows = await query(store, f"select {', '.join(JOBS)} from cluster_jobs")
    return {row[0]: dict(zip(JOBS, map(value, row), strict=True)) for row in rows}


async def job_nodes(store: Store) -> list[dict[str, Any]]:
    rows = await query(store, f"select {', '.join(NODES)} from job_nodes order by cluster_job_id, node_name")
    return [dict(zip(NODES, map(value, row), strict=True)) for row in rows]


@dataclass(frozen=True)
class Stage:
    """Three nodes that know the task, of which the first leads."""

    store: Store
    nodes: dict[str, UUID]
    epoch: int

    @classmethod
    async def of(cls, store: Store) -> Stage:
        nodes = {}
        for name in NAMES:
            node = replace(a_node(name), queues=("cluster",), tasks=("compact", "compact.part"))
            nodes[name] = node.id
            await store.nodes.register(node)
            await store.nodes.take_name(node.id, name)
        return cls(store, nodes, (await lead(store, nodes["alpha"], seconds=99_999)).epoch)

    async def create(self, parts: NewParts = PARTS) -> int:
        """A cluster job with its parts."""
        batch = a_batch(**JOB, keys=["nightly"])
        made = await self.store.cluster.create(batch, parts, NOW, node=self.nodes["alpha"], epoch=self.epoch)
        assert made.created
        return batch.ids[0]

    async def claim(self, name: str) -> Claim:
        (claim,) = await take(
            self.store, self.nodes[name], queues=["cluster"], tasks=["compact.part"], now=after(seconds=1)
        )
        return claim

    async def claim_action(self, now: datetime) -> Claim:
        (claim,) = await take(
            self.store, self.nodes["alpha"], queues=["cluster"], tasks=["compact"], now=now, epoch=self.epoch
        )
        return claim

    async def end_action(self, claim: Claim, outcome: Outcome, now: datetime) -> None:
        terms = Terms(leader=LeaderEpoch(self.nodes["alpha"], self.epoch))
        change = lifecycle.settle(lifecycle.Ended(claim, outcome, claim.claimed_at, now, terms=terms), Random(1))
        assert await self.store.jobs.apply([change], now) == [True]

    async def see(self, job_id: int) -> ClusterJob:
        (found,) = await self.store.cluster.get([job_id], after(seconds=9))
        return found

    async def told(self, job_id: int) -> dict[str, Any]:
        return (await cluster_jobs(self.store))[job_id]

    async def parts(self) -> list[tuple[Any, ...]]:
        return [
            (row["node_name"], row["status"], bool(row["lost"]), bool(row["late"]))
            for row in await job_nodes(self.store)
        ]


@pytest.mark.contract("CLUS-1")
async def test_the_views_have_exactly_these_columns(viewed: Any) -> None:
    for view, columns in (("cluster_jobs", JOBS), ("job_nodes", NODES)):
        if viewed.dialect == "sqlite":
            asked = f"select * from {view}"
            found = await viewed.database.write(lambda connection, asked=asked: connection.execute(asked).description)
            assert tuple(column[0] for column in found) == columns
        else:
            asked = (
                f"select column_name::text from information_schema.columns where table_name = '{view}' "
                "order by ordinal_position"
            )
            assert tuple(row[0] for row in await query(viewed, asked)) == columns


@pytest.mark.contract("CLUS-1", "CLUS-13")
async def test_a_cluster_job_from_its_wish_to_its_end(viewed: Store) -> None:
    stage = await Stage.of(viewed)
    batch = a_batch(**JOB, created_at=NOW)
    await viewed.jobs.enqueue([batch])
    (job_id,) = batch.ids
    new = await stage.told(job_id)
    assert new["uid"] == job_uid(job_id, NOW)
    assert (new["job_type"], new["status"], new["nodes"], new["quorum_needed"]) == ("compact", "New", 0, None)
    assert await viewed.cluster.spread(job_id, PARTS, at(1), node=stage.nodes["alpha"], epoch=stage.epoch) == 3
    queued = await stage.told(job_id)
    assert (queued["status"], queued["nodes"], queued["quorum_needed"], queued["epoch"]) == (
        "Queued",
        3,
        2,
        stage.epoch,
    )
    assert await stage.parts() == [(name, "Queued", False, False) for name in NAMES]
    claims = {name: await stage.claim(name) for name in NAMES}
    await settle(viewed, [claims["alpha"]], Succeeded('"fine"'), at=at(2))
    await settle(viewed, [claims["beta"]], Failed("it broke", final=True), at=at(2))
    running = await stage.told(job_id)
    assert (running["status"], running["completed"], running["failed"], running["quorum"]) == ("Running", 1, 1, None)
    assert await stage.parts() == [
        ("alpha", "Completed", False, False), ("beta", "Failed", False, False), ("gamma", "Running", False, False)
    ]  # fmt: skip
    assert await viewed.cluster.release(job_id, False, at(3), node=stage.nodes["alpha"], epoch=stage.epoch)
    decided = await stage.told(job_id)
    assert (decided["status"], bool(decided["quorum"]), decided["decided_at"]) == ("Running", False, at(3))
    claim = await stage.claim_action(at(4))
    await stage.end_action(claim, Succeeded(), at(5))
    ended = await stage.told(job_id)
    assert (ended["status"], ended["skipped"], ended["finished_at"]) == ("Completed", 1, at(5))
    assert (await stage.parts())[2] == ("gamma", "Skipped", False, False)
    await settle(viewed, [claims["gamma"]], at=at(9))
    rows = {row["node_name"]: row for row in await job_nodes(viewed)}
    assert [rows["gamma"][name] for name in ("status", "finished_at")] == ["Skipped", at(9)]
    assert [bool(rows[name]["late"]) for name in NAMES] == [False, False, True], "it came after the end"
    assert rows["beta"]["error"] == "it broke"
    assert await stage.told(job_id) == ended, "a late result changes nothing"


@pytest.mark.contract("CLUS-6", "CLUS-15")
async def test_the_part_of_a_lost_node_is_told_as_lost_while_the_job_is_open(viewed: Store) -> None:
    stage = await Stage.of(viewed)
    job_id = await stage.create()
    (running,) = [await stage.claim("beta")]
    for name in ("beta", "gamma"):
        assert await viewed.nodes.declare_lost(stage.nodes[name], at(1))
    assert await stage.parts() == [
        ("alpha", "Queued", False, False), ("beta", "Running", True, False), ("gamma", "Queued", True, False)
    ]  # fmt: skip
    await settle(viewed, [running], Lost(), at=at(2))
    assert (await stage.parts())[1] == ("beta", "Running", True, False), "it stays open until the time-out"
    told = await stage.told(job_id)
    assert (told["status"], told["lost"]) == ("Queued", 2)
    job = (await stage.see(job_id)).job
    change = lifecycle.decided(
        job, ("failed", quorum.NO_QUORUM, "too few"), NOW, at(3), LeaderEpoch(stage.nodes["alpha"], stage.epoch)
    )
    assert await viewed.jobs.apply([change], at(3)) == [True]
    assert await stage.parts() == [(name, "Skipped", False, False) for name in NAMES]
    assert (await stage.told(job_id))["error"] == "too few"


@pytest.mark.contract("CLUS-2", "CLUS-13")
async def test_the_part_of_a_leader_only_job_is_as_the_job_is(viewed: Store) -> None:
    stage = await Stage.of(viewed)
    only = NewParts("compact", "cluster", "{}", 0, None, None, leader_only=True)
    job_id = await stage.create(only)
    assert await stage.parts() == [("alpha", "Queued", False, False)]
    await viewed.cluster.release(job_id, True, at(1), node=stage.nodes["alpha"], epoch=stage.epoch)
    claim = await stage.claim_action(at(2))
    assert await stage.parts() == [("alpha", "Running", False, False)]
    await stage.end_action(claim, Failed("it broke", final=True), at(3))
    (row,) = await job_nodes(viewed)
    assert (row["status"], row["finished_at"], row["error"]) == ("Failed", at(3), "it broke")


# --- the same as the policy says, in every state --------------------------------------------------------------------

REASONS = (None, "skipped_timeout", "interrupted", "cluster_job_ended")
COLUMNS = (
    "id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at, visible_at, "
    "max_retries, address, reason, error, node_id, claimed_at, finished_at"
)


async def write_states(store: Store, stage: Stage, dice: Random) -> None:
    """Cluster jobs with three parts in states of all kinds, as they may be and as they never are."""
    numbers, jobs, records, parts = count(1), [], [], []
    nodes = [*stage.nodes.items(), ("delta", uuid4())]
    then = as_stored(store, NOW)
    true = (
        {True: "true", False: "false", None: "null"}
        if store.dialect == "postgres"
        else {True: "1", False: "0", None: "null"}
    )

    def job(task: str, state: str, address: str, *told: str | UUID | None) -> int:
        reason, error, node = told or (None, None, None)
        texts = [f"'{text}'" if text else "null" for text in (address, reason, error, node)]
        job_id = next(numbers)
        claimed = then if state not in ("scheduled", "queued") else "null"
        ended = then if state in ENDED else "null"
        jobs.append(
            f"({job_id}, '{task}', 'cluster', 0, '{state}', '{{}}', '', 'tests', {then}, {then}, {then}, {then}, 3, "
            f"{', '.join(texts)}, {claimed}, {ended})"
        )
        return job_id

    for state, spread, decided, shape in product(STATES, (False, True), (False, True), range(16)):
        if not spread and decided:
            continue
        whole = job("compact", state, "role:leader" if decided else "cluster")
        if not spread:
            continue
        records.append(f"({whole}, {then}, '{nodes[0][1]}', 1, {then if decided else 'null'}, null)")
        for name, node in nodes[: shape % 4 + 1]:
            open_then = dice.choice((True, False)) if state in ENDED else None
            part = None
            if shape != 12:
                likely = dice.choice((STATES, ("queued", "retrying"), ("queued",), ENDED))
                error = dice.choice((None, "node_lost"))
                part = job("compact.part", dice.choice(likely), f"node:{name}", dice.choice(REASONS), error, node)
            parts.append(f"({whole}, '{node}', '{name}', {part or 'null'}, {true[open_then]})")
    await query(store, f"insert into oncue_jobs ({COLUMNS}) values {', '.join(jobs)}")
    columns = "job_id, spread_at, node_id, epoch, decided_at, quorum"
    await query(store, f"insert into oncue_cluster_jobs ({columns}) values {', '.join(records)}")
    await query(
        store, f"insert into oncue_parts (cluster_id, node_id, node_name, job_id, was_open) values {', '.join(parts)}"
    )


def as_viewed(part: Part, cluster: ClusterJob) -> tuple[str, bool]:
    """The status of a part and whether it is lost, as the policy says: a lost one is told as it was."""
    status = quorum.status_of(part, cluster.job)
    if status != "lost":
        return status.capitalize(), False
    if part.state in ("running", "skipped"):
        return "Running", True
    return ("Retrying" if part.state == "retrying" else "Queued"), True


@pytest.mark.contract("CLUS-1", "CLUS-13")
async def test_the_views_say_of_every_state_what_the_policy_says(viewed: Store) -> None:
    stage = await Stage.of(viewed)
    assert await viewed.nodes.declare_lost(stage.nodes["gamma"], NOW)
    await write_states(viewed, stage, Random(16))
    told, rows, seen = await cluster_jobs(viewed), await job_nodes(viewed), Counter[str]()
    found = await viewed.cluster.get(list(told), NOW)
    assert len(found) == len(told) > 200
    for cluster in found:
        row = told[cluster.id]
        status = quorum.job_status(cluster).capitalize()
        assert row["status"] == status, cluster
        statuses = quorum.statuses_of(cluster)
        counts = [statuses.count(one) for one in ("completed", "failed", "skipped", "lost")]
        assert [row[name] for name in ("completed", "failed", "skipped", "lost")] == counts, cluster
        assert row["nodes"] == len(cluster.parts)
        assert row["quorum_needed"] == (quorum.needed(len(cluster.parts)) if cluster.parts else None)
        own = {row["node_name"]: row for row in rows if row["cluster_job_id"] == cluster.id}
        for part in cluster.parts:
            one = own[part.node_name]
            assert (one["status"], bool(one["lost"])) == as_viewed(part, cluster), (part, cluster.job.state)
            assert not (one["lost"] and cluster.job.finished)
        seen.update([status, *(f"part {one['status']}{' lost' if one['lost'] else ''}" for one in own.values())])
    words = ("New", "Queued", "Running", "Retrying", "Completed", "Failed", "Cancelled", "Skipped")
    assert set(seen) == {
        *words,
        *(f"part {word}" for word in words[1:]),
        *(f"part {word} lost" for word in ("Queued", "Running", "Retrying")),
    }
    assert all(number > 5 for number in seen.values()), seen


@pytest.mark.contract("CLUS-1")
async def test_the_queries_of_the_operators_guide_run(viewed: Store) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    told = guide.split("## Cluster jobs")[1].split("```sql\n")[1].split("```")[0]
    queries = [one for one in told.split(";\n") if one.strip()]
    assert len(queries) == 3
    for one in queries:
        await query(viewed, one)
