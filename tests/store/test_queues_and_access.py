"""Limits and seats, progress, samples, tokens, kept requests and listings, on both back ends."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from uuid import uuid4

import pytest

from oncue.model import (
    LIVE_LIMIT,
    STATES,
    Count,
    JobFilter,
    KeptRequest,
    Limits,
    Note,
    Progress,
    Sample,
    Session,
    Token,
)
from oncue.store import Store
from tests.store.scene import BROKEN, DONE, NOW, a_node, after, enter, put, query, settle, take

QUEUE, TASK = "default", "send"
NOTE = Note("ann", "test", "test:1", {"was": 1}, {"is": 2})


# --- limits and seats -------------------------------------------------------------------------------------------------


async def test_limits_are_set_by_compare_and_set(store: Store) -> None:
    assert await store.queues.limits("mail") == Limits()
    assert await store.queues.set_limits("mail", Limits(), Limits(5, 2), NOW, note=NOTE)
    assert not await store.queues.set_limits("mail", Limits(), Limits(9), NOW, note=NOTE), "somebody else was quicker"
    assert await store.queues.set_limits("mail", Limits(5, 2), Limits(None, 2), NOW, note=NOTE)
    assert await store.queues.limits("mail") == Limits(None, 2)
    assert len(await store.audit_log.page()) == 2
    (queue,) = await store.queues.all()
    assert (queue.name, queue.global_limit, queue.node_limit) == ("mail", None, 2)


async def test_seats_change_hands_by_compare_and_set(store: Store) -> None:
    first, second = await enter(store), await enter(store)
    await store.queues.set_limits("mail", Limits(), Limits(5), NOW)
    (seating,) = await store.queues.seating(["mail", "other"], [TASK])
    assert (seating.queue, seating.limits, list(seating.seats)) == ("mail", Limits(5), [])
    assert await store.queues.take_seats("mail", seating.version, first, 3, 4)
    assert not await store.queues.take_seats("mail", seating.version, second, 5, 5), (
        "it looked before the other one took"
    )
    (seating,) = await store.queues.seating(["mail"], [TASK])
    assert await store.queues.take_seats("mail", seating.version, second, 2, 5)
    (seating,) = await store.queues.seating(["mail"], [TASK])
    assert {seat.node: (seat.seats, seat.wanted) for seat in seating.seats} == {first: (3, 4), second: (2, 5)}


async def test_the_seats_of_a_node_that_is_lost_or_left_are_free(store: Store) -> None:
    lost, left = await enter(store), await enter(store)
    await store.queues.set_limits("mail", Limits(), Limits(5), NOW)
    for version, node in enumerate((lost, left), 1):
        assert await store.queues.take_seats("mail", version, node, 2, 2)
    await store.nodes.leave(left, NOW)
    await store.nodes.declare_lost(lost, NOW)
    (seating,) = await store.queues.seating(["mail"], [TASK])
    assert list(seating.seats) == []
    assert not await store.queues.take_seats("mail", seating.version, lost, 1, 1), "nobody would count them"
    await store.nodes.register(dataclasses.replace(a_node(), id=lost))
    (seating,) = await store.queues.seating(["mail"], [TASK])
    assert list(seating.seats) == [], "what it held before may be others' by now"
    assert await store.queues.take_seats("mail", seating.version, lost, 1, 1)
    assert await query(store, "select seats from oncue_seats") == [(1,)], "what nobody counts is not kept"


async def test_a_node_that_joins_late_does_not_lose_the_seats_that_it_took_since(store: Store) -> None:
    """A call that was given up arrives after the next one: it says nothing of what happened in between."""
    node = dataclasses.replace(a_node(), beat_no=1)
    await store.nodes.register(dataclasses.replace(node, beat_no=2))
    await store.queues.set_limits("mail", Limits(), Limits(5), NOW)
    assert await store.queues.take_seats("mail", 1, node.id, 2, 2)
    await store.nodes.register(node)
    (seating,) = await store.queues.seating(["mail"], [TASK])
    assert [(seat.node, seat.seats) for seat in seating.seats] == [(node.id, 2)]


async def test_no_seat_is_taken_by_a_limit_that_was_changed_since(store: Store) -> None:
    node = await enter(store)
    await store.queues.set_limits("mail", Limits(), Limits(5), NOW)
    (seating,) = await store.queues.seating(["mail"], [TASK])
    await store.queues.set_limits("mail", Limits(5), Limits(1), NOW)
    assert not await store.queues.take_seats("mail", seating.version, node, 5, 5)


async def test_whether_work_waits_that_the_node_can_do(store: Store) -> None:
    await store.queues.set_limits(QUEUE, Limits(), Limits(5), NOW)

    async def waiting(*tasks: str) -> bool:
        return (await store.queues.seating([QUEUE], tasks))[0].waiting

    assert not await waiting(TASK)
    await put(store, task=TASK)
    assert await waiting(TASK, "other")
    assert not await waiting("other")


async def test_a_claim_takes_from_a_limited_queue_what_there_is_room_for(store: Store) -> None:
    await store.queues.set_limits("narrow", Limits(), Limits(5), NOW)
    await put(store, 4, queue="narrow", priority=50)
    await put(store, 4, queue="wide")
    node = await enter(store)

    async def taken(rooms: dict[str, int] | None) -> list[str]:
        claims = await store.jobs.claim(node, ["narrow", "wide"], [TASK], 3, NOW, rooms=rooms)
        return [claim.queue for claim in claims]

    assert await taken({"narrow": 1}) == ["narrow", "wide", "wide"]
    assert await taken(None) == ["wide", "wide"], "nothing from a limited queue that the node does not know of"
    assert await taken({"narrow": 9}) == ["narrow"] * 3


# --- progress ---------------------------------------------------------------------------------------------------------


async def test_progress_is_shown_for_the_attempt_that_told_it(store: Store) -> None:
    (job,) = await put(store)
    (held,) = await take(store, await enter(store))
    await store.jobs.report_progress([Progress(job, held.claim_no, 0.25, "a quarter", NOW)])
    await store.jobs.report_progress([Progress(job, held.claim_no, 0.5, "half", after(seconds=1))])
    await store.jobs.report_progress([Progress(job, held.claim_no - 1, 0.9, "a zombie", after(seconds=2))])
    found = await store.jobs.get(job)
    assert found is not None
    assert (found.progress, found.progress_note) == (0.5, "half")
    assert [(listed.progress, listed.progress_note) for listed in await store.jobs.find(JobFilter())] == [(0.5, "half")]
    await settle(store, [held], BROKEN)
    await store.jobs.report_progress([Progress(job, held.claim_no, 0.9, "too late", after(seconds=3))])
    found = await store.jobs.get(job)
    assert found is not None
    assert (found.progress, found.state) == (0.5, "retrying"), "how far it came stays to be seen"


# --- counting ---------------------------------------------------------------------------------------------------------


async def test_little_is_counted_and_much_is_taken_from_the_last_sample(store: Store) -> None:
    await put(store, 3, queue="few")
    (queue,) = await store.queues.all()
    assert (queue.queued, queue.counted_at) == (3, None)
    await put(store, LIVE_LIMIT, queue="many")
    queues = {queue.name: queue for queue in await store.queues.all()}
    assert sum(queue.queued for queue in queues.values()) == LIVE_LIMIT, "nobody counts further"
    sample = Sample(NOW, await store.counters.count(10 * LIVE_LIMIT), await store.counters.ages(NOW, 20))
    assert sorted(sample.counts) == [Count("few", "queued", 3), Count("many", "queued", LIVE_LIMIT)]
    await store.counters.keep_sample(sample)
    await store.counters.keep_sample(Sample(after(seconds=-9), []))
    assert await store.counters.last_sample() == sample, "an older one does not replace it"
    queues = {queue.name: queue for queue in await store.queues.all()}
    assert {name: queue.queued for name, queue in queues.items()} == {"few": 3, "many": LIVE_LIMIT}
    assert queues["many"].counted_at == NOW
    await store.counters.keep_sample(Sample(after(minutes=-2), [], []))
    assert await store.counters.last_sample() == Sample(after(minutes=-2), [], []), "the clock was set back"


# --- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_token_is_kept_revoked_once_and_remembered(store: Store) -> None:
    assert not await store.tokens.exist()
    token = Token("ab12", "deploy", "digest", ("read", "operate"), "ann", NOW, after(days=90))
    await store.tokens.add(token, note=NOTE)
    assert await store.tokens.exist()
    assert await store.tokens.get("ab12") == token
    assert await store.tokens.get("nosuch") is None
    await store.tokens.mark_used("ab12", after(seconds=5))
    assert await store.tokens.revoke("ab12", after(seconds=9), note=NOTE)
    assert not await store.tokens.revoke("ab12", after(seconds=10), note=NOTE)
    (found,) = await store.tokens.all()
    assert found == dataclasses.replace(token, revoked_at=after(seconds=9), last_used_at=after(seconds=5))
    assert await store.tokens.exist(), "a revoked token does not open what it closed"
    assert [(entry.actor, entry.before, entry.after) for entry in await store.audit_log.page()] == [
        NOTE[0:1] + NOTE[3:]
    ] * 2


# --- sessions of browsers ---------------------------------------------------------------------------------------------


def _session(number: int, **lasts: float) -> Session:
    return Session(f"s{number}", "digest", "id0", after(seconds=number), after(**lasts))


async def test_a_session_is_kept_ended_once_and_remembered(store: Store) -> None:
    await store.tokens.add(_token(0))
    session = _session(1, hours=1)
    await store.sessions.add(session, note=NOTE)
    assert await store.sessions.get("s1") == session
    assert await store.sessions.get("nosuch") is None
    await store.sessions.mark_used("s1", after(seconds=5))
    await store.sessions.mark_used("s1", after(seconds=4))
    assert await store.sessions.end("s1", after(seconds=9), note=NOTE)
    assert not await store.sessions.end("s1", after(seconds=10), note=NOTE)
    assert not await store.sessions.end("nosuch", after(seconds=10), note=NOTE)
    ended = dataclasses.replace(session, ended_at=after(seconds=9), last_used_at=after(seconds=5))
    assert await store.sessions.get("s1") == ended
    assert [(entry.at, entry.actor) for entry in await store.audit_log.page()] == [
        (after(seconds=9), NOTE.actor), (after(seconds=1), NOTE.actor),
    ]  # fmt: skip


async def test_sessions_stand_until_they_end_or_expire_and_the_newest_comes_first(store: Store) -> None:
    await store.tokens.add(_token(0))
    for session in (_session(1, hours=1), _session(3, hours=2), _session(2, hours=3)):
        await store.sessions.add(session)

    async def standing(now: datetime) -> list[str]:
        return [session.id for session in await store.sessions.standing(now)]

    assert await standing(after(minutes=59)) == ["s3", "s2", "s1"]
    assert await standing(after(hours=1)) == ["s3", "s2"]
    await store.sessions.end("s2", after(hours=1))
    assert await standing(after(hours=1)) == ["s3"]


async def test_sessions_are_pruned_when_they_are_over(store: Store) -> None:
    await store.tokens.add(_token(0))
    for number in range(1, 6):
        await store.sessions.add(_session(number, hours=number))
    await store.sessions.end("s5", after(minutes=1))
    await store.sessions.end("s1", after(hours=9))  # it had expired by then
    assert await store.sessions.prune(after(minutes=1), 10) == 0
    assert await store.sessions.prune(after(hours=2, seconds=1), 2) == 2
    assert [await store.sessions.get(gone) for gone in ("s5", "s1")] == [None, None], "the oldest go first"
    assert await store.sessions.prune(after(hours=2, seconds=1), 2) == 1
    assert await store.sessions.prune(after(hours=2, seconds=1), 2) == 0
    assert [session.id for session in await store.sessions.standing(NOW)] == ["s4", "s3"]


# --- the audit log and kept requests ----------------------------------------------------------------------------------


async def test_the_audit_log_is_read_from_the_newest_and_pruned_from_the_oldest(store: Store) -> None:
    for number in range(6):
        note = Note("ann" if number % 2 else "bob", "test", f"job:{number}", None, {"n": number})
        await store.tokens.add(_token(number), note=note)
    entries = await store.audit_log.page(limit=3)
    assert [entry.after["n"] for entry in entries] == [5, 4, 3]
    assert [entry.after["n"] for entry in await store.audit_log.page(before=entries[-1].id)] == [2, 1, 0]
    assert [entry.after["n"] for entry in await store.audit_log.page(actor="ann")] == [5, 3, 1]
    assert [entry.after["n"] for entry in await store.audit_log.page(actor="ann", before=entries[0].id)] == [3, 1]
    assert [entry.after["n"] for entry in await store.audit_log.page(subject="job:2")] == [2]
    assert await store.audit_log.page(subject="job:2", before=1) == []
    assert [entry.after["n"] for entry in await store.audit_log.page(subject="job:2", actor="bob")] == [2]
    assert await store.audit_log.page(subject="job:2", actor="ann") == []
    assert await store.audit_log.prune(after(seconds=4), 3) == 3
    assert await store.audit_log.prune(after(seconds=4), 3) == 1
    assert [entry.after["n"] for entry in await store.audit_log.page()] == [5, 4]


def _token(number: int) -> Token:
    return Token(f"id{number}", "name", "digest", ("read",), "ann", after(seconds=number))


async def test_a_request_is_kept_with_what_was_answered(store: Store) -> None:
    asked = KeptRequest("abc", NOW, (7, 8))
    assert await store.requests.begin("ann", "key", asked) is None
    assert await store.requests.begin("bob", "key", asked) is None, "keys are each caller's own"
    assert await store.requests.begin("ann", "key", KeptRequest("other", after(seconds=1), ())) == asked
    await store.requests.end("ann", "key", 201, '{"id": 7}')
    answered = dataclasses.replace(asked, status=201, answer='{"id": 7}')
    assert await store.requests.begin("ann", "key", asked) == answered
    await store.requests.forget("ann", "key")
    assert await store.requests.begin("ann", "key", asked) == answered, "what was answered is not forgotten"
    await store.requests.forget("bob", "key")
    assert await store.requests.begin("bob", "key", KeptRequest("new", after(days=1), ())) is None
    assert await store.requests.prune(after(hours=1), 10) == 1
    assert await store.requests.begin("ann", "key", asked) is None


# --- listings ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-11")
async def test_every_filter_finds_what_a_plain_search_finds(store: Store) -> None:
    for number in range(12):
        queue, task, state = "ab"[number % 2], "xyz"[number % 3], "scheduled" if number % 4 == 3 else "queued"
        await put(store, 2, queue=queue, task=task, state=state)
    node = await enter(store)
    for outcome in (DONE, BROKEN, DONE):
        claims = await store.jobs.claim(node, ["a", "b"], ["x", "y", "z"], 3, NOW)
        await settle(store, claims[:2], outcome)
    everything = await store.jobs.find(JobFilter(limit=1000))
    assert len(everything) == 24
    assert {job.state for job in everything} == {"queued", "scheduled", "running", "succeeded", "retrying"}
    for states in ((), *((state,) for state in STATES), ("queued", "running"), ("succeeded", "scheduled")):
        for queue in (None, "a", "nosuch"):
            for task in (None, "x", "nosuch"):
                for before in (None, everything[7].id):
                    for limit, offset in ((1000, 0), (3, 0), (3, 2)):
                        wanted = JobFilter(states, queue, task, None, before, limit, offset)  # type: ignore[arg-type]
                        plainly = [
                            job.id
                            for job in everything
                            if (not states or job.state in states)
                            and queue in (None, job.queue)
                            and task in (None, job.task)
                            and (before is None or job.id < before)
                        ][offset : offset + limit]
                        assert [job.id for job in await store.jobs.find(wanted)] == plainly, wanted


async def test_a_key_is_found_among_all_jobs_and_among_the_unfinished(store: Store) -> None:
    (first,) = await put(store, keys=["k"])
    (held,) = await take(store, await enter(store))
    await settle(store, [held])
    (second,) = await put(store, keys=["k"])
    unfinished = ("scheduled", "queued", "running", "retrying")
    assert [job.id for job in await store.jobs.find(JobFilter(key="k"))] == [second, first]
    assert [job.id for job in await store.jobs.find(JobFilter(unfinished, task=TASK, key="k"))] == [second]
    assert [job.id for job in await store.jobs.find(JobFilter(("succeeded",), task=TASK, key="k"))] == [first]
    assert await store.jobs.find(JobFilter(unfinished, task=str(uuid4()), key="k")) == []
