"""What is said of a cluster job and of its parts, in every state that they can be in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from oncue.model import ClusterJob, Job, Node, Part
from oncue.policy import quorum
from oncue.policy.explain import Cluster, Explanation, JobFacts, explain_job
from oncue.policy.options import ClusterOptions, Options
from tests.policy.test_explain import (
    a_cluster,
    a_job,
    a_lease,
    a_node,
    after,
    before,
    suggestion_of,
    text_of,
)
from tests.policy.test_quorum import PARTS

NAMES = ("node-a", "node-b", "node-c")
IDS = {name: UUID(int=number) for number, name in enumerate(NAMES, 1)}
TASKS = {"queues": ("cluster",), "tasks": ("compact", "compact.part"), "named": True}
OF_CLUSTER = Options(delivery="at_most_once", of_cluster=True).stored()


def nodes(*names: str, **fields: Any) -> list[Node]:
    return [a_node(name, IDS[name], **{**TASKS, **fields}) for name in names or NAMES]


def three(*members: Node, leader: str | None = "node-a") -> Cluster:
    """Three nodes, of which the first leads."""
    alive = list(members) or nodes()
    lease = None if leader is None else a_lease(holder=next(node for node in nodes() if node.name == leader))
    return a_cluster(nodes=alive, leader=lease)


def a_part(name: str, state: str | None = "queued", **fields: Any) -> Part:
    begun = state not in ("queued", "scheduled")
    ended = state in ("succeeded", "failed", "cancelled", "skipped")
    told: dict[str, Any] = {
        "node_id": IDS[name], "node_name": name, "job_id": 100 + IDS[name].int, "was_open": None, "state": state,
        "reason": None, "error": None, "result": None, "attempt": int(ended), "visible_at": before(seconds=9),
        "claimed_at": before(seconds=8) if begun else None, "started_at": before(seconds=8) if begun else None,
        "is_alive": True, "finished_at": before(seconds=3) if ended else None,
    }  # fmt: skip
    return Part(**{**told, **fields})


def whole_of(*parts: Part, terms: dict[str, Any] | None = None, **fields: Any) -> ClusterJob:
    told = Options(cluster=ClusterOptions(PARTS, **{"has_action": True, **(terms or {})})).stored()
    own = {"task": "compact", "queue": "cluster", "address": "cluster", "options": told}
    record: dict[str, Any] = {"spread_at": before(seconds=9), "epoch": 3}
    known = {name: fields.pop(name) for name in tuple(fields) if name in ClusterJob.__slots__}
    return ClusterJob(a_job(**{**own, **fields}), **{**record, **known}, parts=parts)


def about(whole: ClusterJob, cluster: Cluster | None = None, **facts: Any) -> Explanation:
    return explain_job(JobFacts(whole.job, cluster or three(), whole=whole, **facts))


def about_part(whole: ClusterJob, name: str, cluster: Cluster | None = None, **fields: Any) -> Explanation:
    """The explanation of the job of one node's part."""
    part = next(part for part in whole.parts if part.node_name == name)
    own: dict[str, Any] = {
        "id": part.job_id, "task": "compact.part", "queue": "cluster", "address": f"node:{name}", "state": part.state,
        "options": OF_CLUSTER, "max_retries": 0, "reason": part.reason, "finished_at": part.finished_at,
        "scheduled_for": before(minutes=1),
    }  # fmt: skip
    job: Job = a_job(**{**own, **fields})
    return explain_job(JobFacts(job, cluster or three(), whole=whole))


# --- before it is decided -------------------------------------------------------------------------------------------


@pytest.mark.contract("CLUS-3", "CLUS-12")
def test_a_wish_waits_for_a_leader() -> None:
    told = about(whole_of(spread_at=None, epoch=None), three(leader=None))
    assert (told.subject, told.status) == ("cluster job 42 (compact, queue cluster)", "new")
    assert told.codes == ["waits_for_leader"]
    assert text_of(told, "waits_for_leader") == ("No node has ever led: it waits for a leader, which writes its parts.")
    assert suggestion_of(told, "waits_for_leader")


