"""Leadership: epochs grow, the leader alone decides, and a cluster in peace has one that stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from oncue.sim.checker.eras import in_era_of, when
from oncue.sim.checker.evidence import Evidence
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event

LEADER, EXCLUSIVE = "leader", "exclusive"
LEASES_TO_SETTLE = 3
"""After so many leases in peace a node leads, and goes on leading."""


@dataclass(slots=True)
class Tenure:
    """What one node held of a lease under one epoch: its first and its last renewal."""

    name: str
    node: str
    epoch: int
    first: Event
    last: Event
    given_up: bool = False
    late_renewals: list[tuple[Event, Event]] = field(default_factory=list)
    """Each with the one before it, which was over by then as far as the database's clock tells."""

    @property
    def until(self) -> int:
        """When it was over, as the database's time has it."""
        until: int = self.last.fields["until"]
        return until

    def is_of(self, hold: Event) -> bool:
        return (self.node, self.epoch) == (hold.node, hold.fields["epoch"])

    def renew(self, hold: Event) -> None:
        if hold.at >= self.until:
            self.late_renewals.append((self.last, hold))
        self.last, self.given_up = hold, False


def _tenures(evidence: Evidence) -> dict[str, list[Tenure]]:
    """For each lease who held it, one after the other."""
    tenures: dict[str, list[Tenure]] = {}
    for event in evidence.told("hold", "hold.end"):
        if event.kind == "hold":
            name, epoch = event.fields["name"], event.fields["epoch"]
            held = tenures.setdefault(name, [])
            if held and held[-1].is_of(event):
                held[-1].renew(event)
            else:
                held.append(Tenure(name, event.node, epoch, event, event))
            continue
        for name in [event.fields["name"]] if "name" in event.fields else list(tenures):
            held = tenures.get(name, [])
            if held and held[-1].node == event.node:
                held[-1].given_up = True
    return tenures


@promise("epochs only grow, and each has one holder")
def _epochs(evidence: Evidence) -> Iterator[Broken]:
    """No node takes a lease that is not over, and none renews a lease that is over."""
    if not evidence.ordered:
        return
    for name, tenures in _tenures(evidence).items():
        before: Tenure | None = None
        for tenure in tenures:
            if before is not None:
                yield from _succession(evidence, name, before, tenure)
            for earlier, later in tenure.late_renewals if evidence.lease_is_told else ():
                # A call takes time to arrive: what counts is the instant that it carries.
                asked_at = later.fields["until"] - evidence.lease
                if asked_at >= earlier.fields["until"] and not evidence.is_unsure(later):
                    yield Broken(f"the {name} lease was renewed after it was over", (earlier, later))
            before = tenure


def _succession(evidence: Evidence, name: str, before: Tenure, after: Tenure) -> Iterator[Broken]:
    events = (before.last, after.first)
    if before.node == after.node:
        if after.epoch < before.epoch:
            yield Broken(f"the epoch of the {name} lease went back", events)
        return
    if after.epoch <= before.epoch:
        yield Broken(f"the {name} lease changed hands without a new epoch", events)
    early = after.first.at + evidence.tolerance < before.until and not evidence.is_unsure(after.first)
    if early and not before.given_up:
        yield Broken(f"the {name} lease was taken from a holder whose time was not over", events)


@promise("only the current leader decides")
def _led(evidence: Evidence) -> Iterator[Broken]:
    """A decision that was accepted carries the epoch of the leader at that moment."""
    if not evidence.ordered:
        return
    leader: Event | None = None
    for event in evidence.told("hold", "step"):
        if event.kind == "hold":
            leader = event if event.fields["name"] == LEADER else leader
        elif event.fields["accepted"] and not _is_led_by(event, leader):
            yield Broken("a decision under an old epoch was accepted", (*([leader] if leader else []), event))


def _is_led_by(step: Event, leader: Event | None) -> bool:
    """Whether a decision was the current leader's. Those by hand need no leader."""
    epoch = step.fields["epoch"]
    return epoch is None or (leader is not None and (leader.node, leader.fields["epoch"]) == (step.node, epoch))


@promise("nobody works beside an exclusive node")
def _alone(evidence: Evidence) -> Iterator[Broken]:
    """While it holds its lease, the database hands jobs and the lead to no other node, and who held it before is done.

    A node that never asked to be exclusive may still begin and finish what it had claimed by then.
    """
    if not evidence.certain:
        return
    taken: Event | None = None
    holder: Event | None = None
    exclusive: set[str] = set()
    for event in evidence.told("hold", "hold.end", "claim", "start") if _has_exclusive(evidence) else ():
        if event.kind == "hold" and event.fields["name"] == EXCLUSIVE:
            taken = event if taken is None or holder is None or holder.node != event.node else taken
            holder = event
            exclusive.add(event.node)
        elif event.kind == "hold.end":
            is_over = holder is not None and holder.node == event.node
            holder = None if is_over and event.fields.get("name", EXCLUSIVE) == EXCLUSIVE else holder
        elif holder is not None and taken is not None and holder.node != event.node:
            # By the clock of the new holder: if that one was wrong, the old one did not have to know.
            zombie = event.kind != "start" or (event.node in exclusive and not evidence.is_unsure(taken))
            if zombie and _holds_at(holder, event, evidence):
                deed = {"hold": "led", "claim": "claimed", "start": "began"}[event.kind]
                yield Broken(f"{event.node} {deed} while {holder.node} was the exclusive node", (holder, event))


