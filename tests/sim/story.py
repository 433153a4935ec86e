"""A history made by hand: small, whole and clean, so that a test can spoil one thing in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from oncue.model import TERMINAL, Job, Revision, Schedule, Slot
from oncue.sim.checker import Books, Final
from oncue.sim.history import Event, checksum, micros, moment

START = micros(datetime(2030, 1, 1, tzinfo=UTC))
SECOND = 1_000_000
LEASE, BEAT = 15 * SECOND, 5 * SECOND
A_MOMENT = SECOND // 100
TWICE_AN_HOUR: dict[str, Any] = {
    "task": "t", "args": "{}", "queue": "default", "priority": 0, "expression": "1,2 * * * *", "tz": "UTC",
    "dst": "debian", "missed": "latest", "grace": 300.0, "max_instances": 1, "enabled": True, "reason": None,
    "revision": 1, "started_at": moment(START),
}  # fmt: skip


class Story:
    """Events one after the other, a hundredth of a second apart, and the rows that they leave behind."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = START
        self.rows: dict[int, dict[str, Any]] = {}
        self.attempts: dict[int, list[int]] = {}
        self.slots: list[Slot] = []
        self.totals = dict.fromkeys(TERMINAL, 0)
        self.groups: dict[tuple[str, str], dict[str, Any]] | None = None
        self.wakeups = 0
        self.schedule: dict[str, Any] = {"version": 1, "cursor": START, "horizon": None, "deleted_at": None}
        self._op: int | None = None
        self._calls = 0
        self._nodes: list[str] = []
        self._leader: tuple[str, int] | None = None
        self._beat_at = START

    # --- time, and what happens all the time ------------------------------------------------------------------------

    def tell(self, node: str, kind: str, /, **fields: Any) -> Event:
        self.now += A_MOMENT
        event = Event(self.now, node, kind, fields if self._op is None else {**fields, "op": self._op})
        self.events.append(event)
        return event

    def wait(self, seconds: float) -> None:
        """Let time pass, with the beats of everybody who is there."""
        end = self.now + round(seconds * SECOND)
        while self._beat_at <= end:
            self.now = max(self.now, self._beat_at)
            self._beat_at += BEAT
            for node in self._nodes:
                self.tell(node, "lease", until=self.now + LEASE, renewed=True)
            if self._leader is not None:
                self.hold(*self._leader)
        self.now = max(self.now, end)

    def rest(self, until: int) -> None:
        """Let a quiet time pass. Of all its beats only the last ones are told."""
        for node in self._nodes:
            self.tell(node, "lease", until=until + LEASE, renewed=True)
        if self._leader is not None:
            self.hold(*self._leader, until=until + LEASE)
        self.now = self._beat_at = until

    def boot(self, node: str, concurrency: int = 2) -> None:
        self.tell(node, "boot", concurrency=concurrency)
        self.tell(node, "lease", until=self.now + LEASE)
        self.tell(node, "name", name=node)
        self._nodes.append(node)

    def crash(self, node: str) -> None:
        self.tell(node, "crash")
        self._nodes.remove(node)

    def hold(self, node: str, epoch: int, until: int | None = None) -> Event:
        self._leader = (node, epoch)
        return self.tell(node, "hold", name="leader", epoch=epoch, until=until or self.now + LEASE)

    @contextmanager
    def call(self, node: str, verb: str, answer: str | None = "ok", **fields: Any) -> Iterator[dict[str, Any]]:
        """An operation: what is told inside are its effects. What the answer says can be added on the way."""
        self._calls += 1
        self._op, told = self._calls, dict(fields)
        self.tell(node, f"{verb}.invoke", **fields)
        yield told
        if answer is not None:
            self.tell(node, f"{verb}.{answer}", **told)
        self._op = None

    # --- jobs -------------------------------------------------------------------------------------------------------

    def enqueue(self, *ids: int, answer: str = "ok", **described: Any) -> None:
        with self.call("client", "enqueue", answer, ids=list(ids)) as told:
            for job_id in ids:
                self.job(job_id, **described)
            if answer == "ok":
                told |= {"standing": list(ids), "created": [True] * len(ids)}

    def job(self, job_id: int, **described: Any) -> Event:
        self.rows[job_id] = {
            "state": "queued", "reason": None, "claim_no": 0, "retry_count": 0, "attempt": 0, "crashes": 0,
            "visible_at": self.now, "ended_at": None, "started_at": None, "error": None, "schedule": None,
            "cancel": False, "args": {}, **{name: described.get(name) for name in ("key", "deadline_at", "start_by")},
            "options": described.get("options", "{}"),
        }  # fmt: skip
        standard = {
            "task": "t", "queue": "default", "key": None, "options": "{}", "max_retries": 3, "priority": 0,
            "args": checksum({}),
            "order_at": self.now, "visible_at": self.now,
            "state": "scheduled" if described.get("visible_at", 0) > self.now else "queued",
        }  # fmt: skip
        return self.tell("client", "job", id=job_id, **{**standard, **described})

    def claim(self, node: str, job_id: int, answer: str | None = "ok") -> None:
        row = self.rows[job_id]
        row |= {"state": "running", "claim_no": row["claim_no"] + 1}
        names = ("claim_no", "crashes", "retry_count", "attempt")
        with self.call(node, "claim", answer):
            told = {"cancel_requested": row["cancel"], "claimed_at": self.now, **{name: row[name] for name in names}}
            self.tell(node, "claim", id=job_id, **told)

    def start(self, node: str, job_id: int) -> Event:
        row = self.rows[job_id]
        if row["crashes"]:
            self.tell(node, "begin", id=job_id, claim_no=row["claim_no"])
        return self.tell(node, "start", id=job_id, claim_no=row["claim_no"], crashes=row["crashes"])

    def suspects(self, node: str, crashes: int, *ids: int) -> None:
        """Jobs with so many crashes, which begin one after the other."""
        self.enqueue(*ids)
        for job_id in ids:
            self.rows[job_id]["crashes"] = crashes
            self.claim(node, job_id)
            self.start(node, job_id)

    def outcome(self, node: str, job_id: int, outcome: str, **more: Any) -> Event:
        told = {"claim_no": self.rows[job_id]["claim_no"], "outcome": outcome, "delay": None, "final": False}
        return self.tell(node, "outcome", id=job_id, **{**told, **more})

    def change(self, node: str, job_id: int, state: str, *, accepted: bool = True, **more: Any) -> Event:
        """A write to a job, fenced by what its row is. One that is not accepted changes nothing."""
        row = self.rows[job_id]
        told = {
            "from_state": row["state"], "claim_no": row["claim_no"], "state": state, "reason": None, "outcome": state,
            "retry_count": row["retry_count"], "attempt": row["attempt"] + 1, "crashes": row["crashes"],
            "visible_at": self.now, "started_at": self.now, "ended_at": self.now, "error": None,
            **more,
        }  # fmt: skip
        if accepted:
            for name, step in ((told["from_state"], -1), (state, 1)):
                if name in TERMINAL:
                    self.totals[name] += step
            row |= {name: told[name] for name in row if name in told}
            if told["outcome"] is not None and state not in TERMINAL:
                self.attempts.setdefault(job_id, []).append(told["claim_no"])
        with self.call(node, "apply"):
            return self.tell(node, "change", id=job_id, accepted=accepted, **told)

    def run(self, node: str, job_id: int, state: str = "succeeded", came_of: str = "Succeeded", **more: Any) -> None:
        """Claim, start, end and settle."""
        self.claim(node, job_id)
        self.start(node, job_id)
        self.outcome(node, job_id, came_of)
        self.change(node, job_id, state, **more)

    def expire(self, node: str, job_id: int, reason: str = "deadline") -> Event:
        """A job that nobody has claimed is ended."""
        return self.change(node, job_id, "skipped", reason=reason, outcome=None, attempt=self.rows[job_id]["attempt"])

    def cancel(self, job_id: int) -> Event:
        """An operator wants a running job to stop."""
        self.rows[job_id]["cancel"] = True
        return self.tell("operator", "cancel", id=job_id, claim_no=self.rows[job_id]["claim_no"])

    def duplicate(self, job_id: int, standing: int) -> None:
        """A client whose job is not written, since another one stands for it."""
        with self.call("client", "enqueue", ids=[job_id]) as told:
            told |= {"standing": [standing], "created": [False]}

    def retry(self, node: str, job_id: int, seconds: float) -> None:
        """An attempt that fails, and will be tried again."""
        used, visible_at = self.rows[job_id]["retry_count"], self.now + round(seconds * SECOND)
        again = {"retry_count": used + 1, "visible_at": visible_at, "ended_at": self.now}
        self.run(node, job_id, "retrying", "Failed", outcome="failed", **again)

    # --- schedules --------------------------------------------------------------------------------------------------

    def decide(self, node: str, at: int, verdict: str, job_id: int | None = None, epoch: int | None = 1) -> None:
        """Decide one slot, and make its job."""
        with self.call(node, "decide"):
            told = {"schedule": 1, "version": self.schedule["version"], "cursor": at}
            self.tell(node, "step", epoch=epoch, accepted=True, **told)
            reason = None if verdict == "fired" else "overlap"
            self.tell(
                node, "slot", schedule=1, at=at, until=at, slots=1, verdict=verdict, reason=reason, job=job_id,
                blocked_by=None, epoch=epoch,
            )  # fmt: skip
            if job_id is not None:
                self.job(job_id)
                self.rows[job_id]["schedule"] = 1
        self.schedule |= {"version": self.schedule["version"] + 1, "cursor": at}
        self.slots.append(
            Slot(1, moment(at), None, 1, verdict, reason, job_id, None, 1, moment(self.now), None, epoch,  # type: ignore[arg-type]
                 "succeeded" if job_id else None, None, None, None, None, None)
        )  # fmt: skip

    # --- the end ----------------------------------------------------------------------------------------------------

    def final(self) -> Final:
        jobs = tuple(_row(job_id, row) for job_id, row in self.rows.items())
        books = (self.books(),) if self.slots else ()
        silent: dict[tuple[int, int], str | None] = {
            (job_id, number): None for job_id, claims in self.attempts.items() for number in claims
        }
        return Final(jobs, self.totals, books, moment(self.now), self.attempts, silent, self.groups, self.wakeups)

    def books(self) -> Books:
        revision = Revision(schedule_id=1, changed_by="", **TWICE_AN_HOUR)
        schedule = Schedule(
            id=1, name="often", description="", options="{}", max_retries=3, max_runtime=None, deadline=None,
            declared_by=None, next_run_at=None, last_run_at=None, created_by="", created_at=moment(START),
            updated_at=moment(START), **TWICE_AN_HOUR,
            **{**self.schedule, "cursor": moment(self.schedule["cursor"])},
        )  # fmt: skip
        return Books(schedule, [revision], sorted(self.slots, key=lambda slot: slot.scheduled_for), [])

    # --- to spoil something -----------------------------------------------------------------------------------------

    def find(self, kind: str, **fields: Any) -> Event:
        """The first event of this kind with these fields. They can be changed in place."""
        matching = (e for e in self.events if e.kind == kind and all(e.fields.get(k) == v for k, v in fields.items()))
        return next(matching)

    def place(self, event: Event) -> int:
        return next(place for place, other in enumerate(self.events) if other is event)

    def drop(self, *events: Event) -> None:
        for event in events:
            del self.events[self.place(event)]

    def move(self, event: Event, *, after: Event) -> None:
        """Put an event behind another one, right after it in time."""
        self.drop(event)
        self.events.insert(self.place(after) + 1, event._replace(at=after.at))

    def put(self, after: Event, node: str, kind: str, /, **fields: Any) -> Event:
        event = Event(after.at, node, kind, fields)
        self.events.insert(self.place(after) + 1, event)
        return event

    def change_event(self, event: Event, **parts: Any) -> None:
        """Another time or node for an event."""
        self.events[self.place(event)] = event._replace(**parts)


