"""The leader's coordinator after a time without a leader, when very many cluster jobs wait for it."""

from __future__ import annotations

from datetime import timedelta

from oncue.clock import DatabaseClock
from oncue.engine.coordinator import WRITES_AT_ONCE, Coordinator
from oncue.engine.leadership import Leadership
from oncue.store import Store
from oncue.telemetry import Telemetry
from tests.store.scene import DONE, NOW, settle
from tests.store.test_cluster import a_wish, claimed, found, member

FOR_EVER = 1e9
WAITING = 3 * WRITES_AT_ONCE


async def leading(store: Store) -> tuple[Coordinator, Leadership]:
    leader = await member(store, "a")
    node = next(node for node in await store.nodes.alive() if node.id == leader)
    telemetry = Telemetry()
    leadership = Leadership(store, node, DatabaseClock(), telemetry, lambda: True, lease=FOR_EVER, poll=0.5)
    await leadership.tick(NOW)
    return Coordinator(store, node, leadership, telemetry, poll=0.5), leadership


async def test_a_long_backlog_is_taken_in_short_steps_and_what_has_its_quorum_comes_first(store: Store) -> None:
    coordinator, leadership = await leading(store)
    wishes = [a_wish() for _ in range(WAITING)]
    await store.jobs.enqueue(wishes)
    ids = [wish.ids[0] for wish in wishes]
    assert await coordinator.tick(NOW) == NOW, "more is left"
    spread = [(await found(store, number)).spread_at for number in ids]
    assert spread == [NOW] * WRITES_AT_ONCE + [None] * (WAITING - WRITES_AT_ONCE)

    held = leadership.held
    assert held is not None
    await settle(store, await claimed(store, held.holder), DONE)
    later = NOW + timedelta(seconds=1)
    assert await coordinator.tick(later) == later
    whole = [await found(store, number) for number in ids]
    decided = [one.id for one in whole if one.decided_at == later]
    assert decided, "it did not wait until all others had their parts"
    assert sum(one.spread_at == later for one in whole) == WRITES_AT_ONCE - len(decided)

    while None in [(await found(store, number)).spread_at for number in ids]:
        later = await coordinator.tick(later)
    assert await coordinator.tick(later) > later, "nothing is left to do at once"
