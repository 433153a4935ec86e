"""Addresses: a job for one node, by its name, or for the leader runs there and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.model import CLUSTER_ADDRESS, LEADER_ADDRESS, NODE_ADDRESS
from oncue.sim.checker.evidence import Evidence, is_taken_away
from oncue.sim.checker.leaders import LEADER
from oncue.sim.checker.promises import Broken, promise


@promise("a job with an address is claimed only there")
def _claimed_there(evidence: Evidence) -> Iterator[Broken]:
    """The name is leased to the node that claims, or it leads, at the instant that its claim says.

    A claim may arrive after the lead was given up, if no other node leads by then. A cluster job is for the leader
    once it is decided, and until then for no node.
    """
    names: dict[str, str] = {}
    moved: dict[int, str] = {}
    leader, until = "", 0
    kinds = ("name", "lease.end", "hold", "hold.end", "claim", "address", "release")
    for event in evidence.told(*kinds) if evidence.certain else ():
        if event.kind == "name":
            names[event.fields["name"]] = event.node
        elif event.kind in ("address", "release"):
            moved[event.fields["id"]] = event.fields.get("address", LEADER_ADDRESS)
        elif event.kind == "lease.end":
            names = {name: node for name, node in names.items() if node != event.node}
        elif event.kind == "hold":
            leader, until = (event.node, event.fields["until"]) if event.fields["name"] == LEADER else (leader, until)
        elif event.kind == "hold.end":
            until = event.at if leader == event.node and event.fields.get("name", LEADER) == LEADER else until
        elif (address := moved.get(event.fields["id"], evidence.jobs[event.fields["id"]].address)) is not None:
            leads = leader == event.node and event.fields["claimed_at"] < until
            if not (leads if address == LEADER_ADDRESS else names.get(_name(address)) == event.node):
                yield Broken(f"job {event.fields['id']} for {address} was claimed by {event.node}", (event,))


def _name(address: str) -> str:
    return address.removeprefix(NODE_ADDRESS)


@promise("a job for the leader ends under the epoch of its claim")
def _ends_under_an_epoch(evidence: Evidence) -> Iterator[Broken]:
    """What its own node writes of an attempt depends on that epoch. A rescuer or an operator needs none."""
    for story in evidence.jobs.values() if evidence.certain else ():
        for turn in story.turns.values() if story.address in (LEADER_ADDRESS, CLUSTER_ADDRESS) else ():
            for change in turn.changes:
                is_own = turn.claim is not None and change.node == turn.claim.node and not is_taken_away(change)
                is_own = is_own and change.fields["from_state"] == "running"
                if is_own and turn.outcomes and "epoch" not in change.fields:
                    yield Broken(f"job {story.id} for the leader ended under no epoch", (change,))
