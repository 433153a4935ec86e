"""Cluster jobs with real workers, on each back end: who creates them, who runs their parts, and who acts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from oncue import ClusterJob, ClusterTask, Conflict, InvalidJob, JobNotFound, Node, NodeResult, NotLeader, Oncue
from oncue.engine.node import WorkerNode
from oncue.engine.service import Signal
from oncue.policy import quorum
from oncue.settings import load
from tests.app.conftest import MakeApp

PATIENCE = 60.0
NEWS = Signal()
"""Raised whenever a worker tells of anything: each beat of its lease, at least."""


class Member:
    """One process of the cluster, as far as a test needs one: an application with a worker of its own."""

    def __init__(self, make_app: MakeApp, url: str, name: str, **settings: Any) -> None:
        self.app = make_app(url, node_name=name, lease="2s", poll_interval="50ms", **settings)
        self.name = name
        self.acted: list[tuple[list[tuple[str, str, Any]], bool, int]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.begun = asyncio.Event()
        self.task = self._declared()
        self.app.internals.telemetry.subscribe(lambda *_: NEWS.set())
        self.worker: WorkerNode | None = None

    def _declared(self) -> ClusterTask[Any, Any]:
        @self.app.cluster_task(quorum_timeout="200ms")
        async def compact(node: Node, level: int = 1) -> str:
            self.begun.set()
            await self.may_end.wait()
            return f"{node.name}:{level}"

        @compact.leader_action
        def publish(results: list[NodeResult], quorum: bool, level: int) -> list[str]:
            self.acted.append(([(one.node, one.status, one.result) for one in results], quorum, level))
            return [one.node for one in results if one.completed]

        return compact

    async def leads(self) -> bool:
        return self.worker is not None and self.worker.leadership.epoch is not None


@pytest.fixture
def cluster(make_app: MakeApp, database_url: str) -> Callable[..., Any]:
    @asynccontextmanager
    async def running(*names: str, **settings: Any) -> AsyncIterator[list[Member]]:
        """These nodes, the first of which leads."""
        async with AsyncExitStack() as stack:
            members = [Member(make_app, database_url, name, **settings) for name in names]
            for member in members:
                member.worker = await stack.enter_async_context(member.app.worker())
                await until(members[0].leads)
            await until(lambda: named(members[0].app, names))
            yield members

    return running


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """What is found, once something is: it is asked again whenever a worker tells of something."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    NEWS.listen(lambda: loop.call_soon_threadsafe(news.set))
    try:
        async with asyncio.timeout(PATIENCE):
            while not (what := await found()):
                await news.wait()
                news.clear()
            return what
    finally:
        NEWS.listen(None)


async def named(app: Oncue, names: tuple[str, ...]) -> bool:
    return {node.name for node in await app.nodes.list() if node.named} >= set(names)


async def ended(app: Oncue, job_id: int) -> ClusterJob:
    async def look() -> ClusterJob | None:
        found = await app.cluster.get(job_id)
        return found if found.job.finished else None

    return await until(look)  # type: ignore[no-any-return]


@pytest.mark.contract("CLUS-1", "CLUS-6", "CLUS-7", "CLUS-9")
async def test_every_node_does_its_part_and_the_leader_acts_once(cluster: Any) -> None:
    async with cluster("a", "b", "c") as (leader, second, third):
        receipt = await leader.task.aenqueue(level=2)
        found = await ended(leader.app, receipt.id)
        assert (found.job.state, found.quorum) == ("succeeded", True)
        assert [part.node_name for part in found.parts] == ["a", "b", "c"]
        assert {part.result for part in found.parts if part.state == "succeeded"} <= {"a:2", "b:2", "c:2"}
        ((results, has_quorum, level),) = leader.acted
        assert (has_quorum, level) == (True, 2)
        assert sum(status == "completed" for _, status, _ in results) >= 2
        assert second.acted == third.acted == []


@pytest.mark.contract("CLUS-3")
async def test_a_node_that_does_not_lead_says_who_does(cluster: Any) -> None:
    async with cluster("a", "b") as (_, follower):
        with pytest.raises(NotLeader, match="only the leader creates cluster jobs") as refused:
            await follower.task.aenqueue()
        assert (refused.value.leader, refused.value.address) == ("a", None)
        assert await follower.app.cluster.list() == []


