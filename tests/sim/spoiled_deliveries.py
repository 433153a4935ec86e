"""What can go wrong with deliveries and breakers, one thing at a time. With these the cases are complete."""

from __future__ import annotations

from typing import Any

from oncue.identity import job_uid
from oncue.model import DELIVER, WEBHOOKS_QUEUE
from oncue.policy.deliveries import Form, carried
from oncue.policy.retry import Ladder
from oncue.policy.templates import DeliveryFacts, rendered
from oncue.sim.history import Event, checksum, moment
from tests.sim.spoiled import CASES, breaks
from tests.sim.story import SECOND, START, Story

__all__ = ["CASES", "some_deliveries"]

HOOK, URL = "orders", "https://orders.example/in"
ARGS = {"webhook": HOOK}
STEPS = (30.0, 60.0)
OPTIONS = carried(Form(), Ladder(*STEPS)).options


def some_deliveries(story: Story) -> None:
    """A webhook, a delivery that takes three attempts, and a breaker that opens, stays open, and closes."""
    story.tell("world", "breaker", threshold=1)
    _webhook(story, 1)
    story.wait(60)
    _make(story, 301)
    _fail(story, 301, 429, STEPS[0])
    _fail(story, 301, 429, 90.0, seconds=90.0)
    _attempt(story, 301, 200)
    _make(story, 302)
    for trips, step in enumerate(STEPS, 1):
        _fail(story, 302, 500, step, trips=trips)
    _attempt(story, 302, 200, closes=True)
    story.wait(60)


def _webhook(story: Story, version: int, **fields: Any) -> Event:
    told = {"url": URL, "enabled": True, "deleted": False, "deleted_at": None, "options": OPTIONS, **fields}
    return story.tell("operator", "webhook", name=HOOK, version=version, **told)


def _make(story: Story, job_id: int) -> None:
    fields: dict[str, Any] = {"task": DELIVER, "queue": WEBHOOKS_QUEUE, "group": HOOK, "max_retries": len(STEPS)}
    story.enqueue(job_id, options=OPTIONS, args=checksum(ARGS), **fields)
    story.rows[job_id] |= {**fields, "args": ARGS}


def _fail(story: Story, job_id: int, status: int, step: float, *, trips: int = 0, **asked: float) -> None:
    """An attempt that is tried again after its step, which passes. Perhaps it opens the breaker."""
    _exchange(story, job_id, status, **asked)
    if trips:
        with story.call("a", "trip"):
            _set_breaker(story, paused_until=story.now + round(step * SECOND), trips=trips)
    story.outcome("a", job_id, "Failed", delay=asked.get("seconds"), at_least=True)
    used = story.rows[job_id]["retry_count"]
    again = {"retry_count": used + 1, "visible_at": story.now + round(step * SECOND), "ended_at": story.now}
    story.change("a", job_id, "retrying", outcome="failed", **again)
    story.wait(step + 1)


def _attempt(story: Story, job_id: int, status: int, *, closes: bool = False) -> None:
    """The last attempt, which delivers. Perhaps it closes the breaker."""
    _exchange(story, job_id, status)
    if closes:
        with story.call("a", "trip"):
            _set_breaker(story, paused_until=None)
    story.outcome("a", job_id, "Succeeded")
    story.change("a", job_id, "succeeded")


def _set_breaker(story: Story, **fields: Any) -> None:
    story.tell("a", "group", queue=WEBHOOKS_QUEUE, group=HOOK, limit=None, rate=None, **fields)


def _exchange(story: Story, job_id: int, status: int, **asked: float) -> None:
    story.claim("a", job_id)
    story.start("a", job_id)
    uid, made = str(job_uid(job_id, moment(START))), moment(START)
    body = rendered("POST", "application/json", None, DeliveryFacts(uid, HOOK, None, made))
    told = {"id": job_id, "claim_no": story.rows[job_id]["claim_no"]}
    request = {**told, "webhook_id": uid, "url": URL}
    story.tell("a", "post", **request, method="POST", body=None if body is None else body.decode())
    story.tell("receiver", "request", **request, status=status, **asked)
    story.tell("a", "answer", **told, status=status)


# --- deliveries -----------------------------------------------------------------------------------------------------


@breaks("a delivery is sent as often as its ladder says", "delivery 301 was sent 4 times")
def one_time_too_many(story: Story) -> None:
    some_deliveries(story)
    story.rows[301] |= {"state": "queued"}
    _attempt(story, 301, 200)


@breaks("a delivery is sent as often as its ladder says", "one attempt of delivery 301 sent 2 requests")
def twice_in_one_attempt(story: Story) -> None:
    some_deliveries(story)
    post = story.find("post", id=301)
    story.put(post, "a", "post", **post.fields)


@breaks("attempts of a delivery are spaced by its ladder", "delivery 301 was sent again after 26")
def too_early(story: Story) -> None:
    some_deliveries(story)
    story.find("change", id=301, retry_count=1).fields["ended_at"] += 5 * SECOND


