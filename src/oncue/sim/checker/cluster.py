"""Cluster jobs: a part for each active node, a decision by the leader, one verdict; what comes late changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oncue.model import TERMINAL, NewParts
from oncue.policy.lifecycle import BY_HAND, CLUSTER_JOB_ENDED
from oncue.sim.checker.cluster_story import OPEN, ClusterStory, ObservedCluster, cluster_jobs
from oncue.sim.checker.eras import era_of, in_era_of, when
from oncue.sim.checker.evidence import Evidence, ends
from oncue.sim.checker.jobs import may_be_pruned
from oncue.sim.checker.members import ActiveMembers
from oncue.sim.checker.peace import Weather
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event, micros_or_none

NO_QUORUM, PARTS_FAILED, NOTHING_TO_DO = "no_quorum", "parts_failed", "nothing_to_do"
NODE_RESTARTED, NO_NODES = "node_restarted", "no_nodes"
UNDER_WAY = 2_000_000
"""How long a decision may take from the look at the parts to its commit in peace, in microseconds."""
ROUNDING = 10

# --- the parts ------------------------------------------------------------------------------------------------------


@promise("CLUS-1: a cluster job has one record, and a part for each node that was active then")
def _one_part_each(evidence: Evidence) -> Iterator[Broken]:
    """Its parts are written once: for all nodes that are alive, know the task, serve its queue and do not stand by, or
    for those of them that are named, if all these are active. Who comes later has no part. The rows say the same."""
    members, terms = ActiveMembers(), {story.id: told.parts for story, told in cluster_jobs(evidence)}
    seen: dict[int, Event] = {}
    kinds = ("boot", "lease", "lease.end", "name", "crash", "hold", "hold.end", "spread")
    for event in evidence.told(*kinds) if evidence.certain and terms else ():
        if event.kind != "spread":
            members.note(event)
            continue
        job_id = event.fields["id"]
        if job_id in seen:
            yield Broken(f"the parts of cluster job {job_id} were written twice", (seen[job_id], event))
        seen[job_id] = event
        if not evidence.is_unsure(event):
            yield from _right_nodes(members, terms[job_id], event)
    yield from _rows_of_parts(evidence, seen)


def _right_nodes(members: ActiveMembers, parts: NewParts, spread: Event) -> Iterator[Broken]:
    told, job_id = [part["node"] for part in spread.fields["parts"]], spread.fields["id"]
    active = members.active(parts, spread.fields["at"], spread.node)
    if parts.nodes is not None:
        active = {node: sure for node, sure in active.items() if members.name(node) in parts.nodes}
        if {members.name(node) for node in active} != set(parts.nodes) or not all(active.values()):
            active = active if told else {}
    if len(told) != len(set(told)):
        yield Broken(f"a node has two parts of cluster job {job_id}", (spread,))
    for node in sorted({node for node, sure in active.items() if sure} - set(told)):
        yield Broken(f"{node} was active and has no part of cluster job {job_id}", (spread,))
    for node in sorted(set(told) - active.keys()):
        yield Broken(f"{node} has a part of cluster job {job_id} and was not active", (spread,))


def _rows_of_parts(evidence: Evidence, seen: dict[int, Event]) -> Iterator[Broken]:
    rows = {cluster.id: cluster for cluster in evidence.final.clusters}
    for job_id, spread in seen.items():
        row, told = rows.get(job_id), spread.fields
        if row is None:
            if not may_be_pruned(evidence, job_id):
                yield Broken(f"the record of cluster job {job_id} is gone", (spread,))
            continue
        written = sorted((part["job"] or 0, part["node"] if part["job"] is None else "") for part in told["parts"])
        there = sorted((part.job_id or 0, "" if part.job_id is not None else "?") for part in row.parts)
        is_same = [job for job, _ in written] == [job for job, _ in there]
        if not is_same or (micros_or_none(row.spread_at), row.epoch) != (told["at"], told["epoch"]):
            yield Broken(f"cluster job {job_id} has other parts in the end than were written", (spread,))
    if seen or evidence.complete:
        for job_id in sorted(rows.keys() - seen.keys()) if evidence.certain else ():
            yield Broken(f"cluster job {job_id} has a record that no leader wrote")


@promise("CLUS-11: what a process has begun of a part no other process goes on with")
def _one_process(evidence: Evidence) -> Iterator[Broken]:
    """A part that is to be tried again has failed once its node is restarted. An operator may queue it again."""
    for story in evidence.jobs.values():
        if story.written is None or "whole" not in story.written.fields:
            continue
        begun: Event | None = None
        for turn in story.turns.values():
            for attempt in turn.attempts:
                if begun is not None and begun.node != attempt.start.node:
                    yield Broken(f"part {story.id} was begun by two processes", (begun, attempt.start))
                begun = attempt.start
            if any(BY_HAND in (change.fields["outcome"], change.fields["reason"]) for change in turn.changes):
                begun = None


# --- the decision ---------------------------------------------------------------------------------------------------


@promise("CLUS-3: only the node that leads writes parts and decides")
def _led(evidence: Evidence) -> Iterator[Broken]:
    """Parts, the beginning of a leader action and the end of a job that waits are written under the epoch that leads,
    while that lasts; and the action begins once."""
    story = ClusterStory(evidence)
    for cluster, event in story.events():
        told, is_own = event.fields, event.fields["id"] == cluster.story.id
        if event.kind not in ("spread", "release") or not is_own:
            continue
        lead = story.lead
        is_over = told["at"] >= lead.until and not evidence.is_unsure(event)
        if not lead.is_of(event.node, told["epoch"]) or is_over:
            holds = () if lead.first is None else (lead.first,)
            yield Broken(f"the {event.kind} of cluster job {told['id']} is not the leader's", (*holds, event))
        if event.kind == "release" and cluster.release is not None:
            yield Broken(f"cluster job {told['id']} was decided twice", (cluster.release, event))
        if event.kind == "release" and cluster.end is not None:
            yield Broken(f"cluster job {told['id']} was decided after its end", (cluster.end, event))


@promise("CLUS-7: the leader acts with a quorum of the parts at creation, or once the time is over")
def _acts_in_turn(evidence: Evidence) -> Iterator[Broken]:
    """It is told truly whether there was a quorum. The time counts from the end of its own part, from the instant at
    which it took over, or from the creation: the latest of these."""
    story, weather = ClusterStory(evidence), Weather(evidence)
    for cluster, event in story.events():
        quorum = _proceeds(cluster, event)
        if quorum is None or cluster.terms.leader_only:
            continue
        job_id = cluster.story.id
        if quorum and not (cluster.has_quorum and cluster.counts["completed"]):
            yield Broken(f"the leader of cluster job {job_id} acts with a quorum that there is not", (event,))
        elif not quorum and cluster.terms.on_no_quorum == "fail":
            yield Broken(f"the leader of cluster job {job_id} acts without the quorum that it has to have", (event,))
        elif not quorum:
            yield from _waited(story, cluster, event)
            yield from _knows_better(cluster, event, weather)


def _proceeds(cluster: ObservedCluster, event: Event) -> bool | None:
    """Whether an event is a decision to act or to succeed, and with a quorum or without."""
    if event.fields["id"] != cluster.story.id or _decision(cluster, event) is None:
        return None
    if event.kind == "release":
        return bool(event.fields["quorum"])
    told = event.fields
    return None if told["state"] != "succeeded" else told["reason"] != NO_QUORUM


def _decision(cluster: ObservedCluster, event: Event) -> str | None:
    """Which decision of the leader's an event is: a release, or the end of a job that waits, by its state."""
    if event.kind == "release":
        return "release"
    told = event.fields
    decides = event.kind == "change" and "epoch" in told and told["from_state"] != "running" and ends(event)
    return told["state"] if decides and event.fields["id"] == cluster.story.id else None