@pytest.mark.contract("CLUS-3")
async def test_a_node_that_does_not_lead_hands_a_job_over_if_it_is_asked_to(cluster: Any) -> None:
    async with cluster("a", "b") as (_, follower):
        found = await follower.app.cluster.run("compact", {"level": 5}, by="ann", hand_over=True)
        assert (found.job.enqueued_by, [part.node_name for part in found.parts]) == ("ann", ["a", "b"])
        with pytest.raises(NotLeader):
            await follower.app.cluster.run("compact", {"level": 5})


@pytest.mark.contract("CLUS-3")
async def test_a_process_that_is_no_node_hands_its_wish_to_the_leader(
    cluster: Any, make_app: MakeApp, database_url: str
) -> None:
    web = Member(make_app, database_url, "web")
    async with cluster("a", "b") as (leader, _):
        found = await web.app.cluster.run("compact", {"level": 5}, by="ann")
        assert (found.job.enqueued_by, found.epoch) == ("ann", (await web.app.cluster.leader()).epoch)
        assert (await ended(web.app, found.id)).job.state == "succeeded"
        assert [level for _, _, level in leader.acted] == [5]


@pytest.mark.contract("CLUS-3", "CLUS-12")
async def test_a_wish_waits_for_a_leader(cluster: Any, make_app: MakeApp, database_url: str) -> None:
    web = Member(make_app, database_url, "web")
    found = await web.app.cluster.run("compact", timeout="100ms")
    assert (found.spread_at, quorum.job_status(found)) == (None, "new")
    assert await web.app.cluster.leader() is None
    async with cluster("a"):
        assert (await ended(web.app, found.id)).job.state == "succeeded"


@pytest.mark.contract("CLUS-4")
async def test_an_unfinished_job_with_the_key_is_named(cluster: Any, make_app: MakeApp, database_url: str) -> None:
    web = Member(make_app, database_url, "web")
    async with cluster("a") as (leader,):
        leader.may_end.clear()
        receipt = await leader.task.using(key="nightly").aenqueue()
        for member in (leader, web):
            with pytest.raises(Conflict) as refused:
                await member.app.cluster.run("compact", key="nightly")
            assert refused.value.job_id == receipt.id
        leader.may_end.set()
        await ended(leader.app, receipt.id)
        assert (await leader.task.using(key="nightly").aenqueue()).created


async def test_a_subset_of_nodes_takes_part(cluster: Any, make_app: MakeApp, database_url: str) -> None:
    web = Member(make_app, database_url, "web")
    async with cluster("a", "b", "c") as (leader, *_):
        for member in (leader, web):
            found = await ended(leader.app, (await member.app.cluster.run("compact", nodes=["b"])).id)
            assert [(part.node_name, part.result) for part in found.parts] == [("b", "b:1")]


async def test_a_node_that_is_not_active_is_refused_by_name(cluster: Any, make_app: MakeApp, database_url: str) -> None:
    web = Member(make_app, database_url, "web")
    async with cluster("a") as (leader,):
        for member in (leader, web):
            with pytest.raises(InvalidJob, match=r"nodes: z: expected names of active nodes .*; these do: a"):
                await member.app.cluster.run("compact", nodes=["a", "z"])
        wish = await web.task.using(nodes=["a", "z"]).aenqueue()
        found = await ended(leader.app, wish.id)
        assert (found.job.state, found.job.reason) == ("failed", "no_nodes")
        error = found.job.error or ""
        assert "know the task compact and serve" in error
        assert error.endswith(": a, z")


async def test_a_leader_only_task_takes_no_names_of_nodes(cluster: Any) -> None:
    async with cluster("a") as (leader,):

        @leader.app.cluster_task(leader_only=True)
        async def sweep() -> None: ...

        with pytest.raises(InvalidJob, match=r"nodes: expected none: 'sweep' runs on the leader alone"):
            await leader.app.cluster.run("sweep", nodes=["a"])


async def test_what_is_no_cluster_job_is_told_apart(cluster: Any) -> None:
    async with cluster("a") as (leader,):

        @leader.app.task
        async def plain() -> None: ...

        with pytest.raises(InvalidJob, match="'plain' is no cluster task"):
            await leader.app.cluster.run("plain")
        receipt = await plain.aenqueue()
        with pytest.raises(JobNotFound, match=f"job {receipt.id} is no cluster job"):
            await leader.app.cluster.get(receipt.id)
        found = await ended(leader.app, (await leader.app.cluster.run("compact")).id)
        part = found.parts[0].job_id
        with pytest.raises(JobNotFound, match=f"job {part} is no cluster job: it is a part of job {found.id}"):
            await leader.app.cluster.get(part)