def _has_exclusive(evidence: Evidence) -> bool:
    return any(event.fields["name"] == EXCLUSIVE for event in evidence.told("hold"))


def _holds_at(hold: Event, event: Event, evidence: Evidence) -> bool:
    until = in_era_of(hold, hold.fields["until"])
    return when(event) + evidence.tolerance < until and not evidence.is_unsure(event)


@promise("a lease that was lost is not renewed")
def _revenants(evidence: Evidence) -> Iterator[Broken]:
    """Who was declared lost joins anew, since its jobs may be others' by now."""
    for renewal in evidence.revenants if evidence.ordered else ():
        yield Broken(f"{renewal.node} went on with a lease that had ended", (renewal,))


@promise("a lease lasts as long as its holder was told")
def _not_cut_short(evidence: Evidence) -> Iterator[Broken]:
    """A renewal that arrives late does not take back a later one: its holder goes by what it was told last."""
    lasts: dict[tuple[str, ...], Event] = {}
    for event in evidence.told("lease", "lease.end", "hold") if evidence.certain else ():
        if event.kind == "lease.end":
            lasts.pop((event.node,), None)
            continue
        lease = (event.node, event.fields["name"]) if event.kind == "hold" else (event.node,)
        before, lasts[lease] = lasts.get(lease), event
        if before is None or evidence.is_unsure(before):  # what was told by a wrong clock lasts too long
            continue
        if _ends(event) + evidence.tolerance < _ends(before):
            yield Broken(f"a lease of {event.node} was cut short", (before, event))


def _ends(lease: Event) -> int:
    return in_era_of(lease, lease.fields["until"])


@promise("only the dead are declared lost")
def _burials(evidence: Evidence) -> Iterator[Broken]:
    """Their lease is over, their process has died, or the node that says so has taken the exclusive lease from them."""
    leases: dict[str, int] = {}
    exclusive: str | None = None
    for event in evidence.told("lease", "lease.end", "crash", "hold", "hold.end") if evidence.certain else ():
        if event.kind == "lease":
            leases[event.node] = in_era_of(event, event.fields["until"])
        elif event.kind == "crash":
            leases.pop(event.node, None)
        elif event.kind == "hold":
            exclusive = exclusive if event.fields["name"] == LEADER else event.node
        elif event.kind == "hold.end":
            exclusive = None if event.node == exclusive and event.fields.get("name") != LEADER else exclusive
        else:
            by, until = event.fields.get("by", event.node), leases.pop(event.node, 0)
            alive = until > when(event) + evidence.tolerance and not evidence.is_unsure(event)
            if alive and by not in (event.node, exclusive):
                yield Broken(f"{by} declared {event.node} lost, whose lease was not over", (event,))


@promise("once faults stop, somebody leads and no slot waits")
def _led_in_peace(evidence: Evidence) -> Iterator[Broken]:
    """Long after the last fault exactly one node leads, and no schedule is behind."""
    for event in evidence.told("calm"):
        if len(event.fields["leaders"]) != 1 or event.fields["waiting"]:
            yield Broken(f"{event.fields['leaders']} lead, and {event.fields['waiting']} wait", (event,))


@promise("once faults stop, one leader stays")
def _stable_leader(evidence: Evidence) -> Iterator[Broken]:
    """Three leases after the last fault a node leads, and the same node does so until the end."""
    if not (evidence.lease_is_told and evidence.ordered and any(evidence.told("faults.over"))):
        return
    # A job may take its process with it, and the lead, when all other faults are over.
    peace = max(
        in_era_of(event, event.fields.get("until") or event.at) for event in evidence.told("faults.over", "fault")
    )
    settled, end = peace + LEASES_TO_SETTLE * evidence.lease, when(evidence.events[-1])
    if end <= settled:
        return
    tenures = _tenures(evidence).get(LEADER, [])
    for tenure in tenures:
        if when(tenure.first) > settled:
            yield Broken(f"{tenure.node} took over in peace", (tenure.first,))
    if not tenures or tenures[-1].given_up or in_era_of(tenures[-1].last, tenures[-1].until) <= end:
        yield Broken("nobody leads in the end", tuple(tenure.last for tenure in tenures[-1:]))
