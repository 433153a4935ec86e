"""What another session holds in PostgreSQL waits, and nothing else does. (SQLite has no locks on rows.)"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

import asyncpg
import pytest

from oncue.errors import RowLocked, StoreUnavailable
from oncue.model import (
    Decided,
    GroupSettings,
    LeaderEpoch,
    Limits,
    Note,
    Progress,
    Revised,
    Schedule,
    Started,
    Step,
    Terms,
    ToldDetails,
)
from oncue.policy import lifecycle, quorum
from oncue.policy.quorum import End as Ending
from oncue.policy.quorum import Lead
from oncue.store import PostgresStore
from oncue.store.postgres import connections, inserting
from tests.engine.test_coordinator import leading
from tests.middleman import CHUNK, End, Middleman
from tests.store.scene import (
    BROKEN,
    CRASHED,
    NOW,
    a_batch,
    a_node,
    a_revision,
    a_schedule,
    a_step,
    after,
    all_slots,
    at,
    change,
    enter,
    find,
    fire,
    lead,
    plan,
    put,
    query,
    see,
    settle,
    states,
    take,
)
from tests.store.test_cluster import a_wish, claimed, created, member, part_jobs, three

NOTE = Note("ada", "test", "this", None, None)


@pytest.fixture
def store(postgres_url: str, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store that waits a tenth of a second for a lock."""
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0.1)
    store = PostgresStore(postgres_url)
    runner.run(store.open())
    yield store
    runner.run(store.close())


@pytest.fixture
def held(postgres_url: str) -> Callable[[str], Any]:
    """Holds whatever rows a query finds, in a session of its own."""

    @asynccontextmanager
    async def hold(rows: str) -> AsyncIterator[None]:
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                assert await connection.fetch(f"select * from {rows} for update")
                yield
        finally:
            await connection.close()

    return hold


def job(job_id: int) -> str:
    return f"oncue_jobs where id = {job_id}"


# --- what the engine writes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [lifecycle.Succeeded(), BROKEN])
async def test_outcomes_are_written_past_a_job_that_is_held(store: PostgresStore, held: Any, outcome: Any) -> None:
    node = await enter(store)
    ids = await put(store, 3)
    changes = [change(claim, outcome) for claim in await take(store, node)]
    async with held(job(ids[1])):
        assert await store.jobs.apply(changes, NOW) == [True, None, True]
        assert await store.jobs.apply(changes[1:2], NOW, past_locks=True) == [None]
        assert await states(store, ids[1:2]) == ["running"]
    assert await store.jobs.apply(changes, NOW) == [False, True, False]
    assert set(await states(store, ids)) == {changes[0].state}


