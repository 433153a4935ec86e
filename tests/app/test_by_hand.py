"""Statuses set by hand, one and many, and what the audit log has of every change."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from oncue import Conflict, InvalidJob, JobNotFound, Oncue, Task, cron
from oncue.model import TERMINAL, Claim, Failed, Limits, Outcome, Succeeded
from oncue.policy import lifecycle
from oncue.policy.lifecycle import Ended
from oncue.verbs.base import MOST_TRIES
from oncue.verbs.schedules.declaring import Declaring
from tests.store.scene import a_node


@pytest.fixture
def work(app: Oncue) -> Task[[int], None]:
    @app.task
    def work(n: int) -> None: ...

    return work


async def a_worker(app: Oncue) -> UUID:
    """A node that claims what a test tells it to."""
    connected = await app.internals.connected()
    now = connected.now()
    node = a_node(started_at=now, expires_at=now + timedelta(hours=1))
    await connected.store.nodes.register(node)
    return node.id


async def claimed(app: Oncue, node: UUID, task: str = "work") -> Claim:
    connected = await app.internals.connected()
    (claim,) = await connected.store.jobs.claim(node, ["default"], [task], 1, connected.now())
    return claim


async def settled(app: Oncue, claim: Claim, outcome: Outcome) -> bool:
    """What becomes of an attempt, told by the node that made it."""
    connected = await app.internals.connected()
    now = connected.now()
    (took,) = await connected.store.jobs.apply(
        [lifecycle.settle(Ended(claim, outcome, claim.claimed_at, now), Random(1))], now
    )
    return took


async def logged(app: Oncue, subject: str) -> list[tuple[str, str, Any, Any]]:
    """Who did what to this, oldest first."""
    entries = await app.audit_log.list(subject=subject)
    return [(entry.actor, entry.action, entry.before, entry.after) for entry in reversed(entries)]


# --- waiting and finished -------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-12", "QUE-17")
@pytest.mark.parametrize(("word", "state"), [("success", "succeeded"), ("failed", "failed"), (" Failed ", "failed")])
async def test_a_waiting_job_is_ended_by_hand(app: Oncue, work: Task[[int], None], word: str, state: str) -> None:
    receipt = await work.using(delay="1h", key="k").aenqueue(1)
    job = await app.jobs.set_status(receipt.id, word, by="ada")
    assert (job.state, job.reason, job.attempt, job.started_at) == (state, "by_hand", 0, None)
    assert job.finished_at is not None
    assert (await work.using(key="k").aenqueue(2)).created, "its key is free"
    assert await logged(app, f"job:{receipt.id}") == [
        ("ada", "job.status", {"status": "scheduled"}, {"status": state})
    ]  # fmt: skip


@pytest.mark.contract("QUE-12", "QUE-14")
async def test_a_finished_job_is_queued_again_as_a_retry_does_it(app: Oncue, work: Task[[int], None]) -> None:
    receipt = await work.aenqueue(1)
    claim = await claimed(app, await a_worker(app))
    assert await settled(app, claim._replace(retry_count=3), Failed("it broke"))
    job = await app.jobs.set_status(receipt.uid, "queued", by="ada")
    assert (job.state, job.retry_count, job.attempt) == ("queued", 0, 1)
    assert await logged(app, f"job:{receipt.id}") == [
        ("ada", "job.status", {"status": "failed", "retry_count": 3}, {"status": "queued", "retry_count": 0})
    ]  # fmt: skip


@pytest.mark.contract("QUE-12")
async def test_what_cannot_be_is_a_conflict_and_changes_nothing(app: Oncue, work: Task[[int], None]) -> None:
    waiting, done = await work.using(delay="1h").aenqueue(1), await work.aenqueue(2)
    await app.jobs.set_status(done.id, "succeeded")
    for ref, status in ((waiting.id, "crawling"), (done.id, "running"), (done.id, "failed"), (waiting.id, "skipped")):
        seen = await app.jobs.get(ref)
        with pytest.raises(Conflict, match=f"job {ref} is {seen.state}: ") as conflict:
            await app.jobs.set_status(ref, status)
        assert conflict.value.job_id == ref
        assert await app.jobs.get(ref) == seen
    assert (await app.jobs.set_status(waiting.id, "queued")).state == "scheduled", (
        "it waits for its time, as queued ones do"
    )
    assert len(await app.audit_log.list()) == 1


@pytest.mark.contract("QUE-12", "QUE-17")
@pytest.mark.parametrize("status", ["done", "", "queued,failed", 7, None, "x" * 10_000])
async def test_an_unknown_status_is_refused_with_those_that_there_are(
    app: Oncue, work: Task[[int], None], status: str
) -> None:
    receipt = await work.aenqueue(1)
    with pytest.raises(InvalidJob, match=r"status: expected one of scheduled, .*, success, not") as no:
        await app.jobs.set_status(receipt.id, status)
    assert no.value.field == "status"
    assert len(str(no.value)) < 300


async def test_a_job_that_is_not_there_has_no_status(app: Oncue) -> None:
    with pytest.raises(JobNotFound):
        await app.jobs.set_status(99, "failed")


# --- running --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-12")
@pytest.mark.parametrize(
    "outcome", [Succeeded(), Succeeded("7"), Failed("it broke")], ids=["plain", "result", "failed"]
)
@pytest.mark.parametrize("status", ["queued", "succeeded", "failed"])
async def test_a_running_attempt_is_fenced_for_ever(
    app: Oncue, work: Task[[int], None], status: str, outcome: Outcome
) -> None:
    """Its late outcome is rejected, at once and when the same node has the job again."""
    receipt, node = await work.aenqueue(1), await a_worker(app)
    first = await claimed(app, node)
    taken = await app.jobs.set_status(receipt.id, status, by="ada")
    assert (taken.state, taken.attempt) == (status, 1)
    assert taken.reason == (None if status == "queued" else "by_hand")
    assert not await settled(app, first, outcome)
    assert await app.jobs.get(receipt.id) == taken
    await app.jobs.set_status(receipt.id, "queued")
    second = await claimed(app, node)
    assert second.claim_no == first.claim_no + 1
    assert not await settled(app, first, outcome)
    assert (await app.jobs.get(receipt.id)).state == "running"
    assert await settled(app, second, Succeeded())
    outcomes = [attempt.outcome for attempt in await app.jobs.attempts(receipt.id)]
    assert outcomes == ["by_hand" if status == "queued" else status, "succeeded"]


@pytest.mark.contract("QUE-12")
async def test_an_attempt_that_was_faster_wins(app: Oncue, work: Task[[int], None]) -> None:
    receipt, node = await work.aenqueue(1), await a_worker(app)
    claim = await claimed(app, node)
    connected = await app.internals.connected()
    change = lifecycle.by_hand(await app.jobs.get(receipt.id), "failed", connected.now())
    assert change is not None
    assert await settled(app, claim, Succeeded())
    assert await connected.store.jobs.apply([change], connected.now()) == [False]
    with pytest.raises(Conflict, match="is succeeded: that is final"):
        await app.jobs.set_status(receipt.id, "failed")


async def test_a_real_worker_stops_an_attempt_that_was_taken_from_it(app: Oncue) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    async with asyncio.timeout(60), app.worker():
        receipt = await wait.aenqueue()
        await started.wait()
        await app.jobs.set_status(receipt.id, "succeeded")
        await stopped.wait()
    job = await app.jobs.get(receipt.id)
    assert (job.state, job.reason) == ("succeeded", "by_hand")


# --- many -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-15")
async def test_many_statuses_are_set_each_for_itself(app: Oncue, work: Task[[int], None]) -> None:
    waiting, done, other = [receipt.id for receipt in await work.aenqueue_many(range(3))]
    await app.jobs.set_status(done, "failed")
    await app.jobs.set_status(other, "succeeded")
    answers = await app.jobs.set_status_many([done, waiting, 99, waiting, other], "failed", by="ada")
    assert [(answer.id, answer.outcome, answer.state) for answer in answers] == [
        (done, "unchanged", "failed"),
        (waiting, "changed", "failed"),
        (99, "not_found", None),
        (other, "conflict", "succeeded"),
    ]
    assert answers[2].message == "there is no job 99"
    assert answers[3].message == f"job {other} is succeeded: that is final; it can only be queued again"
    assert [entry.subject for entry in await app.audit_log.list(actor="ada")] == [f"job:{waiting}"]


@pytest.mark.contract("QUE-14", "QUE-15")
async def test_many_retries(app: Oncue, work: Task[[int], None]) -> None:
    done, held, waiting = [receipt.id for receipt in await work.aenqueue_many(range(3))]
    one, two = await work.using(key="k").aenqueue(1), uuid4()
    await app.jobs.set_status_many([done, held, one.id], "failed")
    await work.using(key="k").aenqueue(2)
    answers = await app.jobs.retry_many([done, held, done, waiting, one.uid, two], by="ada")
    assert [answer.id for answer in answers] == [done, held, waiting, one.uid, two]
    assert [answer.outcome for answer in answers] == ["changed", "changed", "conflict", "conflict", "not_found"]
    assert [answer.state for answer in answers] == ["queued", "queued", "queued", "failed", None]
    assert "only finished jobs are retried" in answers[2].message
    assert "its key 'k' is held" in answers[3].message
    assert await app.jobs.retry_many([]) == []


@pytest.mark.contract("QUE-15")
async def test_of_jobs_that_exclude_each_other_one_is_retried(app: Oncue, work: Task[[int], None]) -> None:
    """Those of one key, and those of one schedule: many at a time, and still only one of them."""
    await app.schedules.create("hourly", "@hourly", work, {"n": 1})
    ids = []
    for _ in range(4):
        keyed, slot = await work.using(key="k").aenqueue(1), await app.schedules.run_now("hourly")
        assert slot.job_id is not None
        ids += [keyed.id, slot.job_id]
        await app.jobs.set_status_many(ids[-2:], "failed")
    answers = await app.jobs.retry_many(ids)
    for some in (answers[::2], answers[1::2]):
        assert sorted(answer.outcome for answer in some) == ["changed", "conflict", "conflict", "conflict"]
    assert len(await app.jobs.list(["queued"])) == 2
    assert len(await app.audit_log.list(limit=1000)) == 1 + 4 + 8 + 2


async def test_too_many_and_senseless_ids_are_refused_before_anything_is_done(
    app: Oncue, work: Task[[int], None]
) -> None:
    receipt = await work.aenqueue(1)
    with pytest.raises(InvalidJob, match="ids: expected at most 1,000 jobs, not 1,001"):
        await app.jobs.set_status_many(range(receipt.id, receipt.id + 1001), "failed")
    with pytest.raises(InvalidJob, match="ref: expected a job's id"):
        await app.jobs.set_status_many([receipt.id, "2"], "failed")  # type: ignore[list-item]
    with pytest.raises(InvalidJob, match="status"):
        await app.jobs.set_status_many([receipt.id], "done")
    assert (await app.jobs.get(receipt.id)).state == "queued"


# --- the audit log --------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-13")
async def test_every_change_of_a_job_is_logged_with_before_and_after(app: Oncue, work: Task[[int], None]) -> None:
    receipt, node = await work.aenqueue(1), await a_worker(app)
    subject = f"job:{receipt.id}"
    await app.jobs.prioritize(receipt.id, 40, by="ada")
    await app.jobs.boost(receipt.id, 99, by="bob")
    await app.jobs.boost(receipt.id, 5)  # it has the highest already
    await claimed(app, node)
    await app.jobs.cancel(receipt.id, by="ada")
    await app.jobs.cancel(receipt.id, by="bob")  # it was asked already
    await app.jobs.set_status(receipt.id, "failed")
    await app.jobs.retry(receipt.id, by="ada")
    await app.jobs.cancel(receipt.id, by="bob")
    assert await logged(app, subject) == [
        ("ada", "job.priority", {"priority": 0}, {"priority": 40}),
        ("bob", "job.priority", {"priority": 40}, {"priority": 100}),
        ("ada", "job.cancel", {"cancel_requested": False}, {"cancel_requested": True}),
        ("system", "job.status", {"status": "running"}, {"status": "failed"}),
        ("ada", "job.retry", {"status": "failed", "retry_count": 0}, {"status": "queued", "retry_count": 0}),
        ("bob", "job.cancel", {"status": "queued"}, {"status": "cancelled"}),
    ]


@pytest.mark.contract("QUE-13")
async def test_changes_that_meet_add_up_and_the_log_has_each_step(app: Oncue, work: Task[[int], None]) -> None:
    receipt = await work.aenqueue(1)
    told = await asyncio.gather(*(app.jobs.boost(receipt.id, 3, by=f"operator {n}") for n in range(8)))
    assert sorted(told) == [3, 6, 9, 12, 15, 18, 21, 24]
    steps = [(before["priority"], after["priority"]) for _, _, before, after in await logged(app, f"job:{receipt.id}")]
    assert steps == [(n, n + 3) for n in range(0, 24, 3)]


async def test_every_change_of_a_queue_is_logged_with_before_and_after(app: Oncue) -> None:
    await app.queues.pause("mail", by="ada")
    await app.queues.pause("mail", by="bob")
    await app.queues.resume("mail", by="bob")
    await app.queues.resume("mail", by="bob")
    assert await app.queues.limit("mail", globally=50, per_node=5, by="ada") == Limits(50, 5)
    assert await app.queues.limit("mail", globally=None, by="ada") == Limits(None, 5)
    assert await app.queues.limit("mail", by="bob") == Limits(None, 5)
    assert await logged(app, "queue:mail") == [
        ("ada", "queue.pause", {"paused": False}, {"paused": True}),
        ("bob", "queue.resume", {"paused": True}, {"paused": False}),
        ("ada", "queue.limits", {"globally": None, "per_node": None}, {"globally": 50, "per_node": 5}),
        ("ada", "queue.limits", {"globally": 50}, {"globally": None}),
    ]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "5", 10**9])
async def test_a_limit_is_a_whole_number_that_makes_sense(app: Oncue, limit: int) -> None:
    with pytest.raises(InvalidJob, match="globally: expected a whole number from 1 to 1,000,000, or None"):
        await app.queues.limit("mail", globally=limit)
    with pytest.raises(InvalidJob, match="per_node"):
        await app.queues.limit("mail", per_node=limit)


async def test_every_change_of_a_schedule_is_logged_and_what_code_declares_is_not(app: Oncue) -> None:
    @app.task(schedule=cron("0 3 * * *"))
    def declared() -> None: ...

    @app.task
    def report(n: int = 0) -> None: ...

    await Declaring(app.internals).synchronise()
    assert await app.audit_log.list() == []
    made = await app.schedules.create("nightly", "* * * * *", report, {"n": 1}, created_by="ada")
    await app.schedules.change("nightly", priority=9, changed_by="bob")
    await app.schedules.change("nightly", priority=9, changed_by="bob")
    await app.schedules.toggle("nightly", False, changed_by="ada")
    slot = await app.schedules.run_now("nightly", by="ada")
    start = made.created_at.replace(second=0, microsecond=0) - timedelta(minutes=3)
    filled = await app.schedules.backfill("nightly", start, start + timedelta(minutes=2), by="bob")
    await app.schedules.delete("nightly", changed_by="ada")
    create, update, toggle, trigger, backfill, delete = await logged(app, "schedule:nightly")
    assert create[:3] == ("ada", "schedule.create", None)
    assert (create[3]["expression"], create[3]["args"], create[3]["priority"]) == ("* * * * *", {"n": 1}, 0)
    assert update == ("bob", "schedule.update", {"priority": 0}, {"priority": 9})
    assert toggle[1:3] == ("schedule.toggle", {"enabled": True, "reason": None})
    assert trigger[:3] == ("ada", "schedule.trigger", None)
    assert (trigger[3]["job"], trigger[3]["reason"]) == (slot.job_id, "run_now")
    assert backfill[1] == "schedule.backfill"
    assert (backfill[3]["from"], backfill[3]["jobs"]) == (start.isoformat(), len(filled.jobs))
    assert len(filled.jobs) == 3
    assert (delete[1], delete[2]["priority"], delete[3]) == ("schedule.delete", 9, None)
    await app.schedules.toggle("declared", False, changed_by="ada")
    assert len(await logged(app, "schedule:declared")) == 1


@pytest.mark.contract("QUE-14")
async def test_the_retry_of_a_slot_s_only_run_is_logged_with_the_job_that_repeats_it(app: Oncue) -> None:
    @app.task(delivery="at_most_once")
    def once() -> None: ...

    await app.schedules.create("once", "@daily", once)
    slot = await app.schedules.run_now("once")
    assert slot.job_id is not None
    await claimed(app, await a_worker(app), "once")
    with pytest.raises(Conflict, match="it is the one run that its slot was promised"):
        await app.jobs.set_status(slot.job_id, "queued")
    await app.jobs.set_status(slot.job_id, "failed", by="ada")
    (answer,) = await app.jobs.set_status_many([slot.job_id], "queued", by="ada")
    (again,) = await app.jobs.list(["queued"])
    assert (answer.outcome, answer.message) == ("changed", f"job {again.id} is queued, and repeats job {slot.job_id}")
    assert (again.retry_of, again.enqueued_by, (await app.jobs.get(slot.job_id)).state) == (
        slot.job_id,
        "ada",
        "failed",
    )
    assert (await logged(app, f"job:{slot.job_id}"))[-1] == (
        "ada", "job.status", {"retried_as": None}, {"retried_as": again.id},
    )  # fmt: skip


async def test_pruning_by_hand_is_logged(app: Oncue, work: Task[[int], None]) -> None:
    receipt = await work.aenqueue(1)
    await app.jobs.cancel(receipt.id)
    assert await app.jobs.prune("1h", by="ada") == 0
    assert await app.jobs.prune(0, by="ada") == 1
    ((actor, action, before, after),) = await logged(app, "jobs")
    assert (actor, action, after) == ("ada", "prune", {"jobs": 1})
    assert before["finished_before"] > receipt.created_at.isoformat()


async def test_the_log_is_read_newest_first_page_by_page(app: Oncue) -> None:
    for number in range(5):
        await app.queues.pause(f"q{number}", by="ada" if number % 2 else "bob")
    first = await app.audit_log.list(limit=2)
    second = await app.audit_log.list(limit=2, before=first[-1].id)
    assert [entry.subject for entry in first + second] == ["queue:q4", "queue:q3", "queue:q2", "queue:q1"]
    assert [entry.subject for entry in await app.audit_log.list(actor="ada")] == ["queue:q3", "queue:q1"]
    assert await app.audit_log.list(actor="ada", subject="queue:q4") == []
    with pytest.raises(ValueError, match="limit: expected a whole number from 1"):
        await app.audit_log.list(limit=0)
    with pytest.raises(ValueError, match="before: expected the id of an entry"):
        await app.audit_log.list(before=0)


@pytest.mark.parametrize("by", ["", " ada", "a\nb", "x" * 129, 7])
async def test_whoever_changes_something_has_a_name(app: Oncue, work: Task[[int], None], by: str) -> None:
    receipt = await work.aenqueue(1)
    for verb in (
        app.jobs.cancel(receipt.id, by=by),
        app.jobs.retry(receipt.id, by=by),
        app.jobs.set_status(receipt.id, "failed", by=by),
        app.jobs.prioritize(receipt.id, 5, by=by),
        app.jobs.boost(receipt.id, 5, by=by),
        app.queues.pause("mail", by=by),
        app.queues.resume("mail", by=by),
        app.queues.limit("mail", globally=1, by=by),
        app.jobs.prune("1h", by=by),
        app.jobs.set_status_many([receipt.id], "failed", by=by),
        app.jobs.retry_many([receipt.id], by=by),
        app.tokens.create("shop", ["read"], by=by),
    ):
        with pytest.raises(InvalidJob, match="by: expected a printable name"):
            await verb
    assert (await app.jobs.get(receipt.id)).state not in TERMINAL
    assert await app.audit_log.list() == []


@pytest.mark.parametrize("verb", ["prioritize", "cancel", "limit"])
async def test_a_verb_gives_up_when_others_change_the_same_again_and_again(
    app: Oncue, work: Task[[int], None], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    job = (await work.aenqueue(1)).id
    store = (await app.internals.connected()).store
    tries: list[object] = []

    async def somebody_was_quicker(*wanted: Any, **_: Any) -> Any:
        tries.append(wanted)
        return [False] if verb == "cancel" else False

    noun, name = {
        "prioritize": (store.jobs, "prioritize"), "cancel": (store.jobs, "apply"),
        "limit": (store.queues, "set_limits"),
    }[verb]  # fmt: skip
    monkeypatch.setattr(noun, name, somebody_was_quicker)
    calls = {
        "prioritize": lambda: app.jobs.prioritize(job, 7),
        "cancel": lambda: app.jobs.cancel(job),
        "limit": lambda: app.queues.limit("mail", globally=3),
    }
    with pytest.raises(Conflict, match="is being changed by others at this moment: try again"):
        await calls[verb]()
    assert len(tries) == MOST_TRIES
