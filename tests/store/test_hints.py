"""Hints on PostgreSQL: few of them, and never one too few at the end."""

from __future__ import annotations

import asyncio
import itertools

from oncue.store.postgres.hints import Debounce, TravellingHint


class Sent:
    """Counts the hints that were sent by themselves, and lets a test wait for one."""

    def __init__(self) -> None:
        self.number = 0
        self.came = asyncio.Event()

    async def send(self) -> None:
        self.number += 1
        self.came.set()


async def taken(hints: Debounce) -> TravellingHint:
    async with asyncio.timeout(30):
        for pause in itertools.repeat(0.001):
            if (carried := hints.take()) is not None:
                return carried
            await asyncio.sleep(pause)
    raise AssertionError("the gap did not end")


async def waiting(sent: Sent, gap: float = 0.01) -> Debounce:
    """Hints of which one was sent already, and one waits for the end of the gap."""
    hints = Debounce(sent.send, gap)
    hints.take()
    hints.send()
    return hints


async def test_the_first_hint_goes_at_once_and_the_next_waits_for_the_gap() -> None:
    hints = Debounce(Sent().send, gap=60)
    assert hints.take() is not None
    assert hints.take() is None


async def test_what_was_not_told_is_told_when_the_gap_is_over() -> None:
    sent = Sent()
    hints = await waiting(sent)
    async with asyncio.timeout(30):
        await sent.came.wait()
    await hints.close()
    assert sent.number == 1


async def test_a_hint_that_travels_with_a_write_tells_of_what_waited_too() -> None:
    sent = Sent()
    hints = await waiting(sent)
    (await taken(hints)).arrived()
    await hints.close()
    assert sent.number == 0


async def test_a_write_that_came_to_nothing_leaves_the_hint_that_waited() -> None:
    sent = Sent()
    hints = await waiting(sent)
    await taken(hints)
    async with asyncio.timeout(30):
        await sent.came.wait()
    await hints.close()
    assert sent.number == 1


async def test_what_comes_while_a_hint_travels_is_told_after_it() -> None:
    sent = Sent()
    hints = await waiting(sent)
    travelling = await taken(hints)
    hints.send()
    travelling.arrived()
    await hints.close()
    assert sent.number == 1


async def test_what_waits_to_be_told_is_told_at_the_end() -> None:
    sent = Sent()
    hints = await waiting(sent, gap=60)
    await hints.close()
    assert sent.number == 1