@pytest.mark.contract("CLUS-8")
async def test_without_a_quorum_in_time_the_leader_warns_and_acts(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster("a", "b") as (leader, slow):
        slow.may_end.clear()
        receipt = await leader.task.aenqueue()
        found = await ended(leader.app, receipt.id)
        assert (found.job.state, found.quorum) == ("succeeded", False)
        ((results, has_quorum, _),) = leader.acted
        assert (has_quorum, dict(one[:2] for one in results)) == (False, {"a": "completed", "b": "running"})
        assert "goes on without a quorum: 1 of 2 parts are done, a quorum is 2: b runs its part" in caplog.text
        slow.may_end.set()
        await until(lambda: is_late(leader.app, receipt.id))


async def is_late(app: Oncue, job_id: int) -> bool:
    """Whether the late result of the second node is kept beside, and changes nothing."""
    found = await app.cluster.get(job_id)
    part = found.parts[1]
    return part.result == "b:1" and quorum.status_of(part, found.job) == "skipped"


async def test_cancel_stops_the_parts_that_run(cluster: Any) -> None:
    async with cluster("a", "b") as (leader, other):
        for member in (leader, other):
            member.may_end.clear()
        receipt = await leader.task.aenqueue()
        await asyncio.gather(leader.begun.wait(), other.begun.wait())
        await leader.app.jobs.cancel(receipt.id, by="ann")
        found = await ended(leader.app, receipt.id)
        assert (found.job.state, leader.acted) == ("cancelled", [])
        await until(lambda: all_cancelled(leader.app, receipt.id))


async def all_cancelled(app: Oncue, job_id: int) -> bool:
    return {part.state for part in (await app.cluster.get(job_id)).parts} == {"cancelled"}


@pytest.mark.contract("CLUS-9")
async def test_a_leader_whose_code_has_no_leader_action_does_not_pass_over_it(
    cluster: Any, make_app: MakeApp, database_url: str
) -> None:
    """In the middle of a deploy: the web process has the new code, and the leader has the old one."""
    web = Member(make_app, database_url, "web")
    async with cluster("a") as (leader,):
        leader.task.action = None
        receipt = await web.task.aenqueue()
        found = await ended(web.app, receipt.id)
        assert (found.job.state, found.job.retry_count) == ("failed", 0)
        assert "the code of the node that leads declares none" in found.job.error


@pytest.mark.contract("CLUS-12", "CLUS-15")
async def test_the_next_leader_goes_on_where_the_last_one_stopped(cluster: Any) -> None:
    """The leader leaves while parts run: its successor waits for them, and acts."""
    async with cluster("b") as (second,):
        second.may_end.clear()
        receipt = await second.task.aenqueue()
        await second.begun.wait()
        epoch = (await second.app.cluster.leader()).epoch
        assert second.worker is not None
        await second.worker.leadership.resign()
        await until(second.leads)
        assert (await second.app.cluster.leader()).epoch == epoch + 1
        second.may_end.set()
        found = await ended(second.app, receipt.id)
        assert (found.job.state, found.epoch, found.decided_epoch) == ("succeeded", epoch, epoch + 1)
        assert len(second.acted) == 1


@pytest.mark.contract("CLUS-8")
def test_the_time_out_of_a_quorum_has_the_name_of_the_origin(make_app: MakeApp) -> None:
    settings = load(environment={"JOB_NODE_QUORUM_TIMEOUT_SECS": "25"}, folder=None)
    assert settings.cluster_quorum_timeout == 25.0
    assert load(environment={}).cluster_quorum_timeout == 10.0
    app = make_app("sqlite:///:memory:", cluster_quorum_timeout="25s")

    @app.cluster_task
    def compact() -> None: ...

    @app.cluster_task(quorum_timeout="1m")
    def rotate() -> None: ...

    told = [task.options(None).cluster for task in (compact, rotate)]
    assert [one and one.quorum_timeout for one in told] == [25.0, 60.0]
