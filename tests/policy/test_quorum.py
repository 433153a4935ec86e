"""What the leader makes of the parts of a cluster job."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.model import ClusterJob, Job, NewParts, Part, PartStatus
from oncue.policy import quorum
from oncue.policy.options import ClusterOptions, Options
from oncue.policy.quorum import End, Lead, Proceed, Wait
from tests.policy.test_lifecycle import NOW, a_job

SECOND = timedelta(seconds=1)
LEAD = Lead(UUID(int=1), "node-1", NOW - timedelta(hours=1))
PARTS = NewParts("compact.part", "cluster", "{}", 0, None)


def a_part(number: int = 1, state: str | None = "queued", **fields: Any) -> Part:
    told: dict[str, Any] = {
        "node_id": UUID(int=number), "node_name": f"node-{number}", "job_id": 100 + number, "was_open": None,
        "state": state, "reason": None, "error": None, "result": None, "attempt": 1, "visible_at": NOW,
        "claimed_at": NOW, "started_at": NOW, "is_alive": True,
        "finished_at": NOW if state in ("succeeded", "failed", "cancelled", "skipped") else None,
    }  # fmt: skip
    return Part(**{**told, **fields})


def lost(number: int) -> Part:
    return a_part(number, "skipped", reason="skipped_timeout", error="node_lost", is_alive=False)


def skipped(number: int) -> Part:
    return a_part(number, "skipped", reason="nothing to do")


def a_cluster_job(*parts: Part, job: Job | None = None, **terms: Any) -> ClusterJob:
    told = Options(cluster=ClusterOptions(PARTS, **{"has_action": True, **terms})).stored()
    job = dataclasses.replace(job or a_job("queued"), options=told, address="cluster", queue="cluster")
    return ClusterJob(job, spread_at=NOW, epoch=1, parts=parts)


def decided(*parts: Part, seconds: float = 0.0, lead: Lead = LEAD, **terms: Any) -> quorum.Decision:
    return quorum.decide(a_cluster_job(*parts, **terms), lead, NOW + seconds * SECOND)


@pytest.mark.contract("CLUS-7", "CLUS-14")
@pytest.mark.parametrize(("parts", "wanted"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (100, 51)])
def test_a_quorum_is_more_than_half(parts: int, wanted: int) -> None:
    assert quorum.needed(parts) == wanted


@pytest.mark.contract("CLUS-7")
def test_the_leader_acts_once_a_quorum_is_completed() -> None:
    assert decided(a_part(1, "succeeded"), a_part(2), a_part(3)) == Wait(NOW + 10 * SECOND)
    assert decided(a_part(1, "succeeded"), a_part(2, "succeeded"), a_part(3)) == Proceed(True)


@pytest.mark.contract("CLUS-6")
def test_the_job_fails_once_more_parts_failed_than_a_quorum_can_spare() -> None:
    one = decided(a_part(1, "failed", error="ValueError: no"), a_part(2), a_part(3))
    assert isinstance(one, Wait)
    two = decided(a_part(1, "failed", error="ValueError: no"), a_part(2, "failed"), a_part(3))
    assert isinstance(two, End)
    assert (two.state, two.reason) == ("failed", "parts_failed")
    assert "node-1: ValueError: no" in (two.error or "")


@pytest.mark.contract("CLUS-6", "CLUS-8")
def test_a_lost_part_is_open_until_the_time_out() -> None:
    parts = (a_part(1, "succeeded"), lost(2), lost(3))
    assert decided(*parts, seconds=9.9) == Wait(NOW + 10 * SECOND)
    assert decided(*parts, seconds=10) == Proceed(False)
    late = decided(*parts, seconds=10, on_no_quorum="fail")
    assert isinstance(late, End)
    assert (late.state, late.reason) == ("failed", "no_quorum")
    assert late.error == (
        "1 of 3 parts are done, a quorum is 2: node-2 was lost in the middle of its part; "
        "node-3 was lost in the middle of its part"
    )


@pytest.mark.contract("CLUS-8")
def test_the_time_out_counts_from_the_end_of_the_leaders_own_part() -> None:
    assert decided(a_part(1, "running"), a_part(2), seconds=3600) == Wait(None), "its own part is open"
    done = a_part(1, "succeeded", finished_at=NOW + 60 * SECOND)
    assert decided(done, a_part(2), seconds=65) == Wait(NOW + 70 * SECOND)
    assert decided(done, a_part(2), seconds=70) == Proceed(False)


@pytest.mark.contract("CLUS-8", "CLUS-12")
def test_the_time_out_counts_from_the_takeover_of_a_new_leader() -> None:
    parts = (a_part(1, "succeeded"), lost(2), a_part(3, "succeeded", finished_at=NOW), a_part(4))
    late = Lead(UUID(int=3), "node-3", NOW + 30 * SECOND)
    assert decided(*parts, seconds=39, lead=late) == Wait(NOW + 40 * SECOND)
    assert decided(*parts, seconds=40, lead=late) == Proceed(False)


@pytest.mark.contract("CLUS-8")
def test_a_leader_without_a_part_counts_from_when_the_parts_were_written() -> None:
    assert decided(a_part(2), seconds=5) == Wait(NOW + 10 * SECOND)
    assert decided(a_part(2), seconds=3, quorum_timeout=3.0) == Proceed(False)


@pytest.mark.contract("CLUS-11")
def test_a_restarted_leader_knows_its_part_by_its_name() -> None:
    """Its process is another one: the part was that of a process that is gone."""
    parts = (a_part(7, "running", node_name="node-1"), a_part(2))
    assert decided(*parts, seconds=3600) == Wait(None)


@pytest.mark.contract("CLUS-8", "CLUS-11")
def test_a_restarted_leader_does_not_wait_for_the_part_that_it_lost() -> None:
    before = lost(7)._replace(node_name="node-1", is_alive=True)
    assert decided(before, a_part(2), seconds=10) == Proceed(False)


@pytest.mark.contract("CLUS-11")
def test_a_restart_fails_the_whole_job_if_its_task_wants_that() -> None:
    parts = (a_part(1, "failed", reason="worker_startup_recovery"), a_part(2), a_part(3), a_part(4))
    assert isinstance(decided(*parts), Wait)
    ended = decided(*parts, on_node_restart="fail")
    assert isinstance(ended, End)
    assert (ended.state, ended.reason) == ("failed", "node_restarted")


@pytest.mark.contract("CLUS-10")
def test_nothing_to_do_is_done() -> None:
    assert decided(a_part(1, "succeeded"), skipped(2), a_part(3)) == Proceed(True)
    assert decided(skipped(1), skipped(2), skipped(3)) == End("skipped", "nothing_to_do")


@pytest.mark.contract("CLUS-10")
def test_a_quorum_that_had_nothing_to_do_waits_for_the_rest() -> None:
    parts = (skipped(1), skipped(2), a_part(3, "running"))
    assert decided(*parts, seconds=9) == Wait(NOW + 10 * SECOND)
    assert decided(*parts, seconds=10) == End("skipped", "nothing_to_do")


@pytest.mark.parametrize(
    ("part", "status"),
    [
        (a_part(1, "queued"), "queued"),
        (a_part(1, "scheduled"), "queued"),
        (a_part(1, "running"), "running"),
        (a_part(1, "retrying"), "retrying"),
        (a_part(1, "succeeded"), "completed"),
        (a_part(1, "succeeded", is_alive=False), "completed"),
        (a_part(1, "failed"), "failed"),
        (a_part(1, "cancelled"), "cancelled"),
        (skipped(1), "skipped"),
        (a_part(1, "skipped", reason="skipped_timeout", error="timed out: cut off after 5 s"), "failed"),
        (a_part(1, "skipped", reason="interrupted"), "failed"),
        (lost(1), "lost"),
        (a_part(1, "running", is_alive=False), "lost"),
        (a_part(1, "queued", is_alive=False), "lost"),
        (a_part(1, None), "lost"),
    ],
)
def test_how_it_is_with_a_part(part: Part, status: PartStatus) -> None:
    assert quorum.status_of(part, a_job("queued")) == status


@pytest.mark.contract("CLUS-9")
@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "failed"])
def test_a_part_that_was_open_at_the_end_stays_skipped_whatever_it_comes_to(state: str) -> None:
    part = a_part(1, state, was_open=True)
    assert quorum.status_of(part, a_job("succeeded")) == "skipped"
    assert quorum.status_of(part, a_job("cancelled")) == "cancelled"


def test_parts_that_the_end_of_the_job_skipped_are_not_done() -> None:
    job = a_job(state="succeeded")
    cut_off = [a_part(3, "skipped", was_open=True), a_part(4, "running", was_open=True), lost(5)]
    assert quorum.done(a_cluster_job(a_part(1, "succeeded"), skipped(2), *cut_off, job=job)) == 2


def test_a_lost_part_of_a_job_that_has_ended_is_skipped_and_was_lost() -> None:
    assert quorum.status_of(lost(1), a_job("succeeded")) == "skipped"
    assert quorum.is_lost(lost(1))
    assert not quorum.is_lost(a_part(1, "succeeded", is_alive=False))


@pytest.mark.contract("CLUS-13")
@pytest.mark.parametrize(
    ("state", "parts", "status"),
    [
        ("queued", (a_part(1), a_part(2)), "queued"),
        ("queued", (a_part(1, "running"), a_part(2)), "running"),
        ("queued", (a_part(1, "succeeded"), a_part(2)), "running"),
        ("queued", (a_part(1, "retrying"), a_part(2, "succeeded")), "retrying"),
        ("queued", (a_part(1, "retrying"), a_part(2)), "running"),
        ("running", (), "running"),
        ("retrying", (), "retrying"),
        ("succeeded", (), "completed"),
        ("failed", (), "failed"),
        ("cancelled", (), "cancelled"),
        ("skipped", (), "skipped"),
    ],
)
def test_the_status_of_a_cluster_job(state: str, parts: tuple[Part, ...], status: str) -> None:
    assert quorum.job_status(a_cluster_job(*parts, job=a_job(state))) == status


@pytest.mark.contract("CLUS-13")
def test_a_job_without_parts_is_new_and_a_decided_one_runs() -> None:
    cluster = a_cluster_job()
    assert quorum.job_status(dataclasses.replace(cluster, spread_at=None)) == "new"
    assert quorum.job_status(dataclasses.replace(cluster, decided_at=NOW, quorum=True)) == "running"


def test_a_job_for_which_no_node_is_active_fails() -> None:
    ended = decided()
    assert isinstance(ended, End)
    assert (ended.state, ended.reason) == ("failed", "no_nodes")


@given(
    states=st.lists(
        st.sampled_from(["queued", "running", "succeeded", "failed", "cancelled", "skipped", "lost"]), min_size=1
    ),
    seconds=st.floats(0, 30),
)
def test_the_leader_never_acts_with_a_quorum_that_is_none(states: list[str], seconds: float) -> None:
    makers = {"lost": lost, "skipped": skipped}
    parts = [makers[state](n) if state in makers else a_part(n, state) for n, state in enumerate(states, 2)]
    done = sum(state in ("succeeded", "skipped") for state in states)
    failed = sum(state in ("failed", "cancelled") for state in states)
    decision = decided(*parts, seconds=seconds)
    if isinstance(decision, Proceed):
        assert decision.quorum == (done >= quorum.needed(len(parts)) and "succeeded" in states)
        assert decision.quorum or seconds >= 10
    if isinstance(decision, End) and decision.reason == "parts_failed":
        assert failed > len(parts) - quorum.needed(len(parts))
    if isinstance(decision, Wait):
        assert seconds < 10


def test_the_terms_of_a_cluster_job_survive_being_stored() -> None:
    told = ClusterOptions(
        NewParts("compact.part", "io", '{"timeout":3}', 2, 60.0, ("a", "b")), True, False, 2.5, "fail", "fail"
    )
    cluster = a_cluster_job()
    job = dataclasses.replace(cluster.job, options=Options(cluster=told).stored())
    assert quorum.terms_of(dataclasses.replace(cluster, job=job)) == told


def test_results_come_by_the_names_of_nodes() -> None:
    found = quorum.results_of(a_cluster_job(a_part(2, "succeeded", result={"a": 1}), a_part(1, "failed", error="x")))
    assert [(one.node, one.status, one.completed) for one in found] == [
        ("node-1", "failed", False),
        ("node-2", "completed", True),
    ]
    assert found[1].result == {"a": 1}