@breaks("attempts of a delivery are spaced by its ladder", "not after 150")
def a_wish_that_is_ignored(story: Story) -> None:
    some_deliveries(story)
    story.find("request", id=301, claim_no=2).fields["seconds"] = 150.0


@breaks("attempts of a delivery are spaced by its ladder", "delivery 301 is to wait for 90000 s")
def for_a_day(story: Story) -> None:
    some_deliveries(story)
    change = story.find("change", id=301, retry_count=2).fields
    change["visible_at"] = change["ended_at"] + 90_000 * SECOND


@breaks("a delivery that has ended is not sent", "delivery 301 was sent after its end")
def after_its_end(story: Story) -> None:
    some_deliveries(story)
    post = story.find("post", id=301, claim_no=3)
    story.tell("a", "post", **post.fields)


@breaks("what is delivered was answered with 2xx", "delivery 301 counts as delivered")
def delivered_by_an_error(story: Story) -> None:
    some_deliveries(story)
    story.find("request", id=301, status=200).fields["status"] = 500


@breaks("an attempt ends as its endpoint answered", "an attempt of delivery 301 came to Failed")
def not_taken_for_an_answer(story: Story) -> None:
    some_deliveries(story)
    story.find("answer", id=301, claim_no=1).fields["status"] = 200


@breaks("only what was sent is charged", "an attempt of delivery 301 failed and had sent nothing")
def charged_for_nothing(story: Story) -> None:
    some_deliveries(story)
    for kind in ("post", "request", "answer"):
        story.drop(story.find(kind, id=301, claim_no=1))


@breaks("only what was sent is charged", "an attempt of delivery 301 counts as none, and was sent")
def sent_for_nothing(story: Story) -> None:
    some_deliveries(story)
    story.find("outcome", id=301).fields["begun"] = False


@breaks("a delivery has one id and one body", "delivery 301 was sent with another webhook_id")
def another_id(story: Story) -> None:
    some_deliveries(story)
    story.find("post", id=301, claim_no=2).fields["webhook_id"] = "another"


@breaks("a delivery has one id and one body", "delivery 301 was sent with another body")
def another_body(story: Story) -> None:
    some_deliveries(story)
    story.find("post", id=301, claim_no=2).fields["body"] = "{}"


@breaks("a delivery has one id and one body", "the deliveries 301 and 302 share an id")
def one_id_for_two(story: Story) -> None:
    some_deliveries(story)
    for event in story.events:
        if event.kind == "post":
            event.fields["webhook_id"] = "the same"


@breaks("a delivery is sent as it was made", "delivery 302 was made with other options")
def made_with_other_options(story: Story) -> None:
    some_deliveries(story)
    story.find("webhook").fields["options"] = carried(Form(), Ladder("1s")).options


@breaks("a delivery is sent as it was made", "delivery 301 was sent in another form")
def in_another_form(story: Story) -> None:
    some_deliveries(story)
    for event in story.events:
        if event.kind == "post":
            event.fields["method"] = "PUT"


@breaks("a delivery goes to where its webhook points", "delivery 301 was sent to https://orders.example/in")
def to_an_old_address(story: Story) -> None:
    some_deliveries(story)
    story.find("webhook").fields["url"] = "https://orders.example/elsewhere"


@breaks("a deleted or disabled webhook is sent nothing", "delivery 301 was sent to a webhook that is off")
def to_a_disabled_one(story: Story) -> None:
    some_deliveries(story)
    story.find("webhook").fields["enabled"] = False


@breaks("a deleted or disabled webhook is sent nothing", "delivery 301 was sent to a webhook that is off")
def to_its_namesake(story: Story) -> None:
    """It was deleted after the delivery was made, and made anew."""
    some_deliveries(story)
    story.find("webhook").fields["deleted_at"] = START + SECOND


# --- breakers -------------------------------------------------------------------------------------------------------


@breaks("a breaker opens by the failures of its own endpoint", "opened after 0 failures")
def opened_by_another(story: Story) -> None:
    some_deliveries(story)
    for event in story.events:
        if event.kind == "answer":
            event.fields["status"] = 404


@breaks("a breaker opens by the failures of its own endpoint", "is open for less than its cool-down")
def open_for_a_moment(story: Story) -> None:
    some_deliveries(story)
    opened = story.find("group", trips=2)
    opened.fields["paused_until"] = opened.at + SECOND


@breaks("a breaker closes when its endpoint answers", "orders answered, and its breaker stays open")
def never_closed(story: Story) -> None:
    some_deliveries(story)
    story.drop([event for event in story.events if event.kind == "group"][-1])


@breaks("a failed probe keeps its breaker open for longer", "a probe of orders failed, and the next one may go at once")
def the_next_one_at_once(story: Story) -> None:
    some_deliveries(story)
    story.find("group", trips=1).fields["trips"] = 5
    story.find("group", trips=2).fields["trips"] = 5
