"""What holds for groups and rates at each moment of a history, and since when a group has had room."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from oncue.sim.checker.eras import in_era_of, when
from oncue.sim.checker.evidence import Evidence
from oncue.sim.history import Event

AT_ONCE = 40_000
"""A rate lets so much start at once as it would have let start in so many microseconds."""
TOLD = ("limits", "group", "claim", "change")
"""The events that say something of groups."""

Key: TypeAlias = tuple[str, str | None]
"""A queue and a group of it; None is the queue as a whole."""


class StartRate(NamedTuple):
    """A rate: a job every so many microseconds, and beyond that a burst."""

    every: float
    burst: float

    @classmethod
    def of(cls, rate: tuple[int, int] | None) -> StartRate | None:
        if rate is None:
            return None
        every = 1e6 * rate[1] / rate[0]
        return cls(every, AT_ONCE // every * every)


@dataclass(slots=True)
class GroupTerms:
    """The limits, rates and pauses that are in force, and what runs in each group."""

    evidence: Evidence
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[Key, dict[str, Any]] = field(default_factory=dict)
    running: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))

    def key(self, event: Event) -> Key:
        """The group of the job that an event is about."""
        story = self.evidence.jobs[event.fields["id"]]
        return story.queue, story.group

    def note(self, event: Event) -> None:
        told = event.fields
        if event.kind == "limits":
            self.queues[told["queue"]] = told
        elif event.kind == "group":
            self.groups[told["queue"], told["group"]] = told
        elif event.kind == "claim":
            self.running[self.key(event)].add(told["id"])
        elif event.kind == "change" and told["accepted"] and told["from_state"] == "running":
            self.running[self.key(event)].discard(told["id"])

    def limit(self, key: Key) -> int | None:
        """How many jobs of a group may run at once: while its circuit breaker is open, one."""
        if self.groups.get(key, {}).get("trips"):
            return 1
        own: int | None = self.groups.get(key, {}).get("limit")
        return self.queues.get(key[0], {}).get("per_group") if own is None else own

    def pace(self, key: Key) -> StartRate | None:
        """The rate of a group, or of a queue as a whole."""
        of_queue = self.queues.get(key[0], {})
        if key[1] is None:
            return StartRate.of(of_queue.get("rate"))
        own = self.groups.get(key, {}).get("rate")
        return StartRate.of(of_queue.get("rate_per_group") if own is None else own)

    def paused_until(self, key: Key) -> int:
        return self.groups.get(key, {}).get("paused_until") or 0

    def is_full(self, key: Key) -> bool:
        limit = self.limit(key) if key[1] is not None else None
        return limit is not None and len(self.running[key]) >= limit


class Rooms(GroupTerms):
    """The same, and since when each group and each queue with a rate has had room."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._shut_until: dict[Key, int] = {}
        self._used_until: dict[Key, float] = {}

    def shut_until(self, key: Key, now: Event) -> int:
        """Until when its limit, rate, pause or another job kept a group from handing out a job; now, if they do."""
        return max(self.own_shut_until(key, now), self._shut_until.get((key[0], None), 0))

    def own_shut_until(self, key: Key, now: Event) -> int:
        """The same but for the rate of its queue, which is for all its groups."""
        paused_until = min(self.paused_until(key), now.at)  # by the clock of now, which may have been set since
        in_pause = in_era_of(now, paused_until) if paused_until else 0
        return max(self._shut_until.get(key, 0), in_pause, when(now) if self.is_full(key) else 0)

    def note(self, event: Event) -> None:
        if event.kind == "limits":
            super().note(event)
            for key in [(event.fields["queue"], None), *self.groups, *self.running]:
                if key[0] == event.fields["queue"]:
                    self._begin_anew(key, event)
        elif event.kind == "group":
            super().note(event)
            self._begin_anew((event.fields["queue"], event.fields["group"]), event)
        else:
            key = self.key(event)
            was_full = self.is_full(key)
            super().note(event)
            hands_out = event.kind == "claim" and key[1] is not None  # the next one of its group waits from here on
            if hands_out or was_full or self.is_full(key):
                self._shut(key, when(event))
            if event.kind == "claim":
                self._use(key, event)

    def _begin_anew(self, key: Key, event: Event) -> None:
        self._used_until.pop(key, None)
        self._shut_until[key] = max(when(event), in_era_of(event, self.paused_until(key)))

    def _use(self, key: Key, claim: Event) -> None:
        for one in dict.fromkeys((key, (key[0], None))):
            pace = self.pace(one)
            if pace is not None:
                at = claim.fields["claimed_at"]
                used = max(self._used_until.get(one, 0), at - pace.burst) + pace.every
                self._used_until[one] = used
                self._shut(one, in_era_of(claim, round(used)))

    def _shut(self, key: Key, until: int) -> None:
        self._shut_until[key] = max(self._shut_until.get(key, 0), until)
