"""A shop with a past: jobs in every state, schedules with slots and revisions, limited queues, tokens, an audit log."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from oncue import Node, Oncue, cron, daily
from oncue.application.worker import new_node
from oncue.model import (
    SCOPES,
    Cancelled,
    Claim,
    Decided,
    Failed,
    Lost,
    Outcome,
    Progress,
    Sample,
    Skipped,
    Started,
    Step,
    Succeeded,
)
from oncue.policy.lifecycle import Ended, settle
from oncue.policy.triggers import trigger_of
from oncue.settings import load
from oncue.store.contract import LEADER
from oncue.verbs.schedules.declaring import Declaring
from oncue.webhooks import new_secret

QUEUES = ("default", "mail", "reports", "slow.lane")
TASKS = ("add", "boom", "letter", "nightly", "report", "once", "send_invoice", "send_report")
DAY = timedelta(days=1)


def shop(url: str, folder: Path) -> Oncue:
    """Tasks with all kinds of arguments. Nobody runs them."""
    app = Oncue(settings=load({"database_url": url}, environment={}, folder=folder))

    @app.task
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(queue="mail", max_retries=0, priority=10)
    async def boom(text: str = "bang") -> None:
        raise ValueError(text)

    @app.task(queue="mail", deadline="1h")
    def letter(
        to: str, when: datetime | None = None, copies: float = 1.0, tags: list[str] | None = None, more: Any = None
    ) -> dict[str, str]:
        return {"to": to}

    @app.task(queue="reports", schedule=cron("0 3 * * *", tz="Europe/Berlin"))
    async def nightly(slot: datetime) -> None: ...

    @app.task(queue="reports")
    async def report(slot: datetime, pages: int = 1) -> str:
        return f"{pages} pages"

    @app.task(delivery="at_most_once")
    async def once(number: int = 0) -> None: ...

    @app.task(schedule=daily(), max_concurrency=3)
    async def morning_digest(user: str, day: date, language: str = "en", more: Any = None) -> None: ...

    @app.cluster_task
    async def compact(node: Node, level: int = 1) -> str:
        return node.name

    # The examples of the API's own description use these.
    @app.task(queue="mail")
    async def send_invoice(order_id: int) -> None: ...

    @app.task(queue="reports")
    async def send_report(pages: int) -> None: ...

    return app


@dataclass
class World:
    """The shop, and what there is in it to ask for."""

    app: Oncue
    token: str = ""
    """What the requests are sent with."""
    token_id: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    """Further credentials: one for each scope, an expired and a revoked one."""
    spare_tokens: list[str] = field(default_factory=list)
    """Ids of tokens that may be revoked."""
    jobs: list[int] = field(default_factory=list)
    uids: list[UUID] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    webhooks: list[str] = field(default_factory=list)
    executions: list[str] = field(default_factory=list)
    """Their ids and numbers."""
    subjects: list[str] = field(default_factory=list)
    """Of the window `morning_digest`."""


async def populated(app: Oncue, *, with_tokens: bool = True) -> World:
    world = World(app)
    await Declaring(app.internals).synchronise()
    if with_tokens:
        await _issue(world)
    await _employ(world)
    await _plan(world)
    await _hook(world)
    await _invite(world)
    await _operate(world)
    known = await app.jobs.list(limit=1000)
    world.jobs, world.uids = [job.id for job in known], [job.uid for job in known]
    world.keys = [job.key for job in known if job.key is not None]
    world.schedules = [schedule.name for schedule in await app.schedules.list()]
    await _look_at_webhooks(world)
    await _look_at_subjects(world)
    return world


# --- tokens ---------------------------------------------------------------------------------------------------------


async def _issue(world: World) -> None:
    app, connected = world.app, await world.app.internals.connected()
    made, world.token = await app.tokens.create("fuzz", ["admin"])
    world.token_id = made.id
    for scope in SCOPES:
        world.tokens[scope] = (await app.tokens.create(f"only {scope}", [scope]))[1]
    token, text = await app.tokens.create("expired", ["admin"])
    old = dataclasses.replace(token, id="expiredx", expires_at=connected.now() - timedelta(seconds=1))
    await connected.store.tokens.add(old)
    await app.tokens.revoke(token.id)
    world.tokens |= {"revoked": text, "expired": text.replace(token.id, "expiredx")}
    for number in range(6):
        spare, _ = await app.tokens.create(f"spare {number % 4}", ["read"], expires="90d" if number % 2 else None)
        world.spare_tokens.append(spare.id)


# --- jobs -----------------------------------------------------------------------------------------------------------


async def _employ(world: World) -> None:
    """Jobs in every state. A node that lives through all of this holds those that run."""
    app, connected = world.app, await world.app.internals.connected()
    now = connected.now()
    node = dataclasses.replace(new_node(app.internals, now, "127.0.0.1:8081"), expires_at=now + DAY, queues=QUEUES)
    await connected.store.nodes.register(node)
    await connected.store.leases.acquire(LEADER, node.id, node.name, now, now + DAY, respect=None)
    gone = dataclasses.replace(node, id=UUID(int=7), name="gone", expires_at=now - DAY)
    await connected.store.nodes.register(gone)

    await app.find("add").aenqueue_many(range(6))
    await app.find("add").using(queue="slow.lane", key="slow").aenqueue(1)
    for level in range(3):
        await app.find("compact").using(key=f"compact {level}").aenqueue(level=level)
    await _settled(app, await _claimed(app, node.id, 4), Succeeded('{"sum": 3}'))
    await _settled(app, await _claimed(app, node.id, 1), Failed("ValueError: once is not enough"))
    await _settled(app, await _claimed(app, node.id, 1), Lost())
    await app.find("boom").aenqueue_many(["a", "b", "c"])
    await _settled(
        app, await _claimed(app, node.id, 1, "mail"), Failed("ValueError: bang \U0001f4a5 \u202e", final=True)
    )
    await _settled(app, await _claimed(app, node.id, 1, "mail"), Skipped("nothing to do"))
    await _settled(app, await _claimed(app, node.id, 1, "mail"), Cancelled())
    await app.find("letter").using(priority=90, key="letter:1").aenqueue("Ada", more={"a": [1, None, "ü\u2028"]})
    await app.find("letter").using(delay="3d", key="letter:2").aenqueue("Bob", tags=["x"] * 50)
    await app.find("letter").using(max_retries=0).aenqueue("Eve")
    running = await _claimed(app, node.id, 2, "mail")
    told = [Progress(claim.id, claim.claim_no, 0.4, "halfway \U0001f680", now) for claim in running]
    await connected.store.jobs.mark_started([Started(claim.id, claim.claim_no, now) for claim in running])
    await connected.store.jobs.report_progress(told)
    await app.find("once").aenqueue_many(range(4))
    await app.find("add").using(delay="1h").aenqueue_many(range(3))


async def _claimed(app: Oncue, node: UUID, limit: int, *queues: str) -> list[Claim]:
    connected = await app.internals.connected()
    return await connected.store.jobs.claim(node, queues or ("default",), TASKS, limit, connected.now(), rooms={})


async def _settled(app: Oncue, claims: Sequence[Claim], outcome: Outcome) -> None:
    connected = await app.internals.connected()
    now = connected.now()
    changes = [settle(Ended(claim, outcome, claim.claimed_at, now), Random(1)) for claim in claims]
    assert all(await connected.store.jobs.apply(changes, now))


# --- schedules ------------------------------------------------------------------------------------------------------


async def _plan(world: World) -> None:
    app = world.app
    await app.schedules.create("hourly", "0 * * * *", "add", {"a": 1}, max_instances=3, missed="each")
    await app.schedules.create("at most once", "30 1 * * *", "once", description="with a space, and ü")
    await app.schedules.create("often", "@every 90s", "add", {"a": 2}, enabled=False)
    await app.schedules.create("Ünïcode ßchedule", cron("0 2 * * SUN", tz="America/New_York", dst="all"), "report")
    await app.schedules.create("seconds", "*/10 * * * * *", "add", {"a": 3}, grace="5s", missed="none")
    await app.schedules.create("rare", "0 0 29 2 *", "add", {"a": 4}, queue="slow.lane", priority=5)
    await app.schedules.create("42nd", "@daily", "add", {"a": 5})
    await app.schedules.create("gone", "@hourly", "add", {"a": 6})
    await app.schedules.change("hourly", rule="15 * * * *", priority=7)
    await app.schedules.change("hourly", rule="0 * * * *", description="as it was")
    await app.schedules.run_now("gone")
    await app.schedules.delete("gone")
    await app.schedules.toggle("often", True)
    await _decide(app)


async def _decide(app: Oncue) -> None:
    """Slots with every verdict, and runs of them."""
    connected = await app.internals.connected()
    now = connected.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    await app.schedules.backfill("hourly", hour - timedelta(hours=9), hour - timedelta(hours=5))
    schedule = await app.schedules.get("hourly")
    (job,) = await connected.store.jobs.reserve(1)
    decided = [
        Decided(hour - timedelta(hours=40), "missed", "late", until=hour - timedelta(hours=20), slots=21),
        Decided(hour - timedelta(hours=4), "coalesced", "latest", until=hour - timedelta(hours=3), slots=2),
        Decided(hour - timedelta(hours=2), "skipped", "overlap"),
        Decided(hour - timedelta(hours=1), "fired", None, job),
    ]
    step = Step(schedule.id, schedule.version, schedule.cursor, trigger_of(schedule).after(now), decided)
    assert await connected.store.slots.decide([step], now, by="fuzz") == [True]
    await app.schedules.run_now("at most once")
    (run,) = (await app.jobs.list(["queued"], task="once", limit=1))[:1]
    await app.jobs.set_status(run.id, "failed")


# --- webhooks -------------------------------------------------------------------------------------------------------


async def _hook(world: World) -> None:
    """Webhooks of all kinds, and deliveries in several states."""
    app = world.app
    secret: dict[str, Any] = {"headers": {"Authorization": "Bearer s3cret"}, "secrets": [new_secret(bytes)]}
    await app.webhooks.create("orders", url="https://shop.example/hooks/orders?token=s3cret", **secret)
    await app.webhooks.create("Ünïcode/ßlash", url="http://shop.example:8080/", method="GET", timeout=5)
    await app.webhooks.create("off", url="https://shop.example/", enabled=False, body='{"order": {{payload.order}}}')
    await app.webhooks.create("gone", url="https://shop.example/")
    for number in range(6):
        await app.webhooks.deliver("orders", {"order": number}, delay="1h" if number % 2 else None)
    await app.webhooks.deliver("gone", {"order": 7})
    await app.adeliver("https://other.example/hooks?a=b", {"order": 8}, key="bare")
    await app.webhooks.delete("gone")
    await app.schedules.create("to orders", "*/5 * * * *", webhook="orders")
    await app.schedules.run_now("to orders")
    first, second, *_ = await app.webhooks.executions("orders")
    await app.jobs.set_status(first.id, "failed")
    await app.jobs.set_status(second.id, "success")
    await app.webhooks.retry(second.id)


async def _look_at_webhooks(world: World) -> None:
    """Look at what webhooks and deliveries there are."""
    app = world.app
    world.webhooks = [webhook.name for webhook in await app.webhooks.list(limit=1000)][-40:] or ["nobody's"]
    sent = await app.webhooks.executions(limit=40)
    world.executions = [name for job in sent for name in (str(job.id), str(job.uid))] or ["7"]


# --- windows --------------------------------------------------------------------------------------------------------

WINDOW = "morning_digest"


async def _invite(world: World) -> None:
    """Subjects of all kinds: one is removed, and some have a day that is open or over."""
    windows, now = world.app.windows, await world.app.now()
    for number, tz in enumerate((None, "Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12")):
        await windows.add(WINDOW, f"user {number}", at="23:59" if number % 2 else "00:10", tz=tz)
    await windows.add(WINDOW, "ü/run", at="12:00", weekdays="MON-FRI", days_off=["2030-12-24"], args={"more": [1]})
    await windows.add(WINDOW, "gone", at="12:00")
    await windows.remove(WINDOW, "gone")
    for name in [one.name for one in await windows.subjects(WINDOW) if one.cutoff_at > now][:2]:
        await windows.run_now(WINDOW, name)


async def _look_at_subjects(world: World) -> None:
    """Look at whom the window opens for."""
    found = await world.app.windows.subjects(WINDOW, limit=1000)
    world.subjects = [subject.name for subject in found][-40:] or ["nobody"]


# --- what operators did ---------------------------------------------------------------------------------------------


async def _operate(world: World) -> None:
    app, connected = world.app, await world.app.internals.connected()
    await app.queues.limit("mail", globally=50, per_node=5)
    await app.queues.limit("reports", globally=1)
    await app.queues.pause("reports")
    waiting = await app.jobs.list(["queued", "scheduled"], limit=4)
    await app.jobs.cancel(waiting[0].id)
    await app.jobs.prioritize(waiting[1].id, 77)
    running = await app.jobs.list(["running"], limit=1)
    await app.jobs.cancel(running[0].id)
    await connected.store.counters.keep_sample(Sample(connected.now(), await connected.store.counters.count(1000)))


async def refreshed(world: World) -> None:
    """Look again at what there is: requests have made and unmade things meanwhile."""
    app = world.app
    newest, kept = await app.jobs.list(limit=40), world.jobs[:40]
    world.jobs = list(dict.fromkeys([*kept, *(job.id for job in newest)]))
    world.uids = [job.uid for job in newest] or world.uids
    world.schedules = [schedule.name for schedule in await app.schedules.list(limit=1000)][-40:] or world.schedules
    await _look_at_webhooks(world)
    await _look_at_subjects(world)
    ours = {world.token_id, *(text.split("_")[1] for text in world.tokens.values())}
    tokens = [token.id for token in await app.tokens.list() if token.id not in ours and token.revoked_at is None]
    world.spare_tokens = tokens[-20:]
