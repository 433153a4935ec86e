"""Which processes were active at an instant, as the rows of the nodes had it."""

from __future__ import annotations

from dataclasses import dataclass

from oncue.model import NewParts
from oncue.sim.checker.leaders import EXCLUSIVE, LEADER
from oncue.sim.history import Event


@dataclass(slots=True)
class ActiveMember:
    """A process that may take part."""

    name: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    until: int = -1
    """When its lease ends, as its row says."""
    is_sure: bool = True
    """Whether the history has all of its leases: it does not tell those that arrive after its death."""

    def can(self, parts: NewParts) -> bool:
        return parts.task in self.tasks and parts.queue in self.queues


class ActiveMembers:
    def __init__(self) -> None:
        self._members: dict[str, ActiveMember] = {}
        self._exclusive: tuple[str, int] | None = None

    def note(self, event: Event) -> None:
        told, member = event.fields, self._members.get(event.node)
        if event.kind == "boot":
            self._members[event.node] = ActiveMember(
                told.get("name", event.node), tuple(told["queues"]), tuple(told["tasks"])
            )
        elif event.kind == "hold":
            if told["name"] == EXCLUSIVE:
                self._exclusive = (event.node, told["until"])
        elif event.kind == "hold.end":
            if self._exclusive is not None and self._exclusive[0] == event.node and told.get("name") != LEADER:
                self._exclusive = None
        elif member is None:
            return
        elif event.kind == "lease":
            member.until = told["until"]
        elif event.kind == "lease.end":
            member.until = -1
        elif event.kind == "name":
            member.name = told["name"]
        elif event.kind == "crash":
            member.is_sure = False

    def active(self, parts: NewParts, at: int, leader: str) -> dict[str, bool]:
        """The processes that take part at an instant, and whether that is certain."""
        alone = self._exclusive[0] if self._exclusive is not None and self._exclusive[1] > at else None
        return {
            node: member.is_sure
            for node, member in self._members.items()
            if member.can(parts)
            and (member.until > at or not member.is_sure)
            and alone in (None, node)
            and (not parts.leader_only or node == leader)
        }

    def name(self, node: str) -> str:
        return self._members[node].name
