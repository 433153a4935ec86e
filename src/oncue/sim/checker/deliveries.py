"""Webhooks: a delivery is sent as often, as far apart and as it was asked for, and ends as its endpoint answered."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from oncue.model import DELIVER, TERMINAL, Job
from oncue.policy import options
from oncue.policy.deliveries import form_of
from oncue.policy.http import LONGEST_RETRY_AFTER, outcome
from oncue.policy.retry import Ladder
from oncue.policy.templates import DeliveryFacts, rendered
from oncue.sim.checker.eras import era_of, when
from oncue.sim.checker.evidence import LEARNED_WITHIN, Evidence, JobStory, Turn, claim_no, ends, is_by_hand
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event, micros

ROUNDING = 2
"""Instants are whole microseconds."""
NOTHING_TO_SEND = ("webhook_", "the request cannot be made")
"""How the errors of attempts begin that had no reason to send something."""


@dataclass(slots=True)
class _Sent:
    """What one attempt of a delivery sent, what came of that at the endpoint, and what the attempt heard of it."""

    posts: list[Event] = field(default_factory=list)
    requests: list[Event] = field(default_factory=list)
    answers: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class _Delivery:
    story: JobStory
    written: Event
    sent: dict[int, _Sent] = field(default_factory=dict)
    """By claim_no."""

    @property
    def id(self) -> int:
        return self.story.id

    @property
    def posts(self) -> list[Event]:
        return [post for _, sent in sorted(self.sent.items()) for post in sent.posts]

    @property
    def ladder(self) -> Ladder:
        found = options.read(self.written.fields["options"]).retry
        assert isinstance(found, Ladder)
        return found


_KINDS = {"post": "posts", "request": "requests", "answer": "answers"}


def _deliveries(evidence: Evidence) -> list[_Delivery]:
    """Every delivery that the whole story is told of, with what its attempts sent."""
    if not evidence.certain or "post" not in evidence.places:
        return []
    found = {
        story.id: _Delivery(story, story.written)
        for story in evidence.jobs.values()
        if story.written is not None and story.written.fields["task"] == DELIVER
    }
    for event in evidence.told(*_KINDS):
        sent = found[event.fields["id"]].sent.setdefault(claim_no(event), _Sent())
        getattr(sent, _KINDS[event.kind]).append(event)
    return list(found.values())


def _settled(turn: Turn) -> Event | None:
    """The change that ended a claim."""
    return next((change for change in turn.changes if change.fields["from_state"] == "running"), None)


# --- how often, and when --------------------------------------------------------------------------------------------


@promise("a delivery is sent as often as its ladder says")
def _bounded(evidence: Evidence) -> Iterator[Broken]:
    """Once, and once more for each step; beside that only for attempts that were cut short, and when started over."""
    for delivery in _deliveries(evidence):
        counted: list[Event] = []
        for turn in delivery.story.turns.values():
            sent = delivery.sent.get(turn.number, _Sent())
            if len(sent.posts) > 1:
                yield Broken(f"one attempt of delivery {delivery.id} sent {len(sent.posts)} requests", (*sent.posts,))
            settled = _settled(turn)
            if settled is not None and settled.fields["state"] not in ("queued", "scheduled"):
                counted += sent.posts
            if any(change.fields["from_state"] in TERMINAL for change in turn.changes):
                counted = []  # an operator started it over, under its last claim
            if len(counted) > 1 + len(delivery.ladder.steps):
                yield Broken(f"delivery {delivery.id} was sent {len(counted)} times", (*counted,))


@promise("attempts of a delivery are spaced by its ladder")
def _spaced(evidence: Evidence) -> Iterator[Broken]:
    """After a failed attempt the next one waits for its step, or for as long as the endpoint asked, up to an hour."""
    for delivery in _deliveries(evidence):
        turns = list(delivery.story.turns.values())
        for place, turn in enumerate(turns):
            settled = _settled(turn)
            if settled is None or settled.fields["state"] != "retrying" or is_by_hand(settled):
                continue
            shortest = _wait(delivery, turn, settled)
            waits = (settled.fields["visible_at"] - settled.fields["ended_at"]) / 1e6
            if waits > max(_step(delivery, settled), LONGEST_RETRY_AFTER) + 1e-5:
                yield Broken(f"delivery {delivery.id} is to wait for {waits:g} s", (settled,))
            later = (post for one in turns[place + 1 :] for post in delivery.sent.get(one.number, _Sent()).posts)
            post = next(later, None)
            if post is None or era_of(post) != era_of(settled) or evidence.is_unsure(settled):
                continue
            if turn.changes[-1] is not settled:
                continue  # an operator did not want to wait for it
            waited = post.at - settled.fields["ended_at"]
            if waited + evidence.tolerance + ROUNDING < shortest * 1e6:
                message = f"delivery {delivery.id} was sent again after {waited / 1e6:g} s, not after {shortest:g}"
                yield Broken(message, (*delivery.sent.get(turn.number, _Sent()).requests, settled, post))


def _step(delivery: _Delivery, settled: Event) -> float:
    """The step of the ladder after an attempt that failed."""
    steps = delivery.ladder.steps
    used: int = settled.fields["retry_count"] - 1
    return steps[min(max(used, 0), len(steps) - 1)]


def _wait(delivery: _Delivery, turn: Turn, settled: Event) -> float:
    """Seconds until the next attempt, at least: its step, or what the endpoint asked for if the attempt heard that."""
    step, sent = _step(delivery, settled), delivery.sent.get(turn.number, _Sent())
    if not sent.requests or not any("status" in answer.fields for answer in sent.answers):
        return step
    told = sent.requests[0].fields
    asked: float = told.get("seconds", 0.0)
    if "until" in told:
        asked = (told["until"] - settled.fields["ended_at"]) / 1e6
    return max(step, min(asked, LONGEST_RETRY_AFTER))


@promise("a delivery that has ended is not sent")
def _nothing_after_the_end(evidence: Evidence) -> Iterator[Broken]:
    """A node whose lease has ended may still send what it holds; one that holds a delivery which an operator ended,
    until it has heard of that. What has left its node arrives."""
    for delivery in _deliveries(evidence):
        changes = delivery.story.changes
        if not changes or not ends(changes[-1]):
            continue
        end = changes[-1]
        for turn in delivery.story.turns.values():
            known = LEARNED_WITHIN + evidence.lease if is_by_hand(end) else evidence.tolerance
            for post in delivery.sent.get(turn.number, _Sent()).posts:
                lease = next((one.lease.end for one in turn.attempts if one.start.node == post.node), 0)
                rightful = when(post) < lease and not evidence.is_unsure(post)
                if rightful and when(post) > when(end) + known:
                    yield Broken(f"delivery {delivery.id} was sent after its end", (end, post))


# --- what came of it ------------------------------------------------------------------------------------------------


@promise("what is delivered was answered with 2xx")
def _delivered(evidence: Evidence) -> Iterator[Broken]:
    """Before a delivery counts as delivered its endpoint has answered a request so. An operator may say it too."""
    for delivery in _deliveries(evidence):
        for change in delivery.story.changes:
            if change.fields["state"] != "succeeded" or is_by_hand(change):
                continue
            requests = [request for sent in delivery.sent.values() for request in sent.requests]
            heard = [one for one in requests if when(one) <= when(change) and one.fields["status"] is not None]
            if not any(outcome(one.fields["status"]) == "delivered" for one in heard):
                yield Broken(f"delivery {delivery.id} counts as delivered", (*requests, change))


@promise("an attempt ends as its endpoint answered")
def _as_answered(evidence: Evidence) -> Iterator[Broken]:
    """2xx delivers; 5xx, 429 and no answer are tried again; any other answer fails. Unless the attempt is cut short."""
    for delivery in _deliveries(evidence):
        for number, sent in delivery.sent.items():
            for answer in sent.answers:
                came_to = [one for one in delivery.story.turns[number].outcomes if one.node == answer.node]
                for one in came_to:
                    kind, final = one.fields["outcome"], one.fields["final"]
                    if kind in ("Succeeded", "Failed") and (kind, final) != _expected(answer):
                        yield Broken(f"an attempt of delivery {delivery.id} came to {kind}", (answer, one))


def _expected(answer: Event) -> tuple[str, bool]:
    if "status" not in answer.fields:
        return "Failed", False
    meaning = outcome(answer.fields["status"])
    return ("Succeeded", False) if meaning == "delivered" else ("Failed", meaning == "failed")


@promise("only what was sent is charged")
def _charged(evidence: Evidence) -> Iterator[Broken]:
    """An attempt that failed has sent its request, unless its webhook or itself is not fit for one. What is held back
    by a breaker, a pause or the database costs no attempt, and has sent nothing."""
    for delivery in _deliveries(evidence):
        for turn in delivery.story.turns.values():
            settled, posts = _settled(turn), delivery.sent.get(turn.number, _Sent()).posts
            if posts and not all(one.fields.get("begun", True) for one in turn.outcomes):
                yield Broken(f"an attempt of delivery {delivery.id} counts as none, and was sent", (*posts,))
            failed = [one for one in turn.outcomes if one.fields["outcome"] in ("Failed", "TimedOut")]
            if settled is None or not failed or settled.node != failed[0].node or is_by_hand(settled):
                continue
            is_fit = not str(settled.fields["error"]).startswith(NOTHING_TO_SEND)
            if is_fit and not posts:
                yield Broken(f"an attempt of delivery {delivery.id} failed and had sent nothing", (failed[0], settled))


# --- what is sent, and where to -------------------------------------------------------------------------------------


@promise("a delivery has one id and one body")
def _one_id(evidence: Evidence) -> Iterator[Broken]:
    """All its requests carry the same webhook-id and body, and no other delivery has that id."""
    owners: dict[str, Event] = {}
    for delivery in _deliveries(evidence):
        posts = delivery.posts
        for first, later in pairwise(posts):
            for name in ("webhook_id", "body"):
                if first.fields[name] != later.fields[name]:
                    yield Broken(f"delivery {delivery.id} was sent with another {name}", (first, later))
        for post in posts:
            before = owners.setdefault(post.fields["webhook_id"], post)
            if before.fields["id"] != delivery.id:
                yield Broken(f"the deliveries {before.fields['id']} and {delivery.id} share an id", (before, post))


@promise("a delivery is sent as it was made")
def _as_made(evidence: Evidence) -> Iterator[Broken]:
    """It carries the ladder, the method and the body's template that its webhook had then, and is sent with those."""
    versions, rows = _Versions(evidence), {job.id: job for job in evidence.final.jobs}
    of_slots = {event.fields["job"] for event in evidence.told("slot")}
    for delivery in _deliveries(evidence):
        told, made = delivery.written.fields, when(delivery.written)
        known = versions.until(told["group"], made)
        if told.get("retry_of") is None and delivery.id in of_slots:
            known = known[-1:]
        if known and told["options"] not in [one.fields["options"] for one in known]:
            yield Broken(f"delivery {delivery.id} was made with other options", (*known[-1:], delivery.written))
        row = rows.get(delivery.id)
        for post in delivery.posts if row is not None else ():
            assert row is not None
            method, body = _form(row, told["options"])
            if (post.fields["method"], post.fields["body"]) != (method, body):
                yield Broken(f"delivery {delivery.id} was sent in another form", (delivery.written, post))