def _row(job_id: int, row: dict[str, Any]) -> Job:
    at = moment(START)
    finished = moment(row["ended_at"]) if row["state"] in TERMINAL else None
    return Job(
        id=job_id, task=row.get("task", "t"), queue=row.get("queue", "default"), priority=0, state=row["state"],
        reason=row["reason"], args=row["args"],
        options=row["options"], key=row["key"], enqueued_by="", created_at=at, updated_at=at, order_at=at,
        visible_at=at, deadline_at=_instant(row["deadline_at"]), start_by=_instant(row["start_by"]), max_runtime=None,
        max_retries=row.get("max_retries", 3), retry_count=row["retry_count"], attempt=row["attempt"],
        crashes=row["crashes"], claim_no=row["claim_no"], node_id=None, claimed_at=None, run_until=None,
        started_at=_instant(row["started_at"]), finished_at=finished, cancel_requested_at=None, result=None,
        error=row["error"], retry_of=None,
        schedule_id=row["schedule"], group=row.get("group"),
    )  # fmt: skip


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else moment(micros)


def later(seconds: float) -> int:
    return START + round(seconds * SECOND)


def some_hours(hours: int = 1) -> Story:
    """A bit of everything that may happen in each hour, and nothing that may not."""
    story = Story()
    story.tell("world", "limit", queue="default", globally=3)
    story.boot("a")
    story.hold("a", 1)
    for hour in range(hours):
        begin, first = START + hour * 3600 * SECOND, 100 * hour
        story.rest(begin + 10 * SECOND)
        b = f"b{hour}" if hour else "b"
        story.boot(b)
        story.rest(begin + 60 * SECOND)
        _in_peace(story, b, begin, first)
        _by_hand(story, b, first)
        _under_a_crash(story, b, first)
    return story