def _waited(story: ClusterStory, cluster: ObservedCluster, event: Event) -> Iterator[Broken]:
    """Whether the time of a decision without a quorum was over."""
    began = _waits_since(story, cluster, event)
    if began is None:
        # It may have been lost, if the leader was: its lease was over for a while, or its process stood still.
        if Weather(story.evidence).was_fine(when(cluster.spread or event), when(event)):
            yield Broken(f"the leader of cluster job {cluster.story.id} has not done its own part", (event,))
        return
    at = event.fields["at"] if event.kind == "release" else event.fields["ended_at"]
    instants = [one for one in (event, cluster.spread, story.lead.first) if one is not None]
    is_sure = len({era_of(one) for one in instants}) == 1 and not any(map(story.evidence.is_unsure, instants))
    waited = at - began + ROUNDING + story.evidence.tolerance
    if is_sure and waited < round(cluster.terms.quorum_timeout * 1e6):
        message = f"the leader of cluster job {cluster.story.id} waited for {(at - began) / 1e6:g} s only"
        yield Broken(message, (*instants[1:], event))


def _waits_since(story: ClusterStory, cluster: ObservedCluster, event: Event) -> int | None:
    """From when the time-out counts; None while the leader's own part is open."""
    assert cluster.spread is not None
    began, lead = cluster.spread.fields["at"], story.lead
    if lead.first is not None and story.evidence.lease_is_told:
        began = max(began, lead.first.fields["until"] - story.evidence.lease)
    for part in cluster.parts.values():
        if part.node != lead.node:
            continue
        if part.status in OPEN:
            return None
        began = max(began, (part.ended or event).fields["ended_at"])
    return int(began)