def _form(row: Job, stored: str) -> tuple[str, str | None]:
    form = form_of(stored)
    facts = DeliveryFacts(
        str(row.uid), row.args.get("webhook"), row.scheduled_for, row.created_at, row.args.get("payload")
    )
    body = rendered(form.method, form.content_type, form.body, facts)
    return form.method, None if body is None else body.decode()


class _Versions:
    """The webhooks, as each of them was from one edit to the next."""

    def __init__(self, evidence: Evidence) -> None:
        self._edits: dict[str, list[Event]] = defaultdict(list)
        for event in evidence.told("webhook"):
            self._edits[event.fields["name"]].append(event)
        self._instants = {name: [when(event) for event in edits] for name, edits in self._edits.items()}

    def until(self, name: str | None, instant: int) -> list[Event]:
        """What it was until then, the latest last."""
        return self._edits[name][: bisect_right(self._instants[name], instant)] if name in self._instants else []

    def between(self, name: str, start: int, end: int) -> list[Event]:
        """What it was at some moment of this time."""
        begun = bisect_right(self._instants[name], start)
        return self._edits[name][max(begun - 1, 0) : bisect_right(self._instants[name], end)]

    def knows(self, name: str | None) -> bool:
        return name in self._instants


def _at_posts(evidence: Evidence) -> Iterator[tuple[_Delivery, Event, list[Event]]]:
    """Each request to a webhook, with what that was from the start of the attempt until the request left."""
    versions = _Versions(evidence)
    for delivery in _deliveries(evidence):
        name = delivery.story.group
        if name is None or not versions.knows(name):
            continue
        for number, sent in delivery.sent.items():
            for post in sent.posts:
                attempts = delivery.story.turns[number].attempts
                start = next((one.start for one in attempts if one.start.node == post.node), post)
                yield delivery, post, versions.between(name, when(start), when(post))