def test_the_leader_has_not_written_its_parts_yet() -> None:
    told = about(whole_of(spread_at=None, epoch=None))
    assert told.codes == ["waits_for_parts_to_be_written"]
    assert "node-a has not written its parts yet" in told.findings[0].text
    strangers = three(*nodes(tasks=("compact",)))
    told = about(whole_of(spread_at=None, epoch=None), strangers)
    assert told.codes == ["waits_for_parts_to_be_written", "no_node_takes_part"]
    later = whole_of(spread_at=None, epoch=None, state="scheduled", visible_at=after(minutes=5))
    assert about(later).codes == ["scheduled_for_later"]


@pytest.mark.contract("CLUS-15")
def test_it_waits_for_one_more_part() -> None:
    whole = whole_of(a_part("node-a", "succeeded"), a_part("node-b", "running"), a_part("node-c"))
    told = about(whole)
    assert told.status == "running"
    assert text_of(told, "waits_for_parts") == (
        "It waits for 1 more of 3: node-b runs its part; node-c has not claimed its part."
    )
    assert text_of(told, "time_out") == (
        "The leader node-a waits for a quorum until 2030-01-01T12:00:07Z (in 7s); then it acts without one."
    )
    assert suggestion_of(told, "parts_can_be_claimed") == (
        "`oncue explain 103` tells why node-c has not claimed its part"
    )
    assert text_of(told, "parts_can_be_claimed").endswith("a part may wait for a free seat, a limit or a rate.")
    strict = replace(whole, job=whole_of(terms={"on_no_quorum": "fail"}).job)
    assert text_of(about(strict), "time_out").endswith("(in 7s); then the job fails.")


def test_its_time_out_begins_with_the_end_of_the_leaders_own_part() -> None:
    told = about(whole_of(a_part("node-a", "running"), a_part("node-b", "succeeded"), a_part("node-c", "running")))
    assert text_of(told, "waits_for_leaders_part") == (
        "The leader node-a has not ended its own part: from then on it waits for 10s; without a quorum it acts "
        "without one after that."
    )


@pytest.mark.contract("CLUS-6", "CLUS-15")
def test_lost_nodes_are_named() -> None:
    lost = a_part("node-c", "queued", is_alive=False)
    told = about(
        whole_of(a_part("node-a", "succeeded"), a_part("node-b", "running"), lost), three(*nodes("node-a", "node-b"))
    )
    assert "node-c is lost" in text_of(told, "waits_for_parts")
    assert text_of(told, "nodes_lost") == "node-c is lost: its part counts as open until the time-out."
    assert suggestion_of(told, "nodes_lost"), "its part has not begun"
    both = [replace_part(a_part(name, "skipped"), reason="skipped_timeout", error="node_lost") for name in NAMES[1:]]
    told = about(whole_of(a_part("node-a", "succeeded"), *both))
    assert text_of(told, "nodes_lost") == "node-b, node-c are lost: their parts count as open until the time-out."
    assert suggestion_of(told, "nodes_lost") is None, "they have begun, and run at most once"


def replace_part(part: Part, **fields: Any) -> Part:
    return part._replace(**fields)


def test_without_a_leader_nothing_is_decided() -> None:
    told = about(whole_of(a_part("node-a"), a_part("node-b")), three(leader=None))
    assert told.codes[:2] == ["waits_for_leader", "waits_for_parts"]
    assert "time_out" not in told.codes


@pytest.mark.parametrize(
    ("node", "code"),
    [({"tasks": ("compact",)}, "no_node_knows_task"), ({"queues": ("mail",)}, "no_node_serves_queue")],
)
def test_what_keeps_a_node_from_its_part(node: dict[str, Any], code: str) -> None:
    parts = [a_part("node-a", "succeeded"), a_part("node-b", "failed"), a_part("node-c")]
    told = about(whole_of(*parts), three(*nodes("node-a", "node-b"), *nodes("node-c", **node)))
    assert text_of(told, code).startswith("node-c: It may run only on node node-c, and node-c ")


