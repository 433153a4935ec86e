"""Deliveries to webhooks under random faults and edits; and what a crash around a request leads to."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest

from oncue.model import WEBHOOKS_QUEUE
from oncue.sim.checker import check, report
from oncue.sim.deliveries import CREW, CrashInPost, delivery, simulate_deliveries, simulate_outages
from oncue.sim.driver import finish
from oncue.sim.network import Endpoint, Manner, Network
from oncue.sim.wire import When
from oncue.sim.world import World
from oncue.verbs.webhooks import carried_of

CHUNK = 6


@pytest.mark.contract("HOOK-2", "HOOK-3", "HOOK-5", "HOOK-9", "HOOK-10", "HOOK-19")
@pytest.mark.parametrize("first", [0, 22])
def test_every_promise_is_kept_in_deliveries(first: int) -> None:
    """A simulation in which nothing goes wrong would prove nothing: it is looked at for that too."""
    reached: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        world, violations = simulate_deliveries(seed)
        assert not violations, f"seed {seed}: {report(violations)}"
        reached += met(world)
        world.close()
    heard = ("200", "404", "429", "timeout", "network")
    assert min(reached[f"answer {kind}"] for kind in heard) > 0, reached
    happened = ("crash", "lease.end", "opened", "closed", "webhook", "not begun")
    assert min(reached[kind] for kind in happened) > 0, reached
    assert min(reached[state] for state in ("succeeded", "failed", "skipped")) > 5, reached


def met(world: World) -> Counter[str]:
    events = world.history.events
    found = Counter(event.kind for event in events)
    answers = [event.fields for event in events if event.kind == "answer"]
    found.update(f"answer {told.get('status') or told['failed']}" for told in answers)
    found.update("opened" if event.fields.get("trips") else "closed" for event in events if event.kind == "group")
    found.update("not begun" for event in events if event.kind == "outcome" and not event.fields.get("begun", True))
    found.update(job.state for job in world.jobs())
    return found


@pytest.mark.contract("HOOK-5")
def test_what_is_down_is_left_alone_and_the_others_are_not() -> None:
    for seed in (0, 1, 3):
        world, violations = simulate_outages(seed)
        assert not violations, f"seed {seed}: {report(violations)}"
        opened = {event.fields["group"] for event in world.history.events if event.fields.get("trips")}
        assert opened >= {"orders", "bills", "mail"}
        assert not opened & {"stock", "news"}
        world.close()


# --- one delivery ---------------------------------------------------------------------------------------------------


def a_world(manner: Manner, *, until: float = 0.0, latency: float = 0.0) -> World:
    """A cluster with one webhook, whose endpoint has this manner for so many seconds."""
    network = Network(World(1).dice)
    world = World(1, concurrency=2, crew=CREW, network=network, elide=True, latency=latency)
    network.endpoints["orders.example"] = Endpoint(manner, world.clock.now() + timedelta(seconds=until), 2.0)
    for name in ("victim", "witness"):
        world.boot(name)
    finish(world.operator.hooks.create("orders", url="https://orders.example/", retry=["1s", "2s"], timeout=2.0))
    return world


def deliver(world: World) -> int:
    webhook = finish(world.operator.hooks.get("orders"))
    batch = delivery(world, "orders", carried_of(webhook), {"webhook": "orders", "payload": {"order": 7}})
    world.submit(batch)
    return batch.ids[0]


def requests(world: World) -> list[tuple[str, int]]:
    told = [event.fields for event in world.history.events if event.kind == "request"]
    return [(one["webhook_id"], one["status"]) for one in told]


@pytest.mark.contract("HOOK-2", "HOOK-9")
@pytest.mark.parametrize(("when", "sent"), [("before", 1), ("after", 2)])
def test_a_process_that_dies_around_a_request_sends_the_same_id_again(when: When, sent: int) -> None:
    """After the request and before the record: its receiver sees one id, twice, and the execution ends once."""
    world = a_world("well")
    for name in ("victim", "witness"):
        CrashInPost(0.0, name, when, 1.0).strike(world)
    job_id = deliver(world)
    world.run(2.0)
    assert world.network is not None
    world.network.fatal.clear()
    assert world.run_until(world.drained, 60)
    assert requests(world) == [(str(world.job(job_id).uid), 200)] * sent
    assert world.job(job_id).state == "succeeded"
    ends = [event for event in world.history.events if event.kind == "change" and event.fields["state"] == "succeeded"]
    assert len(ends) == 1
    assert world.job(job_id).retry_count == 0
    assert check(world.history.events, world.final()) == []
    world.close()


@pytest.mark.contract("HOOK-2", "HOOK-3")
def test_an_answer_that_is_lost_is_asked_for_again_by_the_ladder() -> None:
    world = a_world("silent", until=60.0)
    job_id = deliver(world)
    assert world.run_until(world.drained, 60)
    posts = [event.at for event in world.history.events if event.kind == "post"]
    waits = [(later - earlier) / 1e6 for earlier, later in pairwise(posts)]
    assert world.job(job_id).state == "failed"
    assert len(posts) == 3
    assert all(2.0 + step <= wait <= 2.0 + step + 1.0 for step, wait in zip((1.0, 2.0), waits, strict=True)), waits
    world.close()


def test_a_cancel_cuts_a_request_off() -> None:
    world = a_world("silent", until=60.0)
    job_id = deliver(world)
    world.run(1.0)
    world.errand(world.colleague.jobs.cancel(job_id))
    world.run(1.0)
    assert world.job(job_id).state == "cancelled"
    assert world.members["victim"].worker.executor.running == world.members["witness"].worker.executor.running == 0
    assert finish(world.store.groups.settings(WEBHOOKS_QUEUE, "orders")).trips == 0
    world.close()
