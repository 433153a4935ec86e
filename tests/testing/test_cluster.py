"""Cluster tasks under the test kit: one node, which leads, and a clock that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from oncue import Conflict, Node, NodeResult, Oncue, Retry, Skip, cron, current_job
from oncue.testing import Kit, use


def compacting(app: Oncue, **options: Any) -> tuple[Any, list[Any]]:
    """A cluster task with a leader action that notes what it was told."""
    told: list[Any] = []

    @app.cluster_task(**options)
    def compact(node: Node, level: int = 1) -> str:
        return f"{node.name} at level {level}"

    @compact.leader_action
    async def publish(results: list[NodeResult], quorum: bool, level: int) -> int:
        told.append(([(one.node, one.status, one.result) for one in results], quorum, level))
        return len(results)

    return compact, told


@pytest.mark.contract("CLUS-7", "CLUS-9", "CLUS-14")
def test_a_single_node_is_its_own_quorum_and_leader(app: Oncue, kit: Kit) -> None:
    compact, told = compacting(app)
    receipt = compact.enqueue(level=3)
    assert kit.drain() == {"succeeded": 2}
    assert told == [([("test", "completed", "test at level 3")], True, 3)]
    assert kit.job(receipt).result == 1
    (part,) = [job for job in kit.jobs() if job.task == "compact.part"]
    assert (part.state, part.result) == ("succeeded", "test at level 3")


def test_arguments_that_are_left_out_have_their_defaults_in_both(app: Oncue, kit: Kit) -> None:
    compact, told = compacting(app)
    compact.enqueue()
    kit.drain()
    assert told == [([("test", "completed", "test at level 1")], True, 1)]


@pytest.mark.contract("CLUS-10")
def test_a_part_that_asks_to_be_tried_again_is(app: Oncue, kit: Kit) -> None:
    attempts = []

    @app.cluster_task
    def compact() -> str:
        attempts.append(current_job().attempt)
        if len(attempts) == 1:
            raise Retry("busy", after="5m")
        return "done"

    receipt = compact.enqueue()
    kit.drain()
    assert kit.job(receipt).state == "queued"
    cluster = kit.app.wait(app.cluster.get(receipt.id))
    assert [part.state for part in cluster.parts] == ["retrying"]
    kit.elapse("5m")
    assert attempts == [1, 2]
    assert kit.job(receipt).state == "succeeded"


@pytest.mark.contract("CLUS-10")
def test_a_job_whose_nodes_had_nothing_to_do_is_skipped(app: Oncue, kit: Kit) -> None:
    @app.cluster_task
    def compact() -> None:
        raise Skip("nothing to compact")

    @compact.leader_action
    def publish() -> None:
        raise AssertionError("there is nothing to publish")

    receipt = compact.enqueue()
    kit.drain(strict=True)
    job = kit.job(receipt)
    assert (job.state, job.reason) == ("skipped", "nothing_to_do")


@pytest.mark.contract("CLUS-6")
def test_what_a_part_raises_ends_it_for_good(app: Oncue, kit: Kit) -> None:
    @app.cluster_task
    def compact() -> None:
        raise ValueError("no")

    receipt = compact.enqueue()
    kit.elapse("1d")
    job = kit.job(receipt)
    assert (job.state, job.reason) == ("failed", "parts_failed")
    assert "test: ValueError: no" in (job.error or "")


def test_a_leader_action_may_be_tried_again_and_fails_otherwise(app: Oncue, kit: Kit) -> None:
    tries = []

    @app.cluster_task
    def compact() -> None: ...

    @compact.leader_action
    def publish() -> None:
        tries.append(current_job().attempt)
        if len(tries) == 1:
            raise Retry("storage is away", after="1m")
        raise ValueError("and now it fails")

    receipt = compact.enqueue()
    kit.elapse("1h")
    assert tries == [1, 2]
    assert kit.job(receipt).state == "failed"


@pytest.mark.contract("CLUS-2")
def test_a_leader_only_task_runs_on_the_leader_and_has_no_jobs_for_parts(app: Oncue, kit: Kit) -> None:
    @app.cluster_task(leader_only=True)
    def rotate(node: Node, keep: int) -> str:
        return f"{node.name} keeps {keep}"

    assert (rotate.is_leader_only, rotate.has_local_work, rotate.has_leader_actions) == (True, False, True)
    receipt = rotate.enqueue(keep=3)
    assert kit.drain() == {"succeeded": 1}
    assert kit.job(receipt).result == "test keeps 3"


@pytest.mark.contract("CLUS-2")
def test_what_a_task_consists_of_follows_from_what_is_declared(app: Oncue) -> None:
    @app.cluster_task
    def compact() -> None: ...

    assert (compact.is_leader_only, compact.has_local_work, compact.has_leader_actions) == (False, True, False)

    @compact.leader_action
    def publish() -> None: ...

    assert compact.has_leader_actions
    with pytest.raises(ValueError, match="leader_action: the task 'compact' can have no other: it has one already"):
        compact.leader_action(publish)


@pytest.mark.contract("CLUS-4")
def test_a_key_whose_job_is_unfinished_is_refused_with_its_id(app: Oncue, kit: Kit) -> None:
    compact, _ = compacting(app)
    receipt = compact.using(key="nightly").enqueue()
    with pytest.raises(Conflict, match=f"job {receipt.id} of the cluster task 'compact' has the same key") as refused:
        compact.using(key="nightly").enqueue()
    assert refused.value.job_id == receipt.id
    kit.drain()
    assert compact.using(key="nightly").enqueue().created


def test_a_schedule_makes_cluster_jobs_that_do_not_overlap(app: Oncue) -> None:
    slots: list[datetime] = []

    @app.cluster_task(schedule=cron("0 3 * * *"))
    def compact(slot: datetime) -> None:
        if len(slots) == 0:
            slots.append(slot)
            raise Retry("not yet", after="30h")
        slots.append(slot)

    with use(app, now=datetime(2040, 1, 1, tzinfo=UTC)) as kit:
        kit.elapse("3d")
        ledger = [(slot.verdict, slot.reason) for slot in app.wait(app.schedules.latest_slots("compact"))]
    assert ledger == [("fired", None), ("skipped", "max_instances"), ("fired", None)]
    assert slots[0] == slots[1] == datetime(2040, 1, 1, 3, tzinfo=UTC)


def test_a_follow_up_may_be_a_cluster_job(app: Oncue, kit: Kit) -> None:
    compact, told = compacting(app)

    @app.task
    def ingest() -> None:
        current_job().then(compact, level=7)

    ingest.enqueue()
    kit.drain()
    assert [level for _, _, level in told] == [7]


def test_a_cancelled_job_never_acts(app: Oncue, kit: Kit) -> None:
    compact, told = compacting(app)
    receipt = compact.enqueue()
    kit.app.wait(app.jobs.cancel(receipt.id))
    assert kit.drain() == {}
    assert (kit.job(receipt).state, told) == ("cancelled", [])


def test_a_job_that_is_retried_is_a_new_one_with_parts_of_its_own(app: Oncue, kit: Kit) -> None:
    compact, told = compacting(app)
    receipt = compact.enqueue()
    kit.drain()
    (part,) = [job for job in kit.jobs() if job.task == "compact.part"]
    with pytest.raises(Conflict, match="one node's part of a cluster job"):
        kit.app.wait(app.jobs.retry(part.id))
    again = kit.app.wait(app.jobs.retry(receipt.id))
    assert (again.retry_of, again.state) == (receipt.id, "queued")
    kit.drain()
    assert len(told) == 2
    assert len(kit.app.wait(app.cluster.get(again.id)).parts) == 1


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"delivery": "at_most_once"}, "delivery: a cluster task has none"),
        ({"process": True}, "process: a cluster task has none"),
        ({"on_no_quorum": "wait"}, "on_no_quorum: expected 'proceed' or 'fail', not 'wait'"),
        ({"on_node_restart": 1}, "on_node_restart: expected 'count' or 'fail', not 1"),
        ({"quorum_timeout": "soon"}, "quorum_timeout: "),
        ({"max_retries": -1}, "max_retries: "),
    ],
)
def test_what_a_cluster_task_cannot_have_is_refused_by_name(app: Oncue, options: dict[str, Any], refusal: str) -> None:
    with pytest.raises((ValueError, TypeError), match=refusal):

        @app.cluster_task(**options)
        def compact() -> None: ...


def test_a_leader_action_asks_for_nothing_that_it_could_not_be_told(app: Oncue) -> None:
    @app.cluster_task
    def compact(level: int) -> None: ...

    with pytest.raises(ValueError, match="leader_action: size is no argument of 'compact'"):

        @compact.leader_action
        def publish(size: int) -> None: ...


def test_the_name_of_a_part_belongs_to_its_task(app: Oncue) -> None:
    @app.cluster_task
    def compact() -> None: ...

    with pytest.raises(ValueError, match="declared already"):

        @app.task(name="compact.part")
        def other() -> None: ...


def test_options_that_make_no_sense_are_refused_where_they_are_given(app: Oncue, kit: Kit) -> None:
    compact, _ = compacting(app)
    for name, value in {"queue": "mail", "group": "a", "address": "node:a"}.items():
        with pytest.raises(ValueError, match=f"{name}: expected none"):
            compact.using(**{name: value})
    for nodes, expected in {
        (): "the names of one node or more", (1,): "the names of one node or more", ("",): "a printable name",
        ("a\n",): "a printable name", ("a",) * 1001: "at most 1,000 names",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"nodes: expected {expected}"):
            compact.using(nodes=nodes)
    with pytest.raises(ValueError, match="nodes: expected the names of one node or more"):
        compact.using(nodes="a")
    with pytest.raises(ValueError, match="one by one"):
        compact.enqueue_many([{}])
    with pytest.raises(TypeError, match="`enqueue` a cluster task, then `drain`"):
        kit.perform(compact)