def test_a_pause_of_the_queue_of_its_parts_is_told_once() -> None:
    told = about(whole_of(*map(a_part, NAMES)), parts_paused_at=before(hours=1))
    assert suggestion_of(told, "paused_queue") == "resume it with `oncue queues resume cluster`"
    assert told.codes == ["waits_for_parts", "paused_queue", "waits_for_leaders_part"]


def test_the_leader_is_about_to_decide() -> None:
    ended = [a_part(name, "succeeded") for name in NAMES]
    assert "about_to_be_decided" in about(whole_of(*ended)).codes
    idle = [a_part(name, "skipped", reason="nothing to do") for name in NAMES[:2]]
    told = about(whole_of(*idle, a_part("node-c", "running")))
    assert "So far no node had anything to do" in text_of(told, "waits_for_parts")


# --- once it is decided ---------------------------------------------------------------------------------------------


def decided(*parts: Part, **fields: Any) -> ClusterJob:
    usual: dict[str, Any] = {"decided_at": before(seconds=2), "decided_epoch": 3, "quorum": True}
    return whole_of(*parts, **{**usual, "address": "role:leader", **fields})


DONE = [a_part("node-a", "succeeded"), a_part("node-b", "succeeded"), a_part("node-c", "running")]


@pytest.mark.contract("CLUS-9", "CLUS-12")
def test_a_decided_job_waits_for_the_leader_to_claim_it() -> None:
    told = about(decided(*DONE))
    assert (told.status, told.codes[:2]) == ("running", ["quorum", "claimable"])
    assert "A quorum of its 3 parts was completed at" in text_of(told, "quorum")
    assert about(decided(*DONE), three(leader=None)).codes[1] == "waits_for_leader"
    strangers = three(*nodes("node-a", tasks=("compact.part",)), *nodes("node-b", "node-c"))
    assert "node-a does not know the task compact" in text_of(about(decided(*DONE), strangers), "no_node_knows_task")
    assert about(decided(*DONE), held=8).codes[1] == "seats_taken"
    assert about(decided(*DONE), paused_at=before(hours=1)).codes[1] == "paused_queue"


def test_the_leader_action_runs_or_will_be_tried_again() -> None:
    running = decided(*DONE, state="running", node_id=IDS["node-a"], started_at=before(seconds=1))
    assert about(running).codes == ["quorum", "running_on", "parts"]
    assert text_of(about(running), "parts") == "Its parts are completed on node-a, node-b; running on node-c."
    again = decided(*DONE, state="retrying", visible_at=after(seconds=5), error="no disk", attempt=1, retry_count=1)
    told = about(again)
    assert (told.status, told.codes[:2]) == ("retrying", ["quorum", "next_retry"])


@pytest.mark.contract("CLUS-8")
def test_the_leader_acts_without_a_quorum() -> None:
    told = about(decided(*DONE, quorum=False))
    assert text_of(told, "no_quorum").startswith("The time-out ended at 2030-01-01T11:59:58Z (2s ago) without a quorum")


# --- the end --------------------------------------------------------------------------------------------------------

ENDED = {"finished_at": before(seconds=1)}


@pytest.mark.contract("CLUS-6", "CLUS-8", "CLUS-11")
@pytest.mark.parametrize("reason", [quorum.NO_QUORUM, quorum.PARTS_FAILED, quorum.NODE_RESTARTED, quorum.NO_NODES])
def test_why_it_failed(reason: str) -> None:
    told = about(whole_of(*DONE, state="failed", reason=reason, error="because", **ENDED))
    assert told.status == "failed"
    assert told.codes == ["settled", reason, "parts"]
    assert text_of(told, "settled").endswith(": because.")
    assert suggestion_of(told, "settled") == "start it over with `oncue retry 42`"


