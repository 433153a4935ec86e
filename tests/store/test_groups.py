"""Groups of a queue: their limits, rates, pauses and turns, on both stores."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from oncue.model import PARKED, Claim, GroupSettings, HeldBack, Limits, Rate, Released, Snoozed, Turns
from oncue.store import Store
from tests.store.scene import BROKEN, CRASHED, NOW, after, change, enter, put, settle, take

QUEUE = "mail"


async def take_grouped(
    store: Store, node: UUID, limit: int = 100, *, now: datetime = NOW, queues: Sequence[str] = (QUEUE,), **more: Any
) -> list[Claim]:
    """Let groups wake up, then claim, as a worker does."""
    await store.groups.wake(queues, 1000, now)
    return await store.groups.claim(node, queues, ("send",), limit, now, **more)


async def put_in(store: Store, group: str, size: int = 1, **fields: Any) -> list[int]:
    return await put(store, size, queue=QUEUE, group=group, **fields)


async def set_limits(store: Store, **limits: Any) -> None:
    known = await store.queues.limits(QUEUE)
    assert await store.queues.set_limits(QUEUE, known, Limits(**limits), NOW)


async def set_group(store: Store, group: str, *, now: datetime = NOW, **settings: Any) -> None:
    known = await store.groups.settings(QUEUE, group)
    assert await store.groups.set(QUEUE, group, known, GroupSettings(**settings), now)


def groups_of(claims: Sequence[Claim]) -> Counter[str | None]:
    return Counter(claim.group for claim in claims)


async def test_jobs_of_a_group_are_claimed_apart_and_best_first(store: Store) -> None:
    node = await enter(store)
    (plain,) = await put(store, queue=QUEUE)
    low, high = await put_in(store, "a", priority=10), await put_in(store, "a", priority=20)
    assert [claim.id for claim in await take(store, node, queues=(QUEUE,))] == [plain]
    claims = await take_grouped(store, node)
    assert [claim.id for claim in claims] == [*high, *low]
    assert {claim.group for claim in claims} == {"a"}
    assert await take_grouped(store, node) == []
    job = await store.jobs.get(low[0])
    assert job is not None
    assert (job.state, job.group) == ("running", "a")


async def test_no_group_gets_over_its_limit(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_group=2)
    await set_group(store, "c", limit=1)
    for group in ("a", "b", "c"):
        await put_in(store, group, 5)
    first = await take_grouped(store, node)
    assert groups_of(first) == {"a": 2, "b": 2, "c": 1}
    assert await take_grouped(store, node) == []
    await settle(store, [claim for claim in first if claim.group == "b"][:1])
    assert groups_of(await take_grouped(store, node)) == {"b": 1}


@pytest.mark.parametrize(
    "outcome", [BROKEN, CRASHED, Released(), Snoozed(5.0)], ids=lambda outcome: type(outcome).__name__
)
async def test_whatever_ends_an_attempt_leaves_room(store: Store, outcome: Any) -> None:
    node = await enter(store)
    await set_limits(store, per_group=1)
    await put_in(store, "a", 2)
    (claim,) = await take_grouped(store, node)
    assert await take_grouped(store, node) == []
    await settle(store, [claim], outcome)
    (other,) = await take_grouped(store, node)
    assert other.id != claim.id or type(outcome) in (Released, type(CRASHED))


async def test_groups_take_turns(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "large", 50)
    for name in ("b", "c", "d"):
        await put_in(store, name)
    assert groups_of(await take_grouped(store, node, 4)) == {"large": 1, "b": 1, "c": 1, "d": 1}
    await put_in(store, "e", 3)
    assert groups_of(await take_grouped(store, node, 4)) == {"large": 2, "e": 2}
    assert groups_of(await take_grouped(store, node, 2)) == {"large": 1, "e": 1}


async def test_one_group_alone_may_fill_all_seats(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", 50)
    assert len(await take_grouped(store, node, 30)) == 30
    assert len(await take_grouped(store, node, 30)) == 20


async def test_a_rate_lets_jobs_start_evenly(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, rate_per_group=Rate(10, 1))
    await put_in(store, "a", 30)
    started: list[float] = []
    for millisecond in range(0, 2000, 20):
        now = after(milliseconds=millisecond)
        started += [millisecond / 1000] * len(await take_grouped(store, node, now=now))
    assert len(started) == 20
    assert all(later - earlier >= 0.08 for earlier, later in itertools.pairwise(started))


async def test_a_fast_rate_lets_no_more_start_at_once_than_in_a_moment(store: Store) -> None:
    node = await enter(store)
    await set_group(store, "a", rate=Rate(1000, 1))
    await put_in(store, "a", 3000)
    assert len(await take_grouped(store, node, 1000)) == 41
    assert len(await take_grouped(store, node, 1000, now=after(milliseconds=10))) == 10
    assert len(await take_grouped(store, node, 1000, now=after(seconds=10))) == 41


async def test_a_group_that_is_forgotten_does_not_get_its_rate_twice(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, rate_per_group=Rate(1, 60))
    await put_in(store, "a")
    assert len(await take_grouped(store, node)) == 1
    await put_in(store, "a")
    assert await take_grouped(store, node, now=after(seconds=59)) == []
    assert len(await take_grouped(store, node, now=after(seconds=60))) == 1


async def test_a_paused_group_waits_and_the_others_do_not(store: Store) -> None:
    node = await enter(store)
    await set_group(store, "a", paused_until=PARKED)
    await put_in(store, "a")
    await put_in(store, "b")
    assert groups_of(await take_grouped(store, node)) == {"b": 1}
    await set_group(store, "a", paused_until=after(minutes=5))
    assert await take_grouped(store, node, now=after(minutes=4)) == []
    assert groups_of(await take_grouped(store, node, now=after(minutes=5))) == {"a": 1}


async def test_a_pause_holds_for_what_waited_before_it(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", 3)
    assert len(await take_grouped(store, node, 1)) == 1
    await set_group(store, "a", paused_until=PARKED)
    assert await take_grouped(store, node) == []
    await set_group(store, "a")
    assert len(await take_grouped(store, node)) == 2


async def test_a_paused_queue_gives_nothing_of_its_groups(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a")
    await store.queues.pause(QUEUE, NOW)
    assert await take_grouped(store, node) == []
    await store.queues.resume(QUEUE, NOW)
    assert len(await take_grouped(store, node)) == 1


async def test_a_node_without_a_lease_gets_nothing(store: Store) -> None:
    node = await enter(store, expires_at=after(seconds=10))
    await put_in(store, "a")
    assert await take_grouped(store, node, now=after(seconds=11)) == []


async def test_the_room_of_a_limited_queue_holds_for_its_groups(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, globally=5)
    for name in "abc":
        await put_in(store, name, 5)
    assert await take_grouped(store, node) == []  # a limited queue that the node does not know of
    claims = await take_grouped(store, node, rooms={QUEUE: 4})
    assert len(claims) == 4
    assert len(groups_of(claims)) == 3
    assert await take_grouped(store, node, rooms={QUEUE: 0}) == []


async def test_idle_groups_are_forgotten_and_those_with_settings_are_not(store: Store) -> None:
    node = await enter(store)
    await set_group(store, "kept", limit=3)
    for name in ("a", "b", "kept"):
        await put_in(store, name)
    assert {group.name for group in await store.groups.all(QUEUE, 100)} == {"a", "b", "kept"}
    await settle(store, await take_grouped(store, node))
    assert await take_grouped(store, node) == []
    (kept,) = await store.groups.all(QUEUE, 100)
    assert (kept.name, kept.limit, kept.queued, kept.running, kept.has_settings) == ("kept", 3, 0, 0, True)
    await set_group(store, "kept")
    assert await take_grouped(store, node) == []
    assert await store.groups.all(QUEUE, 100) == []


async def test_the_listing_shows_what_waits_and_runs_and_what_holds(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_group=2, rate_per_group=Rate(5, 60))
    await set_group(store, "b", rate=Rate(100, 1), paused_until=PARKED)
    await put_in(store, "a", 4)
    await put_in(store, "b", 1)
    await take_grouped(store, node, 1)
    a, b = await store.groups.all(QUEUE, 100)
    assert (a.name, a.queued, a.running, a.limit, a.rate, a.has_settings) == ("a", 3, 1, 2, "5/min", False)
    assert (b.name, b.queued, b.running, b.limit, b.rate, b.paused_until) == ("b", 1, 0, 2, "100/s", PARKED)


async def test_those_ahead_are_those_of_its_own_group(store: Store) -> None:
    await put(store, 5, queue=QUEUE)
    await put_in(store, "b", 7)
    high, first = await put_in(store, "a", priority=50), await put_in(store, "a")
    job = await store.jobs.get((await put_in(store, "a"))[0])
    assert job is not None
    assert await store.jobs.count_ahead(job, 100) == len([*high, *first])
    assert await store.jobs.count_ahead(job, 1) == 1
    (plain,) = await put(store, queue=QUEUE)
    last = await store.jobs.get(plain)
    assert last is not None
    assert await store.jobs.count_ahead(last, 100) == 5


async def test_when_the_rate_of_a_queue_lets_the_next_job_start(store: Store) -> None:
    assert await store.queues.rated_until(QUEUE) is None
    await set_limits(store, rate=Rate(2, 60))
    assert await store.queues.rated_until(QUEUE) is None
    await put_in(store, "a", 3)
    await store.groups.wake([QUEUE], 100, NOW)
    assert (await store.queues.take_turns(QUEUE, ("send",), 5, NOW, grouped=True)).taken == 1
    assert await store.queues.rated_until(QUEUE) == after(seconds=30)
    await set_limits(store)
    assert await store.queues.rated_until(QUEUE) is None


async def test_what_becomes_due_wakes_its_group(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", state="scheduled", visible_at=after(minutes=1))
    assert await take_grouped(store, node) == []
    await store.jobs.promote(after(minutes=1), 100)
    assert len(await take_grouped(store, node, now=after(minutes=1))) == 1


async def test_a_new_limit_holds_at_once(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_group=1)
    await put_in(store, "a", 5)
    await take_grouped(store, node)
    await set_limits(store, per_group=3)
    assert len(await take_grouped(store, node)) == 2
    await set_limits(store)
    assert len(await take_grouped(store, node)) == 2


async def test_a_new_rate_holds_at_once(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, rate_per_group=Rate(1, 3600))
    await put_in(store, "a", 5)
    assert len(await take_grouped(store, node)) == 1
    assert await take_grouped(store, node, now=after(minutes=1)) == []
    await set_limits(store, rate_per_group=Rate(60, 60))
    assert len(await take_grouped(store, node, now=after(minutes=1))) == 1


async def test_only_a_new_rate_counts_anew(store: Store) -> None:
    """A pause, a limit or another setting gives nobody a start beyond the rate."""
    node = await enter(store)
    await set_limits(store, rate_per_group=Rate(1, 60), rate=Rate(1, 60))
    await put_in(store, "a", 5)
    await put(store, queue=QUEUE)
    assert len(await take_grouped(store, node, rooms={QUEUE: 9})) == 1
    assert (await store.queues.take_turns(QUEUE, ("send",), 5, NOW)).taken == 1
    await set_group(store, "a", paused_until=PARKED)
    await set_group(store, "a", limit=3)
    await set_limits(store, rate_per_group=Rate(1, 60), rate=Rate(1, 60), per_group=9)
    assert await take_grouped(store, node, now=after(seconds=59), rooms={QUEUE: 9}) == []
    assert (await store.queues.take_turns(QUEUE, ("send",), 5, after(seconds=59))).taken == 0
    await set_group(store, "a", limit=3, rate=Rate(1, 30))
    assert len(await take_grouped(store, node, now=after(seconds=59), rooms={QUEUE: 9})) == 1
    await set_limits(store, rate=Rate(2, 60))
    assert (await store.queues.take_turns(QUEUE, ("send",), 5, after(seconds=59))).taken == 1


async def test_full_groups_that_get_jobs_take_nobody_s_turn(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_group=1)
    for number in range(20):
        await put_in(store, f"full {number}")
    running = await take_grouped(store, node)
    assert len(running) == 20
    for number in range(20):
        await put_in(store, f"full {number}")
    (job_id,) = await put_in(store, "z")
    (claim,) = await take_grouped(store, node, 2)
    assert claim.id == job_id
    assert await store.groups.next_ready([QUEUE]) is None
    assert await settle(store, running[:1]) == [True]
    (claim,) = await take_grouped(store, node, 2)
    assert claim.group == running[0].group, "a job that ended leaves room"


async def test_the_queues_in_which_jobs_of_groups_wait(store: Store) -> None:
    assert (await store.jobs.outlook()).set_apart == frozenset()
    await put(store, queue="plain")
    for queue in ("b", "a", "b"):
        await put(store, 2, queue=queue, group="x")
    assert (await store.jobs.outlook()).set_apart == {"a", "b"}


async def test_settings_are_written_by_compare_and_set(store: Store) -> None:
    await set_group(store, "a", limit=3)
    assert not await store.groups.set(QUEUE, "a", GroupSettings(), GroupSettings(limit=4), NOW)
    assert not await store.groups.set(QUEUE, "b", GroupSettings(limit=1), GroupSettings(limit=4), NOW)
    assert await store.groups.settings(QUEUE, "a") == GroupSettings(limit=3)
    assert await store.groups.settings(QUEUE, "b") == GroupSettings()


async def test_a_group_whose_jobs_are_for_other_nodes_stays_theirs(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", task="other")
    await put_in(store, "b")
    assert groups_of(await take_grouped(store, node)) == {"b": 1}
    claims = await store.groups.claim(node, (QUEUE,), ("other",), 10, NOW)
    assert groups_of(claims) == {"a": 1}


async def test_a_job_that_is_kept_apart_comes_by_itself(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_group=2)
    ids = await put_in(store, "a", 2)
    claims = await take_grouped(store, node)
    for _ in range(2):  # two deaths: from then on in a cohort
        await settle(store, [claim for claim in claims if claim.id == ids[0]], CRASHED)
        claims = [*await take_grouped(store, node, few=4), *[claim for claim in claims if claim.id == ids[1]]]
    await put_in(store, "b", 3)
    await settle(store, [claim for claim in claims if claim.id == ids[0]], CRASHED)
    assert groups_of(await take_grouped(store, node, few=0)) == {"b": 2}
    assert await take_grouped(store, node, few=0) == []


async def test_claims_at_once_keep_the_limits(store: Store) -> None:
    """Many claims at the same time, and settling between them: no group is ever over its limit."""
    nodes = [await enter(store, f"node-{number}") for number in range(4)]
    await set_limits(store, per_group=2)
    for name in range(20):
        await put_in(store, f"g{name}", 10)
    done = 0
    running: Counter[str | None] = Counter()

    async def work(node: UUID) -> None:
        nonlocal done
        while done < 200:
            claims = await take_grouped(store, node, 7)
            running.update(claim.group for claim in claims)
            assert max(running.values(), default=0) <= 2
            await asyncio.sleep(0)
            # Counted before the reply comes: another claim may be quicker than it.
            running.subtract(claim.group for claim in claims)
            assert all(await store.jobs.apply([change(claim) for claim in claims], NOW))
            done += len(claims)

    await asyncio.wait_for(asyncio.gather(*map(work, nodes)), 60)
    assert done == 200
    await take_grouped(store, nodes[0])
    assert await store.groups.all(QUEUE, 100) == []


def test_rates_in_words() -> None:
    assert [str(Rate(jobs, per)) for jobs, per in ((10, 1), (5, 60), (1, 3600), (2, 86400), (3, 7))] == [
        "10/s", "5/min", "1/h", "2/d", "3/7s",
    ]  # fmt: skip


async def test_groups_take_turns_where_their_queue_has_room_for_one(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_node=1)
    for group in ("a", "b", "c"):
        await put_in(store, group, 5)
    await store.groups.wake((QUEUE,), 1000, NOW)
    turns = [await take_grouped(store, node, now=after(seconds=1 + number), rooms={QUEUE: 1}) for number in range(6)]
    assert [claim.group for claims in turns for claim in claims] == ["a", "b", "c"] * 2


# --- the rate of a whole queue --------------------------------------------------------------------------------------


async def take_turns(store: Store, wanted: int, *, now: datetime = NOW, grouped: bool = False) -> Turns:
    return await store.queues.take_turns(QUEUE, ("send",), wanted, now, grouped=grouped)


async def test_turns_are_taken_for_what_waits(store: Store) -> None:
    await set_limits(store, rate=Rate(10, 1))
    await put_in(store, "a")
    assert await take_turns(store, 5) == Turns(0, None)
    assert await take_turns(store, 5, grouped=True) == Turns(0, None), "no worker knows of the group yet"
    await store.groups.wake((QUEUE,), 1000, NOW)
    assert await take_turns(store, 5, grouped=True) == Turns(1, after(milliseconds=100))
    await put(store, queue=QUEUE)
    assert await take_turns(store, 5, now=after(seconds=1)) == Turns(1, after(milliseconds=1100))


async def test_turns_that_come_back_leave_the_rate_as_it_was(store: Store) -> None:
    await set_limits(store, rate=Rate(15, 1))
    await put(store, queue=QUEUE)
    for _ in range(20):
        turns = await take_turns(store, 5)
        assert (turns.taken, turns.next_at) == (1, after(microseconds=66_667))
        await store.queues.return_turns(QUEUE, 1, after(microseconds=66_667))


async def test_turns_that_come_back_after_their_time_are_lost(store: Store) -> None:
    await set_limits(store, rate=Rate(10, 1))
    await put(store, queue=QUEUE)
    await take_turns(store, 1)
    assert (await take_turns(store, 1, now=after(seconds=5))).taken == 1
    await store.queues.return_turns(QUEUE, 1, after(milliseconds=100))
    assert await take_turns(store, 1, now=after(seconds=5)) == Turns(0, after(milliseconds=5100))


# --- the circuit breaker of a group ---------------------------------------------------------------------------------


async def trip(store: Store, known: int, trips: int, until: datetime | None, **more: Any) -> bool:
    return await store.groups.trip(QUEUE, "a", known, trips, until, more.pop("now", NOW), **more)


async def test_an_open_breaker_holds_jobs_back_and_then_lets_one_run_at_a_time(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, per_group=5)
    await put_in(store, "a", 9)
    await put_in(store, "b", 1)
    assert await trip(store, 0, 1, after(minutes=1))
    assert groups_of(await take_grouped(store, node)) == {"b": 1}
    (probe,) = await take_grouped(store, node, now=after(minutes=1))
    assert await take_grouped(store, node, now=after(minutes=2)) == []
    await put_in(store, "a")
    assert await take_grouped(store, node, now=after(minutes=2)) == [], "a new job makes no room"
    await settle(store, [probe], at=after(minutes=2))
    (probe,) = await take_grouped(store, node, now=after(minutes=2))
    assert await trip(store, 1, 0, None, known_until=after(minutes=1), now=after(minutes=2))
    assert len(await take_grouped(store, node, now=after(minutes=2))) == 4


async def test_jobs_that_ran_when_the_breaker_opened_count(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", 5)
    first, second = await take_grouped(store, node, 2)
    assert await trip(store, 0, 1, after(minutes=1))
    await settle(store, [first])
    assert await take_grouped(store, node, now=after(minutes=1)) == []
    await settle(store, [second])
    assert len(await take_grouped(store, node, now=after(minutes=1))) == 1


async def test_a_trip_counts_if_the_breaker_is_still_as_it_was_known(store: Store) -> None:
    assert not await trip(store, 1, 2, after(minutes=9)), "it is closed"
    assert not await trip(store, 0, 0, None)
    assert await store.groups.all(QUEUE, 100) == []
    assert await trip(store, 0, 1, after(minutes=1))
    assert not await trip(store, 0, 1, after(minutes=9)), "another node was first"
    assert await trip(store, 1, 2, after(minutes=2))
    settings, group = await store.groups.settings(QUEUE, "a"), await store.groups.get(QUEUE, "a")
    assert settings == GroupSettings(paused_until=after(minutes=2), trips=2)
    assert (group.trips, group.limit, group.paused_until) == (2, 1, after(minutes=2))
    outcomes = await asyncio.gather(*(trip(store, 2, 3, after(minutes=3)) for _ in range(5)))
    assert sorted(outcomes) == [False] * 4 + [True]
    assert await trip(store, 3, 0, None, known_until=after(minutes=3))
    assert await store.groups.settings(QUEUE, "a") == GroupSettings()


async def test_an_operators_pause_is_neither_shortened_nor_ended_by_the_breaker(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", 3)
    for theirs in (after(hours=1), PARKED):
        await set_group(store, "a", paused_until=theirs)
        assert await trip(store, 0, 1, after(minutes=1))
        assert (await store.groups.settings(QUEUE, "a")).paused_until == theirs
        assert await trip(store, 1, 0, None, known_until=after(minutes=1), now=after(minutes=1))
        assert await store.groups.settings(QUEUE, "a") == GroupSettings(paused_until=theirs)
        assert await take_grouped(store, node, now=after(minutes=59)) == []
    await set_group(store, "a", paused_until=after(seconds=1))
    assert await trip(store, 0, 1, after(minutes=1))
    assert (await store.groups.settings(QUEUE, "a")).paused_until == after(minutes=1), "theirs is over before"
    assert await trip(store, 1, 0, None, known_until=after(minutes=1))
    assert len(await take_grouped(store, node)) == 3


async def test_an_operator_who_sets_a_group_leaves_its_breaker_as_it_is(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a", 5)
    assert await trip(store, 0, 2, after(hours=1))
    known = await store.groups.settings(QUEUE, "a")
    assert await store.groups.set(QUEUE, "a", known, GroupSettings(limit=3), NOW)
    assert await store.groups.settings(QUEUE, "a") == GroupSettings(limit=3, trips=2)
    assert len(await take_grouped(store, node)) == 1, "the pause was lifted, and the next one is a probe"
    assert await trip(store, 2, 0, None)
    assert len(await take_grouped(store, node)) == 2
    assert (await store.groups.get(QUEUE, "a")).limit == 3


async def test_an_idle_group_is_not_forgotten_while_its_breaker_is_open(store: Store) -> None:
    node = await enter(store)
    await put_in(store, "a")
    assert await trip(store, 0, 1, after(minutes=1))
    (probe,) = await take_grouped(store, node, now=after(minutes=1))
    await settle(store, [probe], at=after(minutes=1))
    for minutes in (2, 3, 4):
        assert await take_grouped(store, node, now=after(minutes=minutes)) == []
    assert [(group.name, group.trips) for group in await store.groups.all(QUEUE, 100)] == [("a", 1)]
    assert await trip(store, 1, 0, None, known_until=after(minutes=1), now=after(minutes=5))
    assert await take_grouped(store, node, now=after(minutes=5)) == []
    assert await store.groups.all(QUEUE, 100) == []


async def test_a_breaker_beside_a_rate_keeps_to_both(store: Store) -> None:
    node = await enter(store)
    await set_limits(store, rate_per_group=Rate(1, 60))
    await put_in(store, "a", 3)
    (first,) = await take_grouped(store, node)
    await settle(store, [first], BROKEN)
    assert await trip(store, 0, 1, after(seconds=10))
    assert await take_grouped(store, node, now=after(seconds=10)) == []
    assert len(await take_grouped(store, node, now=after(seconds=60))) == 1


async def test_the_groups_that_a_pause_or_a_breaker_holds_back(store: Store) -> None:
    assert await store.groups.held_back(NOW, 10) == []
    await store.groups.set("mail", "paused", GroupSettings(), GroupSettings(paused_until=PARKED), NOW)
    await store.groups.set("mail", "over", GroupSettings(), GroupSettings(paused_until=after(minutes=1)), NOW)
    await store.groups.set("mail", "limited", GroupSettings(), GroupSettings(limit=3), NOW)
    assert await store.groups.trip("webhooks", "orders", 0, 2, after(minutes=2), NOW)
    held = [
        HeldBack("mail", "over", 0, after(minutes=1)), HeldBack("mail", "paused", 0, PARKED),
        HeldBack("webhooks", "orders", 2, after(minutes=2)),
    ]  # fmt: skip
    assert await store.groups.held_back(NOW, 10) == held
    assert await store.groups.held_back(NOW, 2) == held[:2]
    assert await store.groups.held_back(after(minutes=1), 10) == held[1:], "a pause that is over holds nothing back"
    assert await store.groups.held_back(after(minutes=5), 10) == held[1:], "an open breaker lets one probe through"


async def test_a_breaker_is_forgotten_if_nobody_has_anything_for_its_endpoint(store: Store) -> None:
    """There may be one for every URL that somebody once typed."""
    node, later = await enter(store), after(days=1)
    for name in ("idle", "waiting", "running", "limited", "parked", "recent"):
        assert await store.groups.trip(QUEUE, name, 0, 1, after(minutes=1), NOW)
    await set_group(store, "limited", limit=3, paused_until=after(minutes=1))
    await set_group(store, "parked", paused_until=PARKED)
    assert await store.groups.trip(QUEUE, "recent", 1, 2, later, NOW)
    await put_in(store, "running")
    assert len(await take_grouped(store, node, now=after(minutes=2))) == 1
    await put_in(store, "waiting")
    assert await store.groups.forget_tripped(NOW, 10) == 0
    assert await store.groups.forget_tripped(later, 10) == 1
    left = {group.name for group in await store.groups.all(QUEUE, 100)}
    assert left == {"waiting", "running", "limited", "parked", "recent"}
    await put_in(store, "idle")
    assert "idle" in groups_of(await take_grouped(store, node, now=later)), "what comes later is found"
    for number in range(5):
        assert await store.groups.trip(QUEUE, f"https://{number}.example:443", 0, 1, after(minutes=1), NOW)
    assert [await store.groups.forget_tripped(later, 3) for _ in range(3)] == [3, 2, 0]