def _knows_better(cluster: ObservedCluster, event: Event, weather: Weather) -> Iterator[Broken]:
    """Whether there was a quorum for long when a decision says that there was none."""
    since = cluster.quorum_since
    if since is not None and when(event) - when(since) > UNDER_WAY and weather.was_fine(when(since), when(event)):
        yield Broken(f"cluster job {cluster.story.id} had a quorum, and it is said to have none", (since, event))


@promise("CLUS-6: a cluster job fails once too many parts have failed, or for want of a quorum, and not before")
def _fails_in_turn(evidence: Evidence) -> Iterator[Broken]:
    """Where its leader ends a job that waits, its parts bear that out: a lost one has not failed, it is open."""
    story = ClusterStory(evidence)
    for cluster, event in story.events():
        state = _decision(cluster, event)
        if state in (None, "release", "succeeded"):
            continue
        reason, counts, terms = event.fields["reason"], cluster.counts, cluster.terms
        restarted = any(part.restarted for part in cluster.parts.values())
        borne_out = {
            PARTS_FAILED: cluster.cannot_have_one,
            NODE_RESTARTED: restarted and terms.on_node_restart == "fail",
            NO_NODES: not cluster.parts,
            NO_QUORUM: terms.on_no_quorum == "fail" and bool(cluster.parts),
            NOTHING_TO_DO: counts["skipped"] >= cluster.needed,
        }
        if not borne_out.get(reason, False):
            yield Broken(f"cluster job {cluster.story.id} is {state} ({reason}), and its parts do not say so", (event,))
        elif reason == NO_QUORUM or (reason == NOTHING_TO_DO and not cluster.has_quorum):
            yield from _waited(story, cluster, event)


@promise("CLUS-9: a leader action is claimed once it is decided, and recorded once")
def _acts_once(evidence: Evidence) -> Iterator[Broken]:
    """No attempt of it begins before; one of them at most is recorded as a success, under the epoch that leads."""
    story = ClusterStory(evidence)
    recorded: dict[int, Event] = {}
    for cluster, event in story.events():
        if event.fields["id"] != cluster.story.id:
            continue
        job_id = cluster.story.id
        if event.kind == "claim" and cluster.release is None:
            yield Broken(f"cluster job {job_id} was claimed before it was decided", (event,))
        elif event.kind == "change" and event.fields["outcome"] == "succeeded" == event.fields["state"]:
            if job_id in recorded:
                yield Broken(f"the leader action of cluster job {job_id} is recorded twice", (recorded[job_id], event))
            recorded[job_id] = event
            if event.fields["reason"] != BY_HAND and not story.lead.is_of(
                event.fields.get("leader", ""), event.fields.get("epoch", -1)
            ):
                yield Broken(f"the leader action of cluster job {job_id} is recorded under an old epoch", (event,))


@promise("CLUS-9: a cluster job has one verdict")
def _one_verdict(evidence: Evidence) -> Iterator[Broken]:
    """It ends once, and is never started over: a retry is another job. The row keeps what was decided."""
    rows = {cluster.id: cluster for cluster in evidence.final.clusters}
    for story, _ in cluster_jobs(evidence) if evidence.complete else ():
        verdicts = [change for change in story.changes if ends(change)]
        if len(verdicts) > 1:
            yield Broken(f"cluster job {story.id} has {len(verdicts)} verdicts", tuple(verdicts))
        if any(change.fields["from_state"] in TERMINAL for change in story.changes):
            yield Broken(f"cluster job {story.id} was started over", tuple(story.changes))
    for event in evidence.told("release"):
        row = rows.get(event.fields["id"])
        if row is not None and (row.quorum, row.decided_epoch) != (event.fields["quorum"], event.fields["epoch"]):
            yield Broken(f"cluster job {row.id} says that it was decided otherwise", (event,))


# --- the end --------------------------------------------------------------------------------------------------------


@promise("CLUS-9: what is open of a cluster job ends with it, and what comes late changes nothing")
def _ends_together(evidence: Evidence) -> Iterator[Broken]:
    """In the same transaction the parts that wait are skipped, or cancelled with it, and the row says which parts were
    open. That stays so. No part begins after that."""
    story = ClusterStory(evidence)
    rows = {row.id: row for row in evidence.final.clusters}
    open_at_end: dict[int, set[int | str]] = {}
    settled: set[int | str] = set()
    """The parts that the same call settles for themselves: they may count as open or as over."""
    for cluster, event in story.events():
        if event.fields["id"] == cluster.story.id:
            if event.kind == "change" and ends(event) and cluster.end is None:
                open_at_end[cluster.story.id] = {job for job, part in cluster.parts.items() if part.status in OPEN}
                settled |= {job for job in cluster.parts if _is_settled_by(evidence, job, event)}
                yield from _waiting_parts(evidence, cluster, event)
        elif event.kind == "claim" and cluster.end is not None and event.fields["claim_no"] == 1:
            yield Broken(f"part {event.fields['id']} was claimed after its cluster job's end", (cluster.end, event))
    for job_id, left in open_at_end.items():
        row, parts = rows.get(job_id), story.clusters[job_id].parts
        said = {} if row is None else {part.job_id: part.was_open for part in row.parts if part.job_id is not None}
        for job in parts:
            if job in said and job not in settled and said[job] != (job in left):
                yield Broken(f"part {job} is said to have been {'open' if job not in left else 'over'} at the end")