def _in_peace(story: Story, b: str, begin: int, first: int) -> None:
    """Slots, a retry by its policy, a retry by hand, a key that is used again, and a job that must not be repeated."""
    story.decide("a", begin + 60 * SECOND, "fired", first + 11)
    story.run(b, first + 11)
    story.enqueue(first + 1, first + 2)
    story.run("a", first + 1)
    story.retry(b, first + 2, 60)
    story.enqueue(first + 3, key="k")
    story.duplicate(first + 16, standing=first + 3)
    story.run(b, first + 3, "cancelled", "Cancelled", reason="cancelled")
    story.change("operator", first + 3, "queued", outcome="cancelled", attempt=1)
    story.run(b, first + 3)
    story.rest(begin + 120 * SECOND)
    story.decide("a", begin + 120 * SECOND, "skipped")
    story.wait(1)
    story.run("a", first + 2)
    story.enqueue(first + 6, key="k")
    story.run("a", first + 6, "failed", "Failed", reason="it gave up")
    story.enqueue(first + 7, options='{"delivery":"at_most_once"}')
    story.run("a", first + 7, "skipped", "TimedOut", reason="skipped_timeout")
    story.enqueue(first + 10, visible_at=story.now + 30 * SECOND, deadline_at=story.now + 10 * SECOND)
    story.wait(11)
    story.expire("a", first + 10)
    story.wait(9)


