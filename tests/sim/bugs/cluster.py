"""Cluster jobs: parts for the wrong nodes, decisions that nothing bears out, leaders that act twice, and loose ends."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from oncue.engine.claimer import Claimer
from oncue.engine.coordinator import Coordinator
from oncue.engine.naming import Naming
from oncue.model import ClusterJob, Part, PartStatus
from oncue.policy import lifecycle, quorum
from oncue.policy.quorum import Decision, End, Lead, Proceed
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

OWN = "oncue itself, before it was released: "
EACH_ITS_PART = "CLUS-1: a cluster job has one record, and a part for each node that was active then"
LEADS = "CLUS-3: only the node that leads writes parts and decides"
FAILS = "CLUS-6: a cluster job fails once too many parts have failed, or for want of a quorum, and not before"
ACTS = "CLUS-7: the leader acts with a quorum of the parts at creation, or once the time is over"
IN_TIME = "CLUS-8: a cluster job is decided in time"
ONCE = "CLUS-9: a leader action is claimed once it is decided, and recorded once"
ONE_VERDICT = "CLUS-9: a cluster job has one verdict"
TOGETHER = "CLUS-9: what is open of a cluster job ends with it, and what comes late changes nothing"
BEGUN = "CLUS-11: what a process has begun of a part no other process goes on with"
CANCELLED = "CLUS-13: a cancel reaches the parts that run"
ENDS = "once faults stop, everything ends in time"

# --- the parts ------------------------------------------------------------------------------------------------------


@bug(
    "a part for a node that is gone",
    seen_in="clusters whose membership list is pruned by a timer: a broadcast counts the dead until then",
    run=runs.clusters,
    caught_by=EACH_ITS_PART,
)
def parts_of_the_gone(patch: Patch) -> None:
    patch.sql("members", "n.lost_at is null and n.expires_at > :now", "true")


@bug(
    "a part for a node that does not know the task",
    seen_in="broadcasts that reach every worker, whatever it serves: during a deploy the old version cannot do it",
    run=runs.clusters,
    caught_by=EACH_ITS_PART,
)
def parts_of_the_ignorant(patch: Patch) -> None:
    patch.sql("members", "and :part_task in (select value from json_each(n.tasks))", "")


@bug(
    "a node that joins is counted",
    seen_in="KalamDB: the leader waits for a quorum of the nodes that are active while it waits, so that the number "
    "that it needs moves, and no decision can be checked afterwards",
    run=runs.clusters_that_grow,
    caught_by=EACH_ITS_PART,
)
def joiners_counted(patch: Patch) -> None:
    patch.sql(
        "rename_parts",
        "update oncue_parts set node_name = :name",
        "insert into oncue_parts (cluster_id, node_id, node_name) "
        "select job_id, :node, :name from oncue_cluster_jobs where decided_at is null "
        "on conflict do update set node_name = :name",
    )


@bug(
    "a part that a restarted node goes on with",
    seen_in="KalamDB: a node that starts finds its own records running or retrying, and what was half done is done "
    "again unless they are marked failed",
    run=runs.clusters_that_restart,
    caught_by=BEGUN,
)
def goes_on_after_a_restart(patch: Patch) -> None:
    async def trusting(self: Naming, name: str, now: datetime) -> None: ...

    patch.replace(Naming, "_end_interrupted", trusting)
    _claims_what_others_began(patch)


def _claims_what_others_began(patch: Patch) -> None:
    patch.sql("addressed", "or node_id = :node", "or true")


@bug(
    "a begun part that is due already and is not found by its restarted node",
    seen_in=OWN + "the node looked for parts that waited to be tried again; one whose time had come was queued by then",
    run=runs.clusters_that_restart,
    caught_by=BEGUN,
)
def due_before_the_restart(patch: Patch) -> None:
    patch.sql("interrupted", "where id in", "where state = 'retrying' and id in")
    _claims_what_others_began(patch)


# --- the decision ---------------------------------------------------------------------------------------------------


@bug(
    "half of the nodes for a quorum",
    seen_in="votes that are won with n/2: of two halves of a cluster each has one",
    run=runs.clusters,
    caught_by=ACTS,
)
def half_is_enough(patch: Patch) -> None:
    patch.replace(quorum, "needed", lambda parts: max(1, parts // 2))


@bug(
    "a lost node that leaves the count",
    seen_in="quorums of whoever is alive: after a partition each side is the whole cluster",
    run=runs.clusters,
    caught_by=ACTS,
)
def leavers_leave(patch: Patch) -> None:
    def decide(cluster: ClusterJob, lead: Lead, now: datetime) -> Decision:
        there = tuple(part for part in cluster.parts if not quorum.is_lost(part))
        decision: Decision = real(dataclasses.replace(cluster, parts=there or cluster.parts), lead, now)
        return decision

    real = patch.replace(quorum, "decide", decide)


@bug(
    "a time-out that counts from the creation",
    seen_in="deadlines that are set when the work is handed in: a new leader, which has just taken over, gives up",
    run=runs.clusters,
    caught_by=ACTS,
)
def counted_from_the_creation(patch: Patch) -> None:
    def time_out(cluster: ClusterJob, lead: Lead, told: Any) -> datetime | None:
        return real(
            dataclasses.replace(cluster, parts=()), Lead(lead.node_id, lead.node_name, cluster.job.created_at), told
        )

    real = patch.replace(quorum, "_time_out", time_out)


@bug(
    "an action without a quorum that is told of one",
    seen_in="coordinators that log the missing votes and go on as if they were there",
    run=runs.clusters,
    caught_by=ACTS,
)
def quorum_in_any_case(patch: Patch) -> None:
    async def end_waiting(self: Coordinator, cluster: ClusterJob, decision: Any, *rest: Any) -> None:
        await real(self, cluster, Proceed(True) if isinstance(decision, Proceed) else decision, *rest)

    real = patch.replace(Coordinator, "_end_waiting", end_waiting)


@bug(
    "a lost node that has failed",
    seen_in="fan-outs that take silence for an error: three restarts fail what the other nodes have done",
    run=runs.clusters_that_restart,
    caught_by=FAILS,
)
def lost_is_failed(patch: Patch) -> None:
    def status(part: Part) -> PartStatus:
        found: PartStatus = real(part)
        return "failed" if found == "lost" else found

    real = patch.replace(quorum, "_status", status)


@bug(
    "one failure that fails all",
    seen_in="fan-outs without a quorum: the first error cancels the rest (asyncio.gather, errgroup)",
    run=runs.clusters,
    caught_by=FAILS,
)
def first_failure_decides(patch: Patch) -> None:
    def decide(cluster: ClusterJob, lead: Lead, now: datetime) -> Decision:
        if "failed" in quorum.statuses_of(cluster):
            return End("failed", quorum.PARTS_FAILED, "one has failed")
        decision: Decision = real(cluster, lead, now)
        return decision

    real = patch.replace(quorum, "decide", decide)


@bug(
    "a leader that knows only what it began itself",
    seen_in="coordinators that keep who has answered in memory: their successor waits for answers that were given",
    run=runs.clusters_that_are_led_anew,
    caught_by=IN_TIME,
)
def only_its_own(patch: Patch) -> None:
    def decide(cluster: ClusterJob, lead: Lead, now: datetime) -> Decision:
        is_own = cluster.spread_at is not None and cluster.spread_at >= lead.since
        decision: Decision = real(cluster, lead, now) if is_own else quorum.Wait(None)
        return decision

    real = patch.replace(quorum, "decide", decide)


@bug(
    "a time-out that never comes",
    seen_in="barriers without a deadline: one lost node holds the cluster up for ever",
    run=runs.clusters,
    caught_by=IN_TIME,
)
def waits_for_ever(patch: Patch) -> None:
    patch.replace(quorum, "_time_out", lambda cluster, lead, told: None)


@bug(
    "a decision that is not fenced",
    seen_in="leaders that check their lease first and write later: in between another one leads",
    run=runs.clusters_that_are_led_anew,
    caught_by=LEADS,
)
def release_without_an_epoch(patch: Patch) -> None:
    patch.sql("release_cluster_job", "and holder = :node and epoch = :epoch and expires_at > :now", "")


@bug(
    "parts that a deposed leader writes",
    seen_in="leaders that check their lease first and write later, here when they fan out",
    run=runs.clusters_that_are_led_anew,
    caught_by=LEADS,
)
def spread_without_an_epoch(patch: Patch) -> None:
    patch.sql("leads_now", "and holder = :node and epoch = :epoch and expires_at > :now", "")


# --- the action -----------------------------------------------------------------------------------------------------


@bug(
    "a leader action that does not wait for the parts",
    seen_in="queues in which the collecting job is enqueued with the others, and hopes to be last",
    run=runs.clusters,
    caught_by=(ONCE, "a job with an address is claimed only there"),
)
def acts_at_once(patch: Patch) -> None:
    for statement in ("best", "mine", "few", "alone"):
        patch.sql(
            statement, "'node:' || name from oncue_nodes", "'cluster' union all select 'node:' || name from oncue_nodes"
        )


@bug(
    "a leader action that counts whoever leads",
    seen_in="leaders whose last write arrives after their successor's: the action is done twice, and both say so",
    run=runs.clusters_that_are_led_anew,
    caught_by=ONCE,
)
def recorded_without_an_epoch(patch: Patch) -> None:
    async def claim_jobs(self: Claimer, *wanted: object, **options: object) -> object:
        return await self._store.jobs.claim(*wanted, **options, epoch=self._epoch())  # type: ignore[arg-type]

    patch.replace(Claimer, "_claim_jobs", claim_jobs)


@bug(
    "a cluster job that is started over in place",
    seen_in="queues whose retry resets the row: the parts of the first run count for the second",
    run=runs.clusters_by_hand,
    caught_by=ONE_VERDICT,
)
def started_over(patch: Patch) -> None:
    patch.replace(lifecycle, "is_cluster_job", lambda job: False)


# --- the end --------------------------------------------------------------------------------------------------------


@bug(
    "parts that wait on after their job",
    seen_in="workflows whose children outlive them: what was given up is done the next morning",
    run=runs.clusters,
    caught_by=TOGETHER,
)
def parts_wait_on(patch: Patch) -> None:
    patch.sql("end_parts", "where oncue_jobs.id = part.id and", "where false and oncue_jobs.id = part.id and")
    patch.sql("count_parts", "group by", "and false group by")


@bug(
    "a part that runs on and counts as over",
    seen_in="reports that read the children's rows later: a late success makes a quorum that there was not",
    run=runs.clusters,
    caught_by=TOGETHER,
)
def running_is_over(patch: Patch) -> None:
    patch.sql("leave_parts_open", " or j.state = 'running'", "")


@bug(
    "a part that asks to be tried again after the end",
    seen_in=OWN + "its node was gone by then, and it waited for ever",
    run=runs.clusters_that_retry_late,
    caught_by=ENDS,
)
def left_over(patch: Patch) -> None:
    patch.sql("stop_parts", "deadline_at = :now, ", "")


@bug(
    "a cancel that stays with the leader",
    seen_in="workflows whose cancel marks the parent and leaves the children alone",
    run=runs.clusters_by_hand,
    caught_by=CANCELLED,
)
def cancel_does_not_reach(patch: Patch) -> None:
    patch.sql("stop_parts", "and oncue_jobs.state = 'running'", "and false")


@bug(
    "a dead process's part that is taken for a living namesake's",
    seen_in=OWN + "a part that was addressed to a process without a name counted as alive while another node had the "
    "name that it had been given, and a leader of that name waited for it as for its own",
    run=runs.clusters_of_namesakes,
    caught_by=ENDS,
)
def alive_by_name(patch: Patch) -> None:
    patch.sql(
        "undecided",
        "iif(j.state = 'running', n.id = j.node_id,\n                                      "
        "j.address = 'node:' || iif(n.named, n.name, n.id)",
        "iif(j.state = 'running', n.id = j.node_id, (n.id = p.node_id or (n.named and n.name = p.node_name))",
    )
