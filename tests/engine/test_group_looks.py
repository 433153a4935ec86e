"""When a worker looks at groups: often enough to miss nothing, and not before every claim."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from oncue.engine.group_looks import APART, APART_WHEN_BUSY, GroupLooks
from oncue.model import GroupsLook

NOW = datetime(2026, 7, 1, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
NOTHING = GroupsLook(0, None)


class Found:
    """Stands for the groups of a store: what each look finds."""

    def __init__(self, *looks: GroupsLook) -> None:
        self.looks = list(looks)
        self.while_looking = lambda: None

    async def wake(self, queues: Sequence[str], limit: int, now: datetime) -> GroupsLook:
        self.while_looking()
        return self.looks.pop(0)


def looks_at(found: Found) -> GroupLooks:
    store: Any = SimpleNamespace(groups=found)
    return GroupLooks(store)


async def test_while_there_are_no_groups_looks_are_apart_and_none_is_left_out() -> None:
    looks = looks_at(Found(NOTHING))
    assert looks.is_due(NOW, is_busy=False)
    assert not await looks.look(("mail",), NOW)
    assert looks.next_at is None
    assert not looks.is_due(NOW + MOMENT, is_busy=False)
    assert looks.next_at == NOW + APART
    assert looks.is_due(NOW + APART, is_busy=False)
    assert not looks.is_due(NOW + APART, is_busy=True)
    assert looks.next_at == NOW + APART_WHEN_BUSY


async def test_a_look_lets_the_jobs_begin_that_were_just_claimed() -> None:
    looks = looks_at(Found(NOTHING))
    await looks.look(("mail",), NOW)
    later = NOW + APART * 2
    assert not looks.is_due(later, is_busy=False, has_claimed=True)
    assert looks.next_at == later + APART
    assert looks.is_due(later + APART, is_busy=False)
    assert looks.is_due(NOW + APART_WHEN_BUSY, is_busy=False, has_claimed=True)


async def test_while_there_are_groups_every_claim_looks() -> None:
    later = NOW + timedelta(seconds=3)
    looks = looks_at(Found(GroupsLook(0, later), GroupsLook(0, NOW), GroupsLook(2, None)))
    assert not await looks.look(("mail",), NOW)
    assert looks.next_at == later
    assert looks.is_due(NOW, is_busy=True)
    assert await looks.look(("mail",), NOW)
    assert await looks.look(("mail",), NOW)
    assert looks.is_due(NOW, is_busy=True)


async def test_a_job_of_a_group_that_has_ended_makes_a_look_due_at_once() -> None:
    found = Found(NOTHING, NOTHING)
    looks = looks_at(found)
    await looks.look(("mail",), NOW)
    looks.look_again()
    assert looks.is_due(NOW + MOMENT, is_busy=True)
    found.while_looking = looks.look_again  # it ended while the look was on its way
    await looks.look(("mail",), NOW + MOMENT)
    assert looks.is_due(NOW + MOMENT, is_busy=True)


async def test_a_claim_that_found_nothing_is_repeated_later_and_later() -> None:
    looks = looks_at(Found(GroupsLook(0, NOW)))
    assert await looks.look(("mail",), NOW)
    waits = []
    for _ in range(8):
        looks.claimed(0, NOW)
        assert looks.next_at is not None
        waits.append((looks.next_at - NOW) / APART)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128]
    looks.claimed(3, NOW)
    looks.claimed(0, NOW)
    assert looks.next_at == NOW + APART