@promise("a delivery goes to where its webhook points")
def _where(evidence: Evidence) -> Iterator[Broken]:
    """Each attempt reads the URL anew; a delivery to a bare URL goes to its host."""
    for delivery, post, versions in _at_posts(evidence):
        if all(one.fields["url"] != post.fields["url"] for one in versions):
            yield Broken(f"delivery {delivery.id} was sent to {post.fields['url']}", (*versions, post))


@promise("a deleted or disabled webhook is sent nothing")
def _off(evidence: Evidence) -> Iterator[Broken]:
    """Nor is one that was made anew sent what belongs to the deleted one. An attempt reads that once, as it begins."""
    rows = {job.id: job for job in evidence.final.jobs}
    for delivery, post, versions in _at_posts(evidence):
        row = rows.get(delivery.id)
        made = None if row is None else micros(row.created_at)
        if versions and not any(_takes(one, made) for one in versions):
            yield Broken(f"delivery {delivery.id} was sent to a webhook that is off", (*versions, post))


def _takes(version: Event, made: int | None) -> bool:
    """Whether a webhook takes a delivery that was made then."""
    told = version.fields
    is_older = made is not None and told["deleted_at"] is not None and made <= told["deleted_at"]
    return bool(told["enabled"]) and not told["deleted"] and not is_older
