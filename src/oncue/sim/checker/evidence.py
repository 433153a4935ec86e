"""What the promises look at: the events of a history sorted by job, claim and operation, and the rows of the end.

A job's story is told turn by turn: a turn is everything that happened under one claim_no. An attempt knows the lease
that its node held when it started, and an operation knows what it did and what was answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from oncue.model import DEFAULT_QUEUE, TERMINAL, ClusterJob, Job, Revision, Schedule, Slot
from oncue.policy.lifecycle import BY_HAND
from oncue.sim.checker.eras import era_of, when
from oncue.sim.history import Event

FOREVER = 10**30
LEARNED_WITHIN = 2_000_000
"""How long a node may take to learn what an operator did, in microseconds, beside the rest of its lease."""
OVERRUN = "over its maximum runtime"
LOST = ("node_lost", "worker_startup_recovery")
"""What a change says of an attempt whose node is gone."""


@dataclass(frozen=True, slots=True)
class Books:
    """A schedule with everything that the database has of it. `doubled` are slots with two jobs."""

    schedule: Schedule
    revisions: list[Revision]
    slots: list[Slot]
    doubled: list[datetime]


@dataclass(frozen=True, slots=True)
class WindowBooks:
    """A daily window with everything that the database has of it."""

    window: Schedule
    ledger: Mapping[str, Sequence[Slot]]
    """What became of the days of each subject."""
    tallies: Mapping[tuple[str, str], int]
    """How many subjects are counted, by the day and by what happened."""


@dataclass(frozen=True, slots=True)
class Final:
    """What the database held in the end: the rows, and the totals by state if they are to be compared."""

    jobs: tuple[Job, ...]
    totals: Mapping[str, int] | None = None
    schedules: tuple[Books, ...] = ()
    at: datetime | None = None
    """When that was."""
    attempts: Mapping[int, Sequence[int]] | None = None
    """For each job the claims whose attempts are on record, beside the one that the row itself tells of."""
    details: Mapping[tuple[int, int], str | None] | None = None
    """What those attempts have told, by job and claim."""
    groups: Mapping[tuple[str, str], Mapping[str, Any]] | None = None
    """The groups that have a row, by queue and name: limit, rate and paused_until as they are set."""
    wakeups: int = 0
    """How many notes of what happened in groups have not been read."""
    windows: tuple[WindowBooks, ...] = ()
    clusters: tuple[ClusterJob, ...] = ()
    """The cluster jobs that have their parts, with these."""


def claim_no(event: Event) -> int:
    number: int = event.fields["claim_no"]
    return number


def ends(change: Event) -> bool:
    """Whether a change ends its job."""
    return change.fields["state"] in TERMINAL


@dataclass(slots=True, eq=False)
class LeasePeriod:
    """A stretch of time for which a node might hold jobs: from a first lease through all renewals in time."""

    end: int
    closed: bool = False
    """Whether the node was declared lost, or left."""


NO_LEASE = LeasePeriod(-1, closed=True)


@dataclass(slots=True)
class ObservedAttempt:
    """One execution of a job on a node, rightful until the first of its ends."""

    place: int
    """Where it stands among all attempts, in the order of their starts."""
    start: Event
    lease: LeasePeriod
    unanswered: bool
    """Whether it began though the node had no answer to its claim."""
    end: int = FOREVER
    """When it ended on its node, its node died, or it was taken away for being overlong or by hand."""

    @property
    def rightful_until(self) -> int:
        return min(self.end, self.lease.end)


@dataclass(slots=True)
class Turn:
    """What happened to a job under one claim_no; under 0, before its first claim. Changes are the accepted ones."""

    number: int
    claims: list[Event] = field(default_factory=list)
    lease: LeasePeriod = NO_LEASE
    attempts: list[ObservedAttempt] = field(default_factory=list)
    begins: list[Event] = field(default_factory=list)
    """When the database was told that its attempt begins."""
    outcomes: list[Event] = field(default_factory=list)
    changes: list[Event] = field(default_factory=list)
    details: list[Event] = field(default_factory=list)
    """What was saved of what its attempt told."""
    stop: Event | None = None
    """When its node heard that it is to be cancelled."""

    @property
    def claim(self) -> Event | None:
        return self.claims[0] if self.claims else None

    @property
    def outcome(self) -> Event | None:
        return self.outcomes[0] if self.outcomes else None


@dataclass(slots=True)
class JobStory:
    """The events of one job: turn by turn, and its claims and attempted changes in the order of the history."""

    id: int
    written: Event | None = None
    turns: dict[int, Turn] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)

    def turn(self, number: int) -> Turn:
        found = self.turns.get(number)
        if found is None:
            found = self.turns[number] = Turn(number)
        return found

    @property
    def queue(self) -> str:
        name: str = DEFAULT_QUEUE if self.written is None else self.written.fields.get("queue", DEFAULT_QUEUE)
        return name

    @property
    def group(self) -> str | None:
        name: str | None = None if self.written is None else self.written.fields.get("group")
        return name

    @property
    def address(self) -> str | None:
        told: str | None = None if self.written is None else self.written.fields.get("address")
        return told

    @property
    def changes(self) -> list[Event]:
        """The accepted ones, in the order of claim_no."""
        return [change for turn in self.turns.values() for change in turn.changes]

    @property
    def claims(self) -> list[Event]:
        return [claim for turn in self.turns.values() for claim in turn.claims]

    @property
    def attempts(self) -> list[ObservedAttempt]:
        return [attempt for turn in self.turns.values() for attempt in turn.attempts]


@dataclass(slots=True)
class SubjectStory:
    """The events of one subject of a window, in the order of the history: its terms, its days and their outcomes."""

    schedule: int
    name: str
    log: list[Event] = field(default_factory=list)

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.log if event.kind == kind]


@dataclass(slots=True)
class ObservedOperation:
    """One call of a process: what it asked, what the database did, and what it was told."""

    invoke: Event
    effects: list[Event] = field(default_factory=list)
    answer: Event | None = None
    effects_before_answer: int = 0


@dataclass(slots=True)
class Evidence:
    events: Sequence[Event]
    final: Final
    complete: bool
    ordered: bool
    tolerance: int
    known: list[int]
    """For each era when every process knew its time."""
    drained_within: float | None = None
    late: float | None = None
    prompt: float | None = None
    lease: int = 0
    """How long a lease is, in microseconds: as was said, or else as it was when nodes joined."""
    lease_is_told: bool = False
    jobs: dict[int, JobStory] = field(default_factory=dict)
    subjects: dict[tuple[int, str], SubjectStory] = field(default_factory=dict)
    subject_days: Any = None
    """The same by date (`subject_days`), once a promise has asked for it."""
    deadlines: dict[int, Event] = field(default_factory=dict)
    """The deadlines that running parts were given when their cluster job ended."""
    spread: dict[int, Event] = field(default_factory=dict)
    """When the parts of each cluster job were written."""
    operations: dict[int, ObservedOperation] = field(default_factory=dict)
    strangers: list[Event] = field(default_factory=list)
    """Effects and answers of operations that no process began."""
    ghosts: list[Event] = field(default_factory=list)
    """What processes did after they had died."""
    crashes: dict[str, Event] = field(default_factory=dict)
    revenants: list[Event] = field(default_factory=list)
    """Renewals of leases that had ended."""
    has_leases: bool = False
    pruned: int = 0
    """How many finished jobs were deleted."""
    pruned_before: int = 0
    """Those that had ended before this instant, as the rows tell it, could be."""
    places: dict[str, list[int]] = field(default_factory=dict)
    """Where in the history the events of each kind are."""
    cancels: list[tuple[JobStory, Event]] = field(default_factory=list)
    """What operators wanted to stop."""
    stopped: list[Turn] = field(default_factory=list)
    """Claims whose node had heard of that."""
    doomed: list[tuple[JobStory, Turn]] = field(default_factory=list)
    """Claims that say that their job is to be cancelled."""

    @property
    def certain(self) -> bool:
        """Whether a state can be told from the events before it: none is missing, and none is out of place."""
        return self.complete and self.ordered

    def is_unsure(self, event: Event) -> bool:
        """Whether the clock was just set, so that the processes may not know the time."""
        return era_of(event) > 0 and when(event) < self.known[era_of(event)]

    def told(self, *kinds: str) -> Iterator[Event]:
        """The events of these kinds, in the order of the history."""
        places = [place for kind in kinds for place in self.places.get(kind, ())]
        return map(self.events.__getitem__, sorted(places) if len(kinds) > 1 else places)


def is_by_hand(change: Event) -> bool:
    """Whether an operator said what became of a job."""
    return BY_HAND in (change.fields["outcome"], change.fields["reason"])


def is_taken_away(change: Event) -> bool:
    """Whether an attempt that may go on lost its right to: it is overlong, its day is over, or an operator said so."""
    told = change.fields
    return str(told["error"]).startswith(OVERRUN) or is_by_hand(change) or closes_day(change)


def closes_day(change: Event) -> bool:
    """Whether the planner ended the job of a subject's day, which had not succeeded in time."""
    told = change.fields
    return told["state"] == "skipped" and told.get("day_status") is not None and told.get("ending") is None