def _by_hand(story: Story, b: str, first: int) -> None:
    """Two jobs are cancelled while they run. One hears of it, the other goes back first. Then the queue is paused."""
    heard, given_back = first + 14, first + 15
    story.enqueue(heard, given_back)
    for job_id in (heard, given_back):
        story.claim(b, job_id)
        story.start(b, job_id)
        story.cancel(job_id)
    story.tell(b, "stop", id=heard, claim_no=1)
    story.outcome(b, heard, "Cancelled")
    story.change(b, heard, "cancelled", reason="cancelled")
    story.outcome(b, given_back, "Released")
    story.change(b, given_back, "queued", outcome="shutdown")
    story.claim("a", given_back)
    story.change("a", given_back, "cancelled", reason="cancelled", outcome=None, attempt=1)
    story.tell("operator", "pause", queue="default")
    story.wait(1)
    story.tell("operator", "resume", queue="default")


def _under_a_crash(story: Story, b: str, first: int) -> None:
    """Node b dies under job 4, with its claim of job 5 unanswered; a takes over. Then there is peace."""
    four, five, eight, nine = (first + number for number in (4, 5, 8, 9))
    story.enqueue(four, five)
    story.claim(b, four)
    story.start(b, four)
    story.claim(b, five, answer=None)
    story.crash(b)
    story.wait(16)
    story.tell(b, "lease.end", by="a")
    for job_id in (four, five):
        story.change("a", job_id, "queued", outcome="node_lost", error="node_lost", crashes=1)
    story.change("a", four, "queued", accepted=False, from_state="running")  # another pass of the rescue came late
    story.enqueue(eight)
    for job_id in (four, five, eight):
        story.run("a", job_id)
    story.tell("world", "faults.over")
    story.wait(50)
    story.tell("world", "calm", leaders=["a"], waiting=[])
    story.enqueue(nine)
    story.run("a", nine)
    story.wait(10)
    story.tell("a", "prune", jobs=1, before=story.now)
    del story.rows[eight]
