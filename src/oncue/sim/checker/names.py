"""Names: each is one living node's at a time, and in peace every node has one."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.sim.checker.eras import in_era_of, when
from oncue.sim.checker.evidence import Evidence
from oncue.sim.checker.leaders import EXCLUSIVE, LEASES_TO_SETTLE
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


@promise("two living nodes never have the same name")
def _one_of_a_name(evidence: Evidence) -> Iterator[Broken]:
    """A name is free again when the node that had it is declared lost, leaves, or begins a new life, without a name."""
    holders: dict[str, Event] = {}
    for event in evidence.told("name", "lease", "lease.end") if evidence.certain else ():
        if event.kind != "name":
            if not event.fields.get("renewed"):
                holders = {name: taken for name, taken in holders.items() if taken.node != event.node}
            continue
        before = holders.setdefault(event.fields["name"], event)
        if before.node != event.node:
            yield Broken(f"{event.node} and {before.node} had the name {event.fields['name']} at once", (before, event))


@promise("once faults stop, every node has a name")
def _named_in_peace(evidence: Evidence) -> Iterator[Broken]:
    """Three leases after the last fault, or after its start, each node that lives has a name; a stand-by needs none."""
    if not (evidence.certain and evidence.lease_is_told and any(evidence.told("faults.over", "name"))):
        return
    if any(event.fields["name"] == EXCLUSIVE for event in evidence.told("hold")):
        return
    end, named = when(evidence.events[-1]), set[str]()
    nodes: dict[str, Event] = {}
    for event in evidence.told("boot", "lease", "lease.end", "crash", "name"):
        if event.kind in ("lease.end", "crash"):
            named.discard(event.node)
            nodes.pop(event.node, None)
        elif event.kind == "name":
            named.add(event.node)
        elif event.kind == "lease":
            nodes.setdefault(event.node, event)
    peace = max((_ended(event) for event in evidence.told("faults.over", "fault", "boot")), default=0)
    if end > peace + LEASES_TO_SETTLE * evidence.lease:
        for node in nodes.keys() - named:
            yield Broken(f"{node} has no name", (nodes[node],))


def _ended(event: Event) -> int:
    return in_era_of(event, event.fields.get("until") or event.at)
