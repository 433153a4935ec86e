"""Random deliveries to webhooks that are edited, with endpoints of all manners, under random faults; then peace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from oncue.errors import OncueError
from oncue.model import DELIVER, PARKED, WEBHOOKS_QUEUE, Batch
from oncue.policy.deliveries import Carried, Form, carried
from oncue.policy.retry import Ladder
from oncue.policy.urls import origin
from oncue.sim.checker import Violation
from oncue.sim.checker.leaders import LEASES_TO_SETTLE
from oncue.sim.driver import finish
from oncue.sim.faults import WITH_GROUPS, Fault, Struck, heal, random_faults
from oncue.sim.member import Crew
from oncue.sim.network import MANNERS, Endpoint, Network
from oncue.sim.runs import DISTURBED, LATENCIES, insisting, operate, verdict
from oncue.sim.wire import When
from oncue.sim.world import NOTICED, PACE, WORLD, World
from oncue.verbs.webhooks import carried_of

CREW = Crew(queues=(WEBHOOKS_QUEUE,), tasks=(DELIVER,))
HOOKS = ("orders", "bills", "mail", "stock", "news")
LADDERS = (("1s",), ("1s", "2s"), ("0.5s", "3s", "5s"), ("30s", "2m", "10m"))
ASKED = (1.0, 3.0, 20.0, 4000.0, 90_000.0)
"""Seconds that endpoints want to be left alone: some over an hour."""
WEBHOOK_CALLS = ("webhooks.get", "groups.tripped", "groups.trip", "groups.trip", "queues.default_limits")
STRUCK = Struck((*WITH_GROUPS.calls, *(6 * WEBHOOK_CALLS)), (*WITH_GROUPS.wishes, "webhooks.write", "webhooks.write"))
TEMPLATES = 1000
WITHIN = 24 * 3600.0
"""Seconds after the last fault within which every delivery has ended: an hour of Retry-After for each step of a ladder,
and ten minutes of a breaker for each delivery that waits behind it."""


@dataclass(frozen=True, slots=True)
class CrashInPost:
    """The process dies with its next request: before it leaves, or when its answer is there and nothing is written."""

    at: float
    node: str
    when: When
    down: float

    def strike(self, world: World) -> None:
        member = world.members[self.node]
        world.fault("crash", self.node, self.down)
        member.restarts_after = self.down
        assert world.network is not None
        world.network.fatal[member.label] = self.when


def simulate_deliveries(
    seed: int, *, nodes: int = 3, deliveries: int = 24, edits: int = 10
) -> tuple[World, list[Violation]]:
    """A cluster that delivers to webhooks and to bare URLs, under random edits and random faults, and then in peace."""
    dice = Random(f"deliveries {seed}")
    network = Network(Random(f"network {seed}"), dice.choice((0, 2, 3, 5)), dice.choice((1, 2, 10)))
    world = World(
        seed,
        crew=CREW,
        concurrency=dice.choice((2, 4, 8)),
        hints=dice.choice((0.0, 0.5, 1.0)),
        latency=dice.choice(LATENCIES),
        own_clocks=dice.random() < 0.5,
        elide=True,
        network=network,
    )
    world.history.add(WORLD, "breaker", threshold=network.threshold)
    names = [f"node{number}" for number in range(nodes)]
    for name in names:
        world.boot(name)
    for number, name in enumerate(HOOKS[: dice.randint(2, len(HOOKS))]):
        host = _endpoint(world, dice, number)
        finish(world.operator.hooks.create(name, url=f"https://{host}/{name}", **_fields(dice)))
    _schedules(world, dice)
    for fault in (*random_faults(dice, names, DISTURBED, STRUCK), *_crashes_in_posts(dice, names)):
        world.after(fault.at, lambda fault=fault: fault.strike(world))  # type: ignore[misc]
    for _ in range(deliveries):
        world.after(dice.uniform(0, DISTURBED * 0.75), lambda: deliver(world, dice))
    for _ in range(dice.randint(edits // 2, edits)):
        world.after(dice.uniform(2, DISTURBED), lambda: _meddle(world, dice))
    for _ in range(dice.randint(0, 3)):
        world.after(dice.uniform(2, DISTURBED), lambda: operate(world, dice))
    world.run(DISTURBED)
    network.fatal.clear()
    heal(world)
    world.run(NOTICED)  # what operators did last is still on its way
    in_peace(world, dice)
    return world, verdict(world, WITHIN)


def simulate_outages(seed: int) -> tuple[World, list[Violation]]:
    """Endpoints that fail for a while, with breakers, and nothing else that is wrong."""
    dice = Random(f"outages {seed}")
    network = Network(Random(f"network {seed}"), threshold=3)
    world = World(seed, crew=CREW, concurrency=8, latency=dice.choice((0.0, 0.3)), elide=True, network=network)
    world.history.add(WORLD, "breaker", threshold=network.threshold)
    for name in ("node0", "node1"):
        world.boot(name)
    for number, (name, manner) in enumerate(zip(HOOKS, ("down", "silent", "refusing", "well"), strict=False)):
        host = f"host{number}.example"
        until = world.clock.now() + timedelta(seconds=dice.uniform(60, 150))
        network.endpoints[host] = Endpoint(manner, until)  # type: ignore[arg-type]
        finish(world.operator.hooks.create(name, url=f"https://{host}/", retry=["2s", "30s", "2m"], timeout=2.0))
    world.history.add(WORLD, "faults.over")
    world.run(LEASES_TO_SETTLE * PACE.lease + 1.0)
    for _ in range(24):
        world.after(dice.uniform(0, 30), lambda: deliver(world, dice))
    world.run(32.0)
    world.run_until(world.drained, WITHIN, look=20.0)
    world.run(2.0)
    return world, verdict(world, WITHIN)


def _endpoint(world: World, dice: Random, number: int) -> str:
    """A new endpoint; its host."""
    assert world.network is not None
    until = world.clock.now() + timedelta(seconds=dice.choice((5.0, 15.0, 40.0, 120.0)))
    manner = "well" if dice.random() < 0.2 else dice.choice(MANNERS)
    host = f"host{number}.example"
    world.network.endpoints[host] = Endpoint(manner, until, dice.choice(ASKED))
    return host


def _fields(dice: Random) -> dict[str, Any]:
    return {"retry": list(dice.choice(LADDERS)), "body": template(dice), "timeout": dice.choice((1.0, 2.0, 5.0))}


def template(dice: Random) -> str | None:
    """A body that no other webhook has at the same time; or what is sent if nothing is said."""
    if dice.random() < 0.2:
        return None
    told = '"id": {{ id }}, "made": {{ created_at }}, "payload": {{ payload }}'
    return f'{{"template": {dice.randrange(TEMPLATES)}, {told}}}'


def _schedules(world: World, dice: Random) -> None:
    for webhook in finish(world.store.webhooks.page()):
        if dice.random() < 0.4:
            rule = dice.choice(("@every 2s", "@every 5s", "*/3 * * * * *"))
            terms: dict[str, Any] = {
                "missed": dice.choice(("latest", "each", "none")),
                "max_instances": dice.choice((1, 50)),
            }
            finish(world.operator.schedules.create(f"to {webhook.name}", rule, webhook=webhook.name, **terms))


def _crashes_in_posts(dice: Random, names: list[str]) -> list[Fault]:
    return [
        CrashInPost(
            dice.uniform(1, DISTURBED), dice.choice(names), dice.choice(("before", "after")), dice.choice((1, 6))
        )
        for _ in range(dice.choice((0, 0, 1, 3)))
    ]


# --- deliveries by hand ---------------------------------------------------------------------------------------------


def deliver(world: World, dice: Random) -> None:
    """A client delivers something: to a webhook as it is stored when the client looks, or to a bare URL."""
    assert world.network is not None
    payload = {"number": dice.randrange(10**6)}
    if dice.random() < 0.2:
        url = f"https://{dice.choice(list(world.network.endpoints))}/bare"
        told = carried(Form(), Ladder(*dice.choice(LADDERS)))
        world.submit(delivery(world, origin(url), told, {"url": url, "payload": payload}))
        return
    name = dice.choice([webhook.name for webhook in finish(world.store.webhooks.page())] or list(HOOKS[:1]))
    count = dice.choice((1, 1, 1, 4))

    async def look_and_submit() -> None:
        webhook = await world.colleague.hooks.get(name)
        for _ in range(count):
            world.submit(delivery(world, name, carried_of(webhook), {"webhook": name, "payload": payload}))

    world.errand(look_and_submit())


def delivery(world: World, group: str, told: Carried, arguments: dict[str, Any], delay: float = 0.0) -> Batch:
    now = world.server.now()
    visible_at = now + timedelta(seconds=delay)
    return Batch(
        task=DELIVER, queue=WEBHOOKS_QUEUE, priority=0, state="scheduled" if delay else "queued",
        options=told.options, max_retries=told.max_retries, max_runtime=told.max_runtime, created_at=now,
        visible_at=visible_at, deadline_at=None, enqueued_by="sim", retry_of=None,
        ids=finish(world.operator.store.jobs.reserve(1)), args=[json.dumps(arguments)], keys=None, group=group,
    )  # fmt: skip


# --- operators ------------------------------------------------------------------------------------------------------


def _meddle(world: World, dice: Random) -> None:
    """An operator edits a webhook, or holds its deliveries back."""
    assert world.network is not None
    hooks, network = world.colleague.hooks, world.network
    found = finish(world.store.webhooks.page())
    if not found:
        return
    name = dice.choice(found).name
    url = f"https://{dice.choice(list(network.endpoints))}/{name}/{dice.randrange(100)}"
    fields = dice.choice(({"url": url}, {"url": url}, _fields(dice), {"enabled": dice.random() < 0.5}))
    pause = dice.choice((None, 0.5, 3.0, 60.0))
    deeds: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: hooks.change(name, **fields),
        lambda: hooks.change(name, **fields),
        lambda: hooks.change(name, **fields),
        lambda: hooks.toggle(name, dice.random() < 0.5),
        lambda: hooks.pause(name, for_=pause),
        lambda: hooks.resume(name),
        lambda: _deleted(world, name, {"url": url, **_fields(dice)} if dice.random() < 0.7 else None, dice),
    ]
    world.errand(dice.choice(deeds)())


async def _deleted(world: World, name: str, anew: dict[str, Any] | None, dice: Random) -> None:
    """An operator deletes a webhook and its schedule; perhaps another one of the same name is made."""
    with contextlib.suppress(OncueError):  # there may be none
        await world.colleague.schedules.delete(f"to {name}")
    await world.colleague.hooks.delete(name)
    if anew is not None:
        made = dict(anew)
        world.after(
            dice.choice((0.0, 0.5, 3.0)),
            lambda: world.errand(insisting(lambda: world.colleague.hooks.create(name, **made))),
        )


# --- peace ----------------------------------------------------------------------------------------------------------


def in_peace(world: World, dice: Random) -> None:
    """No schedule fires any more, no webhook is held back; some deliveries more; then everything ends."""
    for schedule in finish(world.store.schedules.page()):
        finish(world.operator.schedules.toggle(schedule.name, False))
    for name in HOOKS:
        _let_go(world, name)
    world.run(LEASES_TO_SETTLE * PACE.lease + 1.0)
    for _ in range(6):
        world.after(dice.uniform(0, 5), lambda: deliver(world, dice))
    world.run(8.0)
    world.run_until(world.drained, WITHIN, look=60.0)
    world.run(2.0)


def _let_go(world: World, name: str) -> None:
    """End an operator's pause, of a deleted webhook too. What the breaker set stays."""
    settings = finish(world.store.groups.settings(WEBHOOKS_QUEUE, name))
    if settings.paused_until is not None and (not settings.trips or settings.paused_until >= PARKED):
        finish(world.operator.queues.resume(WEBHOOKS_QUEUE, group=name))