async def test_a_job_that_is_held_and_has_moved_on_is_not_said_to_be_locked(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    (job_id,) = await put(store)
    claims = await take(store, node)
    assert await settle(store, claims) == [True]
    async with held(job(job_id)):
        assert await settle(store, claims) == [False]


async def test_slots_are_decided_past_a_schedule_that_is_held(store: PostgresStore, held: Any) -> None:
    schedules = [await plan(store, name) for name in ("one", "two", "three")]
    ids = await store.jobs.reserve(3)
    plain = [
        a_step(schedule, Decided(at(1), "fired", None, job_id)) for schedule, job_id in zip(schedules, ids, strict=True)
    ]
    async with held("oncue_schedules where name = 'two'"):
        assert await store.slots.decide(plain, at(1), by="tests") == [True, None, True]
        assert await store.slots.decide(plain, at(1), by="tests", past_locks=True) == [False, None, False]
    assert await store.slots.decide(plain, at(1), by="tests") == [False, True, False]
    assert [len(await all_slots(store, schedule)) for schedule in schedules] == [1, 1, 1]


def fires(schedules: Sequence[Schedule], ids: Sequence[int]) -> list[Step]:
    return [
        a_step(schedule, Decided(at(1), "fired", None, job_id))._replace(key=schedule.key)
        for schedule, job_id in zip(schedules, ids, strict=True)
    ]


@pytest.fixture
def keys_taken(postgres_url: str) -> Callable[..., Any]:
    """Has taken the keys of these schedules in a caller's transaction, which is open."""

    @asynccontextmanager
    async def taken(*names: str) -> AsyncIterator[None]:
        caller = await asyncpg.connect(postgres_url)
        try:
            async with caller.transaction():
                await caller.execute(
                    "insert into oncue_jobs (id, task, key, args, queue, priority, state, options, max_retries,"
                    " created_at, updated_at, order_at, visible_at, enqueued_by) select 10000 + id, task, key, args,"
                    " queue, priority, 'queued', options, 3, $1, $1, $1, $1, 'a caller' from oncue_schedules"
                    " where name = any($2::text[])",
                    NOW,
                    list(names),
                )
                yield
        finally:
            await caller.close()

    return taken


@pytest.mark.contract("QUE-3")
async def test_slots_are_decided_past_one_whose_key_an_open_transaction_has_taken(
    store: PostgresStore, keys_taken: Any
) -> None:
    steps = fires([await plan(store, name, key=name) for name in ("one", "two", "three")], await store.jobs.reserve(3))
    async with keys_taken("two"):
        assert await store.slots.decide(steps, at(1), by="tests") == [True, None, True]
    assert await store.slots.decide(steps[1:2], at(1), by="tests") == [False]  # the caller's job has the key by now


async def test_after_a_few_keys_that_are_taken_the_rest_is_left_for_the_next_pass(
    store: PostgresStore, keys_taken: Any
) -> None:
    names = ["a", "b", "c", "d", "free"]
    steps = fires([await plan(store, name, key=name) for name in names], await store.jobs.reserve(5))
    async with keys_taken("a", "b", "c", "d"):
        assert await store.slots.decide(steps, at(1), by="tests") == [None, None, None, False, False]
        assert await store.slots.decide(steps[::-1], at(1), by="tests") == [True, None, None, None, False]


async def test_a_table_that_is_locked_is_waited_for_once(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = fires([await plan(store, str(number)) for number in range(9)], await store.jobs.reserve(9))
    asked: list[str] = []
    fetch = store.database.fetch
    monkeypatch.setattr(store.database, "fetch", lambda name, *columns: (asked.append(name), fetch(name, *columns))[1])
    psql = await asyncpg.connect(postgres_url)
    try:
        async with psql.transaction():
            await psql.execute("lock table oncue_schedules in share mode")
            assert await store.slots.decide(steps, at(1), by="tests", past_locks=True) == [None] * 9
    finally:
        await psql.close()
    assert asked == ["decide_free"]
    assert await store.slots.decide(steps, at(1), by="tests") == [True] * 9


async def test_attempts_begin_past_a_job_that_is_held(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    first, _ = await put(store, 2)
    claims = await take(store, node)
    started = [Started(claim.id, claim.claim_no, NOW) for claim in claims]
    async with held(job(first)):
        assert await store.jobs.begin(started) == [None, True]
    assert await store.jobs.begin([started[0], started[1]._replace(claim_no=9)]) == [True, False]


async def test_a_start_and_a_progress_are_shown_past_a_job_that_is_held(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    first, second = await put(store, 2)
    claims = await take(store, node)
    started = [Started(claim.id, claim.claim_no, NOW) for claim in claims]
    told = [Progress(claim.id, claim.claim_no, 0.5, "half", NOW) for claim in claims]
    async with held(job(first)):
        assert await store.jobs.mark_started(started) == [first]
        await store.jobs.report_progress(told)
        assert [(await see(store, one)).started_at for one in (first, second)] == [None, NOW]
        assert [(await see(store, one)).progress for one in (first, second)] == [None, 0.5]
    assert await store.jobs.mark_started(started) == []
    await store.jobs.report_progress(told)
    async with held(f"oncue_progress where job_id = {first}"):
        await store.jobs.report_progress([one._replace(fraction=0.7) for one in told])
    assert [(await see(store, one)).progress for one in (first, second)] == [0.5, 0.7]


async def test_details_are_kept_past_a_job_that_is_held(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    first, second = await put(store, 2)
    told = [ToldDetails(claim.id, claim.claim_no, '{"page":1}') for claim in await take(store, node)]
    async with held(job(first)):
        assert await store.jobs.report_details(told) == [first]
        assert [(await see(store, one)).details for one in (first, second)] == [None, {"page": 1}]
    assert await store.jobs.report_details(told) == []
    assert (await see(store, first)).details == {"page": 1}


@asynccontextmanager
async def taken(store: PostgresStore, url: str, key: str) -> AsyncIterator[None]:
    """A caller has enqueued a job with this key, and its transaction is open."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await inserting.insert(store.database.sql, connection, [a_batch(keys=[key])])
            yield
    finally:
        await connection.close()


async def test_outcomes_are_written_past_the_key_of_a_job_that_follows(store: PostgresStore, postgres_url: str) -> None:
    """Only the change whose follow-up has to wait for an open transaction waits; the others are written."""
    node = await enter(store)
    ids = await put(store, 4)
    claims = await take(store, node)
    followers = [(), (a_batch(keys=["a"]),), (a_batch(keys=["b"]),), (a_batch(),)]
    changes = [change(claim)._replace(follow_ups=after) for claim, after in zip(claims, followers, strict=True)]
    async with taken(store, postgres_url, "a"):
        assert await store.jobs.apply(changes, NOW) == [True, None, True, True]
        assert await store.jobs.apply(changes[1:2], NOW) == [None]
        assert await states(store, ids) == ["succeeded", "running", "succeeded", "succeeded"]
    assert await store.jobs.apply(changes[1:2], NOW) == [True]
    there = [await store.jobs.get(batch.ids[0]) is not None for after in followers for batch in after]
    assert there == [False, True, True]  # the caller's job has the key


async def test_a_change_under_an_epoch_is_written_past_a_job_that_is_held(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    ids = await put(store, 2)
    claims = await take(store, node)
    terms = Terms(leader=LeaderEpoch(node, 7))
    ended = [lifecycle.Ended(claim, lifecycle.Succeeded(), NOW, NOW, None, None, terms) for claim in claims]
    changes = [lifecycle.settle(one, Random(1)) for one in ended]
    async with held(job(ids[0])):
        assert await store.jobs.apply(changes, NOW) == [None, "released"]
    assert await store.jobs.apply(changes, NOW) == ["released", False]


async def test_nodes_are_declared_lost_past_one_whose_row_is_held(store: PostgresStore, held: Any) -> None:
    for name in ("one", "two"):
        await enter(store, name, expires_at=NOW)
    async with held("oncue_nodes where name = 'one'"):
        assert [node.name for node in await store.nodes.expire(after(seconds=1))] == ["two"]
    assert [node.name for node in await store.nodes.expire(after(seconds=1))] == ["one"]


async def test_counters_are_folded_past_a_total_that_is_held(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    for _ in range(2):
        for task in ("send", "fetch"):
            await put(store, task=task)
            await settle(store, await take(store, node, tasks=[task]))
        if not await query(store, "select 1 from oncue_counters"):
            assert await store.counters.fold(100) == 2
    async with held("oncue_counters where task = 'send'"):
        assert await store.counters.fold(100) == 1
    assert await store.counters.fold(100) == 1
    assert await query(store, "select distinct jobs from oncue_counters") == [(2,)]


async def test_upkeep_goes_on_past_rows_that_are_held(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    schedules = [await plan(store, name) for name in ("one", "two")]
    jobs = [(await fire(store, schedule, at(1)))[0] for schedule in schedules]
    await settle(store, await take(store, node, now=at(1)), at=at(1))
    async with held(f"oncue_slots where job_id = {jobs[0]}"):
        assert await store.jobs.prune(at(2), 10) == 1
    assert await store.jobs.get(jobs[1]) is None
    assert await store.jobs.prune(at(2), 10) == 1
    async with held("oncue_schedules where name = 'one'"):
        assert await store.slots.prune(at(2), 10) == 1
    assert await store.slots.prune(at(2), 10) == 1


async def test_parked_jobs_are_released_past_a_schedule_and_a_job_that_are_held(
    store: PostgresStore, held: Any
) -> None:
    jobs = {}
    for name in ("one", "two", "three"):
        jobs[name] = await fire(store, await plan(store, name), at(1), at(2), parked=True)
    async with held("oncue_schedules where name = 'one'"), held(job(jobs["two"][0])):
        assert await store.slots.release_parked(at(9), 10) == 2
    assert [await states(store, jobs[name]) for name in jobs] == [
        ["scheduled", "scheduled"],
        ["scheduled", "queued"],
        ["queued", "scheduled"],
    ]
    assert await store.slots.release_parked(at(9), 10) == 1


# --- what operators do --------------------------------------------------------------------------------------------


async def test_a_change_by_hand_of_what_is_held_is_refused_writes_nothing_and_works_afterwards(
    store: PostgresStore, held: Any
) -> None:
    node = await enter(store)
    schedule = await plan(store)
    (job_id,) = await put(store)
    (claim,) = await take(store, node)
    await store.queues.pause("mail", NOW)
    other = await plan(store, "other")
    edited = a_schedule("other", id=other.id, version=2, task="fetch", revision=2)
    step = a_step(schedule, Decided(at(1), "manual", "trigger", (await store.jobs.reserve(1))[0]))

    def verbs() -> dict[str, list[Callable[[], Awaitable[Any]]]]:
        return {
            job(job_id): [
                lambda: store.jobs.prioritize(job_id, 0, 9, NOW, note=NOTE),
                lambda: store.jobs.request_cancel(job_id, claim.claim_no, NOW, note=NOTE),
                lambda: store.jobs.apply([change(claim, BROKEN)], NOW, [NOTE]),
            ],
            "oncue_schedules": [
                lambda: store.slots.decide([step], at(1), by="ada", notes=[NOTE]),
                lambda: store.schedules.revise([Revised(edited, 1, a_revision(edited))], NOW, [NOTE]),
            ],
            "oncue_queues": [
                lambda: store.queues.set_limits("mail", Limits(), Limits(3), NOW, note=NOTE),
                lambda: store.queues.resume("mail", NOW, note=NOTE),
            ],
        }

    for rows, changes in verbs().items():
        async with held(rows):
            for attempt in changes:
                with pytest.raises(RowLocked, match="nothing was written"):
                    await attempt()
        assert await store.audit_log.page() == []
    for changes in verbs().values():
        for attempt in changes:
            assert await attempt() in (True, [True])
    assert len(await store.audit_log.page()) == 7


async def test_nothing_that_an_operator_does_opens_a_transaction(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a process which stands still, or is gone, holds nothing."""

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("this would span round trips")

    monkeypatch.setattr(asyncpg.Connection, "transaction", forbidden)
    schedule = await plan(store)
    await store.jobs.enqueue([a_batch(keys=["a"]), a_batch(task="fetch", keys=["a"])])
    again = a_batch(keys=["a", "b"])
    assert [receipt.created for receipt in await store.jobs.enqueue([again], in_doubt=True)] == [False, True]
    assert [receipt.created for receipt in await store.jobs.enqueue([again], in_doubt=True)] == [False, True]
    (job_id,) = await fire(store, schedule, at(1), parked=True)
    await store.slots.release_parked(at(2), 10)
    node = await enter(store)
    await settle(store, await take(store, node, now=at(2)), BROKEN, at=at(2))
    current, failed = await find(store), await see(store, job_id)
    assert await store.slots.rerun(current, failed, (await store.jobs.reserve(1))[0], at(3), by="ada", note=NOTE)
    await store.jobs.prune(at(9), 10, noted=(NOTE, at(9)))
    assert [entry.after for entry in await store.audit_log.page()][:1] != [None]


# --- sessions -----------------------------------------------------------------------------------------------------


async def test_every_session_of_ours_has_its_limits_and_behind_a_pooler_they_are_the_role_s(postgres_url: str) -> None:
    for options, expected in (
        ({}, (2000, 15000)),
        ({"patience": 1.0}, (500, 15000)),
        ({"prepare": False}, (0, 0)),
    ):
        store = PostgresStore(postgres_url, **options)  # type: ignore[arg-type]
        try:
            assert (await store.session_limits())[1:] == expected
            async with store.database.use() as connection:
                assert await connection.fetchval("show jit") == ("off" if expected[0] else "on")
        finally:
            await store.close()


class Pooler(Middleman):
    """Refuses settings at connect, as PgBouncer does, and is a plain line otherwise."""

    refusals = 0
    unknown = b"lock_timeout"
    refusal = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: lock_timeout\0\0"

    async def _between(self, asker: End, server: End) -> None:
        opening = await asker.reader.readexactly(4)
        opening += await asker.reader.readexactly(struct.unpack("!I", opening)[0] - 4)
        if self.unknown in opening:
            self.refusals += 1
            asker.writer.write(b"E" + struct.pack("!I", len(self.refusal) + 4) + self.refusal)
            asker.writer.close()
            return
        server.writer.write(opening)
        await asyncio.gather(_pipe(asker.reader, server.writer), _pipe(server.reader, asker.writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_a_pooler_that_refuses_settings_is_asked_without_them(postgres_url: str) -> None:
    async with Pooler(postgres_url) as pooler:
        store = PostgresStore(pooler.url)
        await store.open()
        assert await put(store, 2)
        assert (await store.session_limits())[1:] == (0, 0)
        assert pooler.refusals == 1
        assert store.pooled
        await store.close()


class OlderServer(Pooler):
    """Does not know a setting, as PostgreSQL 13."""

    unknown = connections.CHECK_GONE.encode()
    refusal = b'SFATAL\0VFATAL\0C42704\0Munrecognized configuration parameter "client_connection_check_interval"\0\0'


async def test_an_older_server_is_asked_without_what_it_does_not_know(postgres_url: str) -> None:
    async with OlderServer(postgres_url) as server:
        store = PostgresStore(server.url)
        await store.open()
        assert (await store.session_limits())[1:] == (2000, 15000)
        assert server.refusals == 1
        await store.close()


async def test_a_statement_that_was_given_up_does_not_run_on(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that walks a large table: who asks for it again and again would fill the server with them."""
    monkeypatch.setattr(connections, "GONE_SECONDS", 0.05)
    pool = connections.Connections(postgres_url, 2, prepare=True, timeout=15.0)
    watcher = await asyncpg.connect(postgres_url)
    running = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'"
    async with asyncio.timeout(30):
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), pool.use() as connection:
                    await connection.fetch("select pg_sleep(60)")
        while await watcher.fetchval(running):
            await watcher.execute("select pg_sleep(0.02)")
    await watcher.close()
    await pool.close()


async def test_a_beat_on_a_row_that_is_held_is_refused_before_its_patience_is_over(
    postgres_url: str, held: Any
) -> None:
    store = PostgresStore(postgres_url, patience=0.5)
    try:
        node = a_node()
        await store.nodes.register(node)
        async with held("oncue_nodes"):
            with pytest.raises(RowLocked):
                await store.nodes.beat(node.id, NOW, after(seconds=1), 1)
        assert await store.nodes.beat(node.id, NOW, after(seconds=1), 2)
    finally:
        await store.close()


@pytest.mark.parametrize("error", [TimeoutError(), OSError(), asyncpg.InterfaceError(""), ConnectionResetError()])
def test_whoever_does_not_answer_has_a_reason(error: Exception) -> None:
    ours = connections.translated(error)
    assert isinstance(ours, StoreUnavailable)
    assert str(ours).removeprefix("PostgreSQL does not answer:").strip()


async def test_an_enqueue_of_very_many_is_one_statement(store: PostgresStore) -> None:
    wanted = 25_000
    receipts = await store.jobs.enqueue([a_batch(wanted, created_at=NOW + timedelta(days=1))])
    assert len(receipts) == wanted
    assert len({*await query(store, "select xmin::text from oncue_jobs")}) == 1


@pytest.mark.parametrize("kinds", [1, 2])
async def test_an_enqueue_that_meets_a_lock_after_a_part_was_written_is_in_doubt(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, postgres_url: str, kinds: int
) -> None:
    """A key was held, is free a moment later, and is then taken by a transaction that stays open."""
    other = await asyncpg.connect(postgres_url)
    (holder,) = await put(store, keys=["k"])
    keys: Any = [None, "k"]  # a key may be a function that gives none
    first = a_batch(2)._replace(keys=keys)
    batches = [first, *([a_batch(task="plain")] if kinds == 2 else [])]
    tell, asked = inserting._receipts_of_duplicates, 0

    async def told_late(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            await other.execute(f"update oncue_jobs set state = 'succeeded', finished_at = $1 where id = {holder}", NOW)
            await other.execute("begin")
            await other.execute(f"update oncue_jobs set state = 'queued', finished_at = null where id = {holder}")
        return await tell(*arguments)

    monkeypatch.setattr(inserting, "_receipts_of_duplicates", told_late)
    with pytest.raises(StoreUnavailable):  # not RowLocked, which would say that nothing was written
        await store.jobs.enqueue(batches)
    assert await states(store, first.ids[:1]) == ["queued"]
    await other.execute("rollback")
    await other.close()
    receipts = await store.jobs.enqueue(batches, in_doubt=True)
    assert [(receipt.id, receipt.created) for receipt in receipts] == [
        (job_id, True) for batch in batches for job_id in batch.ids
    ]


async def test_a_locked_group_keeps_nothing_else_from_being_claimed(store: PostgresStore, held: Any) -> None:
    node = await enter(store)
    assert await store.groups.set("mail", "a", GroupSettings(), GroupSettings(limit=5), NOW)
    for group in ("a", "b"):
        await put(store, queue="mail", group=group)
    async with held("oncue_groups where name = 'a'"):
        await store.groups.wake(["mail"], 100, NOW)
        assert [claim.group for claim in await store.groups.claim(node, ["mail"], ["send"], 10, NOW)] == ["b"]
    await store.groups.wake(["mail"], 100, NOW)
    assert [claim.group for claim in await store.groups.claim(node, ["mail"], ["send"], 10, NOW)] == ["a"]


async def test_while_a_group_is_locked_only_the_first_look_waits_for_it(store: PostgresStore, held: Any) -> None:
    """Each look had waited for the lock, and with it every claim of its worker."""
    node = await enter(store)
    assert await store.groups.set("mail", "a", GroupSettings(), GroupSettings(limit=5), NOW)
    async with held("oncue_groups where name = 'a'"):
        await put(store, queue="mail", group="a")
        await store.groups.wake(["mail"], 100, NOW)
        started = time.monotonic()
        for group in ("b", "c", "d", "e"):
            await put(store, queue="mail", group=group)
            assert (await store.groups.wake(["mail"], 100, NOW)).wakeups == 1
            assert [claim.group for claim in await store.groups.claim(node, ["mail"], ["send"], 10, NOW)] == [group]
        assert time.monotonic() - started < 4 * 0.1
    await store.groups.wake(["mail"], 100, NOW)
    assert [claim.group for claim in await store.groups.claim(node, ["mail"], ["send"], 10, NOW)] == ["a"]
    assert await query(store, "select count(*) from oncue_group_wakeups") == [(0,)]


async def test_what_is_told_of_a_locked_group_is_in_no_other_groups_way(store: PostgresStore, held: Any) -> None:
    """A look reads a number of wake-ups. If they were all of a group that is held, it found none of the others."""
    node = await enter(store)
    assert await store.groups.set("mail", "a", GroupSettings(), GroupSettings(limit=50), NOW)
    async with held("oncue_groups where name = 'a'"):
        for _ in range(10):
            await put(store, queue="mail", group="a")
        await put(store, queue="mail", group="b")
        for _ in range(3):
            await store.groups.wake(["mail"], 5, NOW)
        assert [claim.group for claim in await store.groups.claim(node, ["mail"], ["send"], 10, NOW)] == ["b"]
    for _ in range(3):
        await store.groups.wake(["mail"], 5, NOW)
    assert len(await store.groups.claim(node, ["mail"], ["send"], 50, NOW)) == 10


async def test_new_limits_take_the_groups_in_the_order_of_the_looks(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any other order a look and a change of limits wait for each other, and PostgreSQL ends one of them."""
    monkeypatch.setattr(connections, "LOCK_SECONDS", 20.0)
    store, other = PostgresStore(postgres_url), await asyncpg.connect(postgres_url)
    await store.open()
    try:
        for name in ("z", "a"):
            assert await store.groups.set("mail", name, GroupSettings(), GroupSettings(limit=5), NOW)
        async with other.transaction():
            await other.fetch("select from oncue_groups where name = 'a' for update")
            change = asyncio.create_task(store.queues.set_limits("mail", Limits(), Limits(per_group=3), NOW))
            waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            while not await other.fetch(waiting):
                await other.execute("select pg_stat_clear_snapshot()")
                await asyncio.sleep(0.01)
            assert await other.fetch("select from oncue_groups where name = 'z' for update nowait")
        assert await change
    finally:
        await other.close()
        await store.close()


@pytest.mark.parametrize("deaths", [2, 3], ids=["in a cohort", "alone"])
@pytest.mark.parametrize(
    "rows", ["oncue_jobs where crashes > 0", "oncue_groups where name = 'a'"], ids=["job", "group"]
)
async def test_a_job_that_is_kept_apart_and_held_keeps_no_group_waiting(
    store: PostgresStore, held: Any, rows: str, deaths: int
) -> None:
    """A claim takes one such job by itself, so it must not choose one that it cannot have."""
    node, where = await enter(store), (["mail"], ["send"], 10, NOW)
    (apart,) = await put(store, queue="mail", group="a")
    for _ in range(deaths):
        await store.groups.wake(["mail"], 100, NOW)
        claims = await store.groups.claim(node, *where, few=1, alone=after(days=1))
        assert await settle(store, claims, CRASHED) == [True]
    await put(store, queue="mail", group="b")
    await store.groups.wake(["mail"], 100, NOW)
    async with held(rows):
        claims = await store.groups.claim(node, *where, few=1, alone=after(days=1))
        assert [claim.group for claim in claims] == ["b"]
    await store.groups.wake(["mail"], 100, NOW)
    assert [claim.id for claim in await store.groups.claim(node, *where, few=1, alone=after(days=1))] == [apart]


async def test_a_full_group_that_a_claim_forgets_while_a_job_comes_wakes_up_again(
    store: PostgresStore, postgres_url: str
) -> None:
    node, where = await enter(store), (["mail"], ["send"], 10, NOW)
    assert await store.queues.set_limits("mail", Limits(), Limits(per_group=1), NOW)
    await put(store, queue="mail", group="a")
    await store.groups.wake(["mail"], 100, NOW)
    running = await store.groups.claim(node, *where)
    (waits,) = await put(store, queue="mail", group="a")
    other = await asyncpg.connect(postgres_url)
    try:
        await other.execute("insert into oncue_groups (queue, name, version) values ('mail', 'a', 1)")
        async with other.transaction():
            await other.execute("delete from oncue_groups")  # as a claim does that saw nothing more of it
            await store.groups.wake(["mail"], 100, NOW)
    finally:
        await other.close()
    await store.groups.wake(["mail"], 100, NOW)
    assert await settle(store, running) == [True]
    await store.groups.wake(["mail"], 100, NOW)
    assert [claim.id for claim in await store.groups.claim(node, *where)] == [waits]


async def test_an_open_transaction_with_a_job_of_a_group_keeps_no_other_waiting(
    store: PostgresStore, postgres_url: str
) -> None:
    """An enqueue takes no lock on its group."""
    node, open_session = await enter(store), await asyncpg.connect(postgres_url)
    try:
        async with open_session.transaction():
            await inserting.insert(store.database.sql, open_session, [a_batch(queue="mail", group="a")])
            (job_id,) = await put(store, queue="mail", group="a")
            await store.groups.wake(["mail"], 100, NOW)
            claims = await store.groups.claim(node, ["mail"], ["send"], 10, NOW)
            assert [claim.id for claim in claims] == [job_id]
        await store.groups.wake(["mail"], 100, NOW)
        assert len(await store.groups.claim(node, ["mail"], ["send"], 10, NOW)) == 1
    finally:
        await open_session.close()


# --- cluster jobs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["oncue_jobs where id = {part}", "oncue_parts where job_id = {part}"])
async def test_a_cluster_job_ends_once_its_parts_can_end_with_it(store: PostgresStore, held: Any, rows: str) -> None:
    """A part that was passed over had waited for its lost node for ever."""
    first, _, _, lease = await three(store)
    cluster, other = [await created(store, first, lease.epoch) for _ in range(2)]
    part = next(part.job_id for part in cluster.parts if part.node_name == "c")
    ended = Ending("failed", "no_quorum", "why")
    leader = Lead(first, "a", NOW)
    changes = [quorum.as_change(one, ended, leader, lease.epoch, NOW) for one in (cluster, other)]
    async with held(rows.format(part=part)):
        assert await store.jobs.apply(changes, NOW) == [None, True]
        assert await states(store, [cluster.id, part or 0]) == ["queued", "queued"]
    assert await store.jobs.apply(changes, NOW) == [True, False]
    assert await states(store, [cluster.id, part or 0]) == ["failed", "skipped"]


async def test_to_cancel_a_cluster_job_reaches_a_part_that_is_held_or_nobody(store: PostgresStore, held: Any) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    (running,) = await claimed(store, second)
    cancelled = lifecycle.cancel(cluster.job, NOW)
    assert cancelled is not None
    async with held(job(running.id)):
        with pytest.raises(RowLocked):
            await store.jobs.apply([cancelled], NOW, [NOTE])
    assert await states(store, [cluster.id]) == ["queued"]
    assert await store.jobs.apply([cancelled], NOW, [NOTE]) == [True]
    assert [claim.cancel_requested for claim in await store.jobs.held(second)] == [True]


async def test_a_part_that_begins_as_its_cluster_job_is_cancelled_is_asked_to_stop(
    store: PostgresStore, postgres_url: str
) -> None:
    """It is claimed after the statement has begun, and before its row is reached."""
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    part = next(part.job_id for part in cluster.parts if part.node_name == "b")
    cancelled = lifecycle.cancel(cluster.job, NOW)
    assert cancelled is not None
    psql = await asyncpg.connect(postgres_url)
    try:
        async with psql.transaction():
            begins = "update oncue_jobs set state = 'running', claim_no = 1, node_id = $2 where id = $1"
            await psql.execute(begins, part, second)
            cancelling = asyncio.ensure_future(store.jobs.apply([cancelled], NOW))
            await asyncio.sleep(0.03)
        if await cancelling == [None]:  # the other session was slow
            assert await store.jobs.apply([cancelled], NOW) == [True]
    finally:
        await psql.close()
    assert [claim.cancel_requested for claim in await store.jobs.held(second)] == [True]


async def test_a_cluster_job_that_is_held_is_in_no_other_ones_way(store: PostgresStore, held: Any) -> None:
    coordinator, _ = await leading(store)
    without_parts, ready, wish, done = [a_wish() for _ in range(4)]
    await store.jobs.enqueue([ready, done])
    await coordinator.tick(NOW)
    holder = next(node.id for node in await store.nodes.alive())
    await settle(store, await claimed(store, holder))
    await store.jobs.enqueue([without_parts, wish])
    stuck = (without_parts.ids[0], ready.ids[0])

    async def looked(at: datetime) -> list[bool]:
        await coordinator.tick(at)
        whole = {one.id: one for one in await store.cluster.page(at, None, 10)}
        decided = [whole[batch.ids[0]].decided_at is not None for batch in (ready, done)]
        return [*decided, *(whole[batch.ids[0]].spread_at is not None for batch in (without_parts, wish))]

    async with held(f"oncue_jobs where id in {stuck}"):
        assert await looked(NOW + timedelta(seconds=1)) == [False, True, False, True]
    assert await looked(NOW + timedelta(seconds=2)) == [True, True, True, True]


async def test_a_node_that_takes_its_name_while_parts_are_written_can_claim_its_own(
    store: PostgresStore, postgres_url: str
) -> None:
    """Its part had kept the address of a node without a name, and nobody claimed it."""
    first = await member(store, "a")
    second = await member(store, "b", named=False)
    lease = await lead(store, first)
    psql = await asyncpg.connect(postgres_url)
    try:
        async with psql.transaction():
            await psql.execute("update oncue_nodes set named = true where id = $1", second)
            creating = asyncio.ensure_future(created(store, first, lease.epoch))
            await asyncio.sleep(0.03)
        cluster = await creating
    finally:
        await psql.close()
    assert {one.address for one in (await part_jobs(store, cluster)).values()} == {"node:a", "node:b"}
    assert len(await claimed(store, second)) == 1


async def test_a_node_that_waits_for_its_name_while_parts_are_written_finds_its_own(
    store: PostgresStore, postgres_url: str
) -> None:
    first = await member(store, "a")
    second = await member(store, "b", named=False)
    lease = await lead(store, first)
    cluster = await created(store, first, lease.epoch)
    part = next(part.job_id for part in cluster.parts if part.node_id == second)
    psql = await asyncpg.connect(postgres_url)
    try:
        await psql.execute("update oncue_jobs set address = 'node:x' where id = $1", part)
        async with psql.transaction():  # as if it was being written
            await psql.execute("update oncue_jobs set address = 'node:' || $2::uuid::text where id = $1", part, second)
            await psql.execute("select from oncue_nodes where id = $1 for share", second)
            taking = asyncio.ensure_future(store.nodes.take_name(second, "b"))
            await asyncio.sleep(0.03)
        assert await taking is not None
    finally:
        await psql.close()
    assert len(await claimed(store, second)) == 1