def test_why_it_was_skipped_or_ended_without_an_action() -> None:
    skipped = whole_of(*DONE, state="skipped", reason=quorum.NOTHING_TO_DO, **ENDED)
    assert about(skipped).codes == ["nothing_to_do", "parts"]
    bare = whole_of(*DONE, state="succeeded", reason=quorum.NO_QUORUM, **ENDED)
    assert about(bare).codes == ["no_quorum", "parts"]
    fine = about(whole_of(*DONE, state="succeeded", started_at=before(seconds=9), **ENDED))
    assert (fine.status, fine.codes) == ("completed", ["settled", "parts"])
    assert text_of(fine, "settled").endswith("and its task has no leader action: it is completed.")


def test_how_the_leader_action_ended() -> None:
    late = a_part("node-c", "succeeded", was_open=True)
    fine = decided(*DONE[:2], late, state="succeeded", attempt=1, started_at=before(seconds=2), **ENDED)
    told = about(fine)
    assert (told.status, told.codes) == ("completed", ["quorum", "settled", "parts"])
    assert text_of(told, "parts") == (
        "Its parts are completed on node-a, node-b; skipped on node-c. "
        "1 result came after its end, and changed nothing."
    )
    broke = decided(*DONE, state="failed", error="no disk", attempt=1, max_retries=0, **ENDED)
    assert about(broke).codes == ["quorum", "settled", "no_retries_left", "parts"]
    assert about(decided(*DONE, state="cancelled", reason="cancelled", **ENDED)).status == "cancelled"


# --- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("CLUS-15")
def test_a_part_says_of_what_it_is_one_and_what_it_waits_for() -> None:
    whole = whole_of(a_part("node-a", "succeeded"), a_part("node-b", "running"), a_part("node-c"))
    told = about_part(whole, "node-c")
    assert told.codes == ["part_of", "claimable", "priority"]
    assert text_of(told, "part_of") == "It is node-c's part of cluster job 42 (compact), which is running."
    assert suggestion_of(told, "part_of") == "`oncue explain 42` tells how that one stands"
    assert about_part(whole, "node-c", three(*nodes("node-a", "node-b"))).codes[1] == "no_node_of_that_name"
    unnamed = three(*nodes("node-a", "node-b"), *nodes("node-c", named=False))
    address = f"node:{IDS['node-c']}"
    assert about_part(whole, "node-c", unnamed, address=address).codes[1] == "claimable"


def test_the_part_of_a_lost_node() -> None:
    lost = a_part("node-c", "running", is_alive=False)
    told = about_part(whole_of(a_part("node-a"), lost), "node-c", three(*nodes("node-a")), node_id=IDS["node-c"])
    assert told.codes == ["part_of", "node_lost_counts_open", "node_lost"]


@pytest.mark.contract("CLUS-9")
def test_parts_that_ended_with_their_job_or_after_it() -> None:
    ended: dict[str, Any] = {"state": "succeeded", **ENDED}
    never = a_part("node-c", "skipped", was_open=True, reason=quorum.JOB_ENDED)
    told = about_part(decided(*DONE[:2], never, **ended), "node-c")
    assert told.codes == ["part_of", "settled"]
    assert "its cluster job had ended before it began" in text_of(told, "settled")
    assert suggestion_of(told, "settled") is None, "a part is not repeated by itself"
    late = a_part("node-c", "succeeded", was_open=True)
    assert about_part(decided(*DONE[:2], late, **ended), "node-c").codes == ["part_of", "late", "settled"]
    gone = a_part("node-c", "cancelled", was_open=True, reason=quorum.JOB_ENDED)
    told = about_part(decided(*DONE[:2], gone, state="cancelled", **ENDED), "node-c")
    assert "since its cluster job was cancelled" in text_of(told, "settled")