def _is_settled_by(evidence: Evidence, job_id: int | str, end: Event) -> bool:
    story = evidence.jobs.get(job_id) if isinstance(job_id, int) else None
    changes = [] if story is None else story.changes
    return any(
        one.fields.get("op") == end.fields.get("op") and one.fields["reason"] != CLUSTER_JOB_ENDED for one in changes
    )


def _waiting_parts(evidence: Evidence, cluster: ObservedCluster, end: Event) -> Iterator[Broken]:
    """The parts that wait when their job ends: the same call ends them."""
    for job_id, part in cluster.parts.items():
        if part.status != "open" or not isinstance(job_id, int) or job_id not in evidence.jobs:
            continue
        expected = "cancelled" if end.fields["state"] == "cancelled" else "skipped"
        ended = [one for one in evidence.jobs[job_id].changes if one.fields.get("op") == end.fields.get("op")]
        last = ended[-1].fields if ended else {}
        if (last.get("state"), last.get("reason")) != (expected, CLUSTER_JOB_ENDED) and not any(map(ends, ended)):
            yield Broken(f"part {job_id} waits on after the end of its cluster job", (end, *ended))


@promise("CLUS-13: a cancel reaches the parts that run")
def _cancelled_together(evidence: Evidence) -> Iterator[Broken]:
    """When a cluster job is cancelled, each of its parts that runs is asked to stop."""
    story = ClusterStory(evidence)
    asked: dict[int, list[Event]] = {}
    for of, request in evidence.cancels:
        asked.setdefault(of.id, []).append(request)
    for cluster, event in story.events():
        is_end = event.fields["id"] == cluster.story.id and event.kind == "change" and ends(event)
        if not is_end or event.fields["state"] != "cancelled":
            continue
        for job_id, part in cluster.parts.items():
            if part.status != "running" or not isinstance(job_id, int):
                continue
            heard = any(
                one.at <= event.at or one.fields.get("op") == event.fields.get("op") for one in asked.get(job_id, ())
            )
            settled = any(one.fields.get("op") == event.fields.get("op") for one in evidence.jobs[job_id].changes)
            if not heard and not settled:
                yield Broken(f"part {job_id} runs on though its cluster job was cancelled", (event,))


# --- in time --------------------------------------------------------------------------------------------------------


@promise("CLUS-8: a cluster job is decided in time")
def _decided_in_time(evidence: Evidence) -> Iterator[Broken]:
    """While nothing disturbs the cluster, its parts are written and it is decided once that is possible: with its
    quorum, once none can come about, or with the time-out. Asked for with `late`."""
    if evidence.late is None:
        return
    story, weather, most = ClusterStory(evidence), Weather(evidence), round(evidence.late * 1e6)

    def late(since: int, event: Event) -> bool:
        return when(event) - max(since, weather.fine_since(when(event))) > most

    for cluster, event in story.events():
        since = _could_be_decided(story, cluster, event)
        if since is None or event.fields["id"] != cluster.story.id or cluster.end or cluster.release:
            continue
        if late(since, event):
            waited = (when(event) - since) / 1e6
            yield Broken(f"cluster job {cluster.story.id} waited {waited:g} s for its leader", (event,))
    end = evidence.events[-1] if evidence.events else None
    for cluster in story.clusters.values() if end is not None and evidence.certain else ():
        if cluster.end is None and cluster.release is None and end is not None:
            since = _could_be_decided(story, cluster, end)
            if since is not None and late(since, end):
                yield Broken(f"cluster job {cluster.story.id} waits for its leader's decision for ever", (end,))


def _could_be_decided(story: ClusterStory, cluster: ObservedCluster, now: Event) -> int | None:
    """Since when the leader had something to do for a job that waits."""
    written: Any = cluster.story.written
    if cluster.spread is None:
        due = in_era_of(written, written.fields["visible_at"])
        return None if written.fields.get("parked") else max(when(written), due)
    if cluster.terms.leader_only or not cluster.parts:
        return when(cluster.spread)
    if cluster.decidable_since is not None:
        return when(cluster.decidable_since)
    began = _waits_since(story, cluster, now)
    if began is None:
        return None
    return in_era_of(now, began + round(cluster.terms.quorum_timeout * 1e6))
