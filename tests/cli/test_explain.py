"""`oncue explain`: the questions of the origin's troubleshooting list, on each back end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue import Oncue
from oncue.model import Decided, Failed, Skipped, Step, Succeeded
from oncue.store import Store
from oncue.store.contract import EXCLUSIVE, LEADER
from oncue.verbs.schedules.declaring import Declaring
from tests.cli.agenda import a_single_run, taken_by
from tests.cli.conftest import Shell, on_database, work_off
from tests.store.scene import CRASHED, a_node, settle

HOUR = timedelta(hours=1)


def codes(oncue: Shell, *what: str) -> list[str]:
    answer = oncue("explain", *what, "--json")
    assert answer.code == 0, answer.err
    return [finding["code"] for finding in answer.json["findings"]]


def told(oncue: Shell, *what: str) -> str:
    """The answer as people see it."""
    answer = oncue("explain", *what)
    assert answer.code == 0, answer.err
    return answer.out


def enter(url: str, name: str, *, lead: bool = False, exclusive: bool = False, **fields: Any) -> None:
    """A live node, as another process would be one."""

    async def entered(app: Oncue) -> None:
        connected = await app.internals.connected()
        now, later = connected.now(), connected.now() + HOUR
        node = dataclasses.replace(a_node(name, started_at=now, expires_at=later), **{"tasks": ("add",), **fields})
        await connected.store.nodes.register(node)
        for lease, wanted in ((LEADER, lead), (EXCLUSIVE, exclusive)):
            if wanted:
                await connected.store.leases.acquire(lease, node.id, name, now, later, respect=None)

    on_database(url, entered)


# --- not processing -------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-22")
def test_why_a_job_is_not_processed(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    assert codes(oncue, "1") == ["no_node_alive", "priority", "no_leader"]
    enter(shop, "alpha", queues=("default",), lead=True)
    assert codes(oncue, "1") == ["no_node_serves_queue", "priority"]
    assert "→ start a worker for it: `oncue worker --queues mail`" in told(oncue, "1")
    enter(shop, "beta", queues=("mail",), tasks=("other",))
    assert codes(oncue, "1") == ["no_node_knows_task", "priority"]
    enter(shop, "gamma", queues=("mail",))
    assert codes(oncue, "1") == ["claimable", "priority"]
    oncue("queues", "pause", "mail")
    assert codes(oncue, "1") == ["paused_queue", "priority"]
    assert "→ resume it with `oncue queues resume mail`" in told(oncue, "1")
    oncue("queues", "resume", "mail")
    assert codes(oncue, "1") == ["claimable", "priority"]


@pytest.mark.contract("QUE-22", "SLOT-2")
def test_everybody_stands_by_for_the_exclusive_worker(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    enter(shop, "alpha", lead=True)
    assert codes(oncue, "1") == ["claimable", "priority"]
    enter(shop, "only", queues=("other",), exclusive=True)
    assert codes(oncue, "1") == ["no_node_serves_queue", "standing_by", "priority"]
    assert "only is the exclusive worker" in told(oncue, "1")


@pytest.mark.contract("QUE-22")
def test_a_job_that_runs_on_a_node_that_fell_silent(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")

    async def claim(app: Oncue) -> None:
        connected = await app.internals.connected()
        now = connected.now()
        node = a_node("alpha", started_at=now, expires_at=now + timedelta(milliseconds=1))
        await connected.store.nodes.register(node)
        assert await connected.store.jobs.claim(node.id, ["default"], ["add"], 1, now)

    on_database(shop, claim)
    assert codes(oncue, "1") == ["node_lost"]
    assert "Node alpha, which holds it, is silent since" in told(oncue, "1")


def test_why_a_job_of_a_group_waits(oncue: Shell, shop: str) -> None:
    for number in range(3):
        oncue("enqueue", "add", f"a={number}", "--queue", "mail", "--group", "tenant 7")
    oncue("enqueue", "add", "a=9", "--queue", "mail", "--group", "tenant:8", "--priority", "90")
    enter(shop, "alpha", queues=("mail",), lead=True)
    assert codes(oncue, "1") == ["claimable", "priority"]
    assert codes(oncue, "3") == ["behind", "priority"]
    assert "It is behind 2 others of group tenant 7: 2 older." in told(oncue, "3")
    oncue("queues", "pause", "mail", "--group", "tenant 7", "--for", "1h")
    assert codes(oncue, "3") == ["paused_group", "behind", "priority"]
    resume = "oncue queues resume mail --group 'tenant 7'"
    assert f"→ resume it with `{resume}`" in told(oncue, "3")
    assert "(in 59m" in told(oncue, "3") or "(in 1h" in told(oncue, "3")
    assert codes(oncue, "4") == ["claimable", "priority"]
    assert oncue("queues", "resume", "mail", "--group", "tenant 7").code == 0
    oncue("queues", "limit", "mail", "--per-group", "1", "--rate-per-group", "1/h")
    claim_grouped(shop)
    assert codes(oncue, "2") == ["full_group", "group_rate", "priority"]
    assert "1 job of group tenant 7 runs, and its limit is 1, set for each group of queue mail." in told(oncue, "2")
    oncue("queues", "limit", "mail", "--group", "tenant 7", "--per-group", "1", "--rate-per-group", "none")
    assert "its limit is 1, set for this group alone." in told(oncue, "2")


def claim_grouped(url: str) -> None:
    """One job of each group runs."""

    async def claim(app: Oncue) -> None:
        connected = await app.internals.connected()
        store, now = connected.store, connected.now()
        (node,) = await store.nodes.alive()
        await store.groups.wake(["mail"], 100, now)
        assert len(await store.groups.claim(node.id, ["mail"], ["add"], 10, now)) == 2

    on_database(url, claim)


def test_why_a_job_of_a_queue_with_a_rate_waits(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    enter(shop, "alpha", queues=("mail",), lead=True)
    oncue("queues", "limit", "mail", "--rate", "1/h")
    assert codes(oncue, "1") == ["claimable", "priority"]

    async def take_turn(app: Oncue) -> None:
        connected = await app.internals.connected()
        assert (await connected.store.queues.take_turns("mail", ["add"], 1, connected.now())).taken == 1

    on_database(shop, take_turn)
    assert codes(oncue, "1") == ["queue_rate", "priority"]
    assert "→ raise it with `oncue queues limit mail --rate 2/h`" in told(oncue, "1")


# --- not retrying ---------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-22")
def test_why_a_job_is_not_retried(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "boom", "text=no luck")
    work_off(shop)
    assert codes(oncue, "1")[:2] == ["settled", "no_retries_left"]
    answer = told(oncue, "1")
    assert "ValueError: no luck" in answer
    assert "→ start it over with `oncue retry 1`" in answer


@pytest.mark.contract("QUE-22")
def test_when_a_job_is_retried(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1")

    async def fail(app: Oncue) -> None:
        connected = await app.internals.connected()
        now = connected.now()
        node = a_node("alpha", started_at=now, expires_at=now + HOUR)
        await connected.store.nodes.register(node)
        claims = await connected.store.jobs.claim(node.id, ["default"], ["add"], 1, now)
        assert await settle(connected.store, claims, Failed("Traceback\nValueError: not yet"), at=now) == [True]

    on_database(shop, fail)
    assert codes(oncue, "1") == ["next_retry", "no_node_knows_task", "attempt"]
    assert "1 of 3 retries are used" in told(oncue, "1")
    assert "Attempt 1 began at" in told(oncue, "1")


@pytest.mark.contract("QUE-22", "SLOT-3")
def test_what_came_of_the_retries_of_a_single_run(oncue: Shell, diary: str) -> None:
    job_id = str(a_single_run(diary))
    taken_by(diary, "alpha", Failed("no luck"))
    answer = told(oncue, job_id)
    assert " on alpha, in attempt 1: no luck" in answer
    assert f"`oncue retry {job_id}`" in answer
    one = oncue("retry", job_id, "--json").json["id"]
    assert codes(oncue, job_id)[-1] == "retried_as"
    answer = told(oncue, job_id)
    assert f"It was retried as job {one} (queued)." in answer
    assert f"→ `oncue explain {one}` tells how that one stands" in answer
    assert "oncue retry" not in answer
    taken_by(diary, "beta", Skipped("not today"))
    assert f"`oncue retry {job_id}`" in told(oncue, job_id), "that one came to nothing"
    two = oncue("retry", str(one), "--json").json["id"]
    taken_by(diary, "gamma", Succeeded())
    answer = told(oncue, job_id)
    assert f"It was retried as job {one} (skipped), {two} (succeeded)." in answer
    assert "oncue retry" not in answer


# --- priority not working -------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-22")
def test_who_is_ahead_of_a_job(oncue: Shell, shop: str) -> None:
    enter(shop, "alpha", lead=True)
    for priority in (0, 60, 60, 10, 10, 70):
        oncue("enqueue", "add", "a=1", "--priority", str(priority))
    oncue("enqueue", "add", "a=1", "--priority", "90", "--queue", "mail")
    oncue("enqueue", "add", "a=1", "--priority", "90", "--delay", "1h")
    assert codes(oncue, "5") == ["behind", "priority"]
    assert "It is behind 4 others of queue default: 3 of a higher priority and 1 older." in told(oncue, "5")
    assert "Its priority is 10; from" in told(oncue, "5")
    oncue("boost", "5", "100")
    assert codes(oncue, "5") == ["claimable", "priority"]


@pytest.mark.contract("QUE-22")
def test_priority_interrupts_nothing_that_runs(oncue: Shell, shop: str) -> None:
    for _ in range(3):
        oncue("enqueue", "add", "a=1")

    async def claim(app: Oncue) -> None:
        connected = await app.internals.connected()
        now = connected.now()
        node = dataclasses.replace(
            a_node("alpha", started_at=now, expires_at=now + HOUR), tasks=("add",), concurrency=2
        )
        await connected.store.nodes.register(node)
        assert len(await connected.store.jobs.claim(node.id, ["default"], ["add"], 2, now)) == 2

    on_database(shop, claim)
    assert codes(oncue, "3")[:2] == ["seats_taken", "priority"]
    assert codes(oncue, "1") == ["running_on"]


@pytest.mark.contract("QUE-22")
def test_a_job_behind_one_that_runs_alone_does_not_hear_that_nothing_is_in_its_way(oncue: Shell, shop: str) -> None:
    for _ in range(2):
        oncue("enqueue", "add", "a=1")

    async def claim(app: Oncue) -> None:
        connected = await app.internals.connected()
        now, store = connected.now(), connected.store
        node = dataclasses.replace(
            a_node("alpha", started_at=now, expires_at=now + HOUR), tasks=("add",), concurrency=2
        )
        await store.nodes.register(node)
        for _ in range(3):
            (claim,) = await store.jobs.claim(node.id, ["default"], ["add"], 1, now, few=1, alone=now + HOUR)
            assert await settle(store, [claim], CRASHED, at=now) == [True]
        assert [job.id for job in await store.jobs.claim(node.id, ["default"], ["add"], 1, now, alone=now + HOUR)] == [
            1
        ]

    on_database(shop, claim)
    assert codes(oncue, "2")[0] == "behind_one_alone"


# --- schedule not running -------------------------------------------------------------------------------------------


def hourly(url: str, **fields: Any) -> datetime:
    """A schedule that is due every hour, half an hour from now at the soonest; its last slot."""

    async def made(app: Oncue) -> datetime:
        from tests.cli.shop import app as shop

        app.internals.tasks.update(shop.tasks)
        last = ((await app.now()) - HOUR / 2).replace(second=0, microsecond=0)
        await app.schedules.create("hourly", f"{last.minute} * * * *", "add", {"a": 1}, created_by="ada", **fields)
        return last

    last: datetime = on_database(url, made)
    return last


@pytest.mark.contract("QUE-22")
def test_why_a_schedule_does_not_run(oncue: Shell, shop: str) -> None:
    hourly(shop)
    assert codes(oncue, "hourly") == ["not_due_yet", "no_leader", "no_node_alive"]
    enter(shop, "alpha", lead=True)
    assert codes(oncue, "hourly") == ["not_due_yet"]
    on_database(shop, lambda app: app.schedules.toggle("hourly", False, changed_by="bob"))
    assert codes(oncue, "hourly") == ["disabled"]
    answer = told(oncue, "hourly")
    assert ", by bob: disabled by hand." in answer
    assert "→ `oncue schedules enable hourly`" in answer
    on_database(shop, lambda app: app.schedules.delete("hourly", changed_by="eve"))
    assert codes(oncue, "hourly") == ["deleted"]


@pytest.mark.contract("QUE-22")
def test_a_schedule_that_code_no_longer_declares(oncue: Shell, shop: str) -> None:
    async def declared_once(app: Oncue) -> None:
        from oncue import cron

        @app.task(schedule=cron("0 * * * *"))
        async def gone() -> None: ...

        await Declaring(app.internals).synchronise()
        app.internals.tasks.clear()
        await Declaring(app.internals).synchronise()

    on_database(shop, declared_once)
    assert codes(oncue, "gone") == ["undeclared"]
    assert "no longer declares it" in told(oncue, "gone")


@pytest.mark.contract("QUE-22")
def test_a_run_is_in_the_way_of_the_next(oncue: Shell, shop: str) -> None:
    hourly(shop)
    enter(shop, "alpha", lead=True)
    on_database(shop, lambda app: app.schedules.run_now("hourly", by="bob"))
    assert codes(oncue, "hourly") == ["not_due_yet", "max_instances", "manual"]


# --- slots ----------------------------------------------------------------------------------------------------------


async def decide(store: Store, now: datetime, *decided: Decided) -> None:
    """Write rows as a leader would have, some time ago."""
    schedule = await store.schedules.get("hourly")
    assert schedule is not None
    step = Step(schedule.id, schedule.version, schedule.cursor, schedule.next_run_at, decided)
    assert await store.slots.decide([step], now, by="schedule") == [True]


@pytest.mark.contract("QUE-22")
def test_what_became_of_a_slot(oncue: Shell, shop: str) -> None:
    last = hourly(shop, max_instances=3)
    enter(shop, "alpha", lead=True)

    async def write(app: Oncue) -> None:
        connected = await app.internals.connected()
        (job,) = await connected.store.jobs.reserve(1)
        await decide(
            connected.store,
            connected.now(),
            Decided(last - 9 * HOUR, "missed", "misfire", until=last - 6 * HOUR, slots=4),
            Decided(last - 5 * HOUR, "coalesced", f"into {(last - 4 * HOUR).isoformat()}"),
            Decided(last - 4 * HOUR, "fired", job_id=job),
            Decided(last - 3 * HOUR, "skipped", "max_instances", blocked_by=job),
        )

    on_database(shop, write)

    def at(hours: float) -> tuple[str, str, str]:
        return "hourly", "--at", (last - hours * HOUR).isoformat()

    assert codes(oncue, *at(8)) == ["missed"]
    assert codes(oncue, *at(7.5)) == ["never_a_slot", "before_first_revision"]
    assert codes(oncue, *at(5)) == ["coalesced"]
    assert codes(oncue, *at(4))[:2] == ["fired", "too_late"]
    assert codes(oncue, *at(3)) == ["skipped"]
    assert "job 1 among them, which is queued now" in told(oncue, *at(3))
    assert codes(oncue, *at(-1)) == ["not_due_yet"]
    assert codes(oncue, *at(-1.5)) == ["never_a_slot"]
    assert "made for slot" in told(oncue, "1")
    assert "of hourly" in told(oncue, "1")


@pytest.mark.contract("QUE-22")
def test_slots_by_hand(oncue: Shell, shop: str) -> None:
    last = hourly(shop)
    on_database(shop, lambda app: app.schedules.trigger("hourly", last - HOUR, by="bob"))
    assert codes(oncue, "hourly", "--at", (last - HOUR).isoformat())[:2] == ["manual", "asked_by"]
    assert "bob asked for it" in told(oncue, "hourly", "--at", (last - HOUR).isoformat())
    on_database(shop, lambda app: app.schedules.backfill("hourly", last - 4 * HOUR, last, by="eve"))
    parked = codes(oncue, "hourly", "--at", (last - 2 * HOUR).isoformat())
    assert parked == ["manual", "asked_by", "waiting_for_turn", "no_leader", "no_node_alive"]


@pytest.mark.contract("QUE-22", "SLOT-4")
def test_a_slot_that_a_worker_fired(oncue: Shell, shop: str) -> None:
    """The facts that a real leader leaves behind."""
    fired: list[datetime] = []

    async def work(app: Oncue) -> None:
        ran = asyncio.Event()

        @app.task
        async def tick() -> None:
            ran.set()

        def watch(event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
            if metadata["decided"].verdict == "fired":
                fired.append(metadata["decided"].scheduled_for)

        app.internals.telemetry.subscribe(watch, "slot")
        await app.schedules.create("every second", "* * * * * *", tick)
        async with app.worker():
            await asyncio.wait_for(ran.wait(), 60)

    on_database(shop, work)
    at = fired[0].astimezone(UTC).isoformat()
    assert codes(oncue, "every second", "--at", at)[:2] == ["fired", "settled"]
    assert "→ start a worker: `oncue worker`" in told(oncue, "every second")
    assert {"no_leader", "no_node_alive", "fired"} <= set(codes(oncue, "every second"))


# --- asking ---------------------------------------------------------------------------------------------------------


def test_a_job_by_its_uid(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    uid = oncue("job", "1", "--json").json["uid"]
    answer = oncue("explain", uid, "--json").json
    assert (answer["subject"], answer["status"]) == ("job 1 (add, queue default)", "queued")


def test_what_is_not_there(oncue: Shell, sqlite_shop: str) -> None:
    oncue("migrate")
    missing = oncue("explain", "7")
    assert (missing.code, missing.err) == (3, "oncue: there is no job 7\n")
    missing = oncue("explain", "nightly")
    assert (missing.code, missing.err) == (3, "oncue: there is no schedule 'nightly'\n")
    assert oncue("explain", "nightly", "--at", "2030-01-31T09:00:00Z").code == 3
    hourly(sqlite_shop)
    wrong = oncue("explain", "hourly", "--at", "yesterday")
    assert wrong.code == 2
    assert "--at" in wrong.err
    assert oncue("explain", "hourly", "--at", "1066-10-14").code == 2
