"""Attempts that begin together ask the database together, and each sees what stood when it began."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from oncue.errors import StoreUnavailable
from oncue.policy.deliveries import LONGEST_ATTEMPT
from oncue.policy.webhooks import LONGEST_TIMEOUT
from oncue.webhooks import lookups as module
from oncue.webhooks import slow_endpoints
from oncue.webhooks.delivery import TRIP_SECONDS
from oncue.webhooks.lookups import EndpointNow, Lookups


class Rows:
    """The two verbs that look-ups ask, over values that a test changes."""

    def __init__(self) -> None:
        self.urls = {"orders": "first", "bills": "first"}
        self.asked: list[list[str]] = []
        self.was_asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.error: Exception | None = None
        self.store = SimpleNamespace(webhooks=self, groups=self)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def get(self, names: Sequence[str]) -> list[Any]:
        self.asked.append(list(names))
        self.was_asked.set()
        found = [SimpleNamespace(name=name, url=self.urls[name]) for name in names if name in self.urls]
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return found

    async def tripped(self, queue: str, groups: Sequence[str]) -> dict[str, tuple[int, datetime | None]]:
        return {group: (2, None) for group in groups if group == "bills"}


def looking(rows: Rows) -> Lookups:
    async def connected() -> Any:
        return rows

    return Lookups(connected)


def seen(found: EndpointNow) -> tuple[str | None, int]:
    return None if found.webhook is None else found.webhook.url, found.trips


async def test_attempts_that_begin_together_share_a_question() -> None:
    rows = Rows()
    lookups = looking(rows)
    names = ["orders", "bills", "orders", "unknown"]
    found = await asyncio.gather(*(lookups.find(name, name) for name in names), lookups.find(None, "https://a:443"))
    assert [seen(one) for one in found] == [("first", 0), ("first", 2), ("first", 0), (None, 0), (None, 0)]
    assert rows.asked == [["bills", "orders", "unknown"]]


async def test_an_attempt_that_begins_after_a_change_sees_it() -> None:
    """A question is on its way when the URL changes: its answer is not for the attempts that begin then."""
    rows = Rows()
    lookups = looking(rows)
    rows.answers.clear()
    before = asyncio.create_task(lookups.find("orders", "orders"))
    await rows.was_asked.wait()
    rows.urls["orders"] = "second"
    after = [asyncio.create_task(lookups.find("orders", "orders")) for _ in range(3)]
    await asyncio.sleep(0)
    rows.answers.set()
    assert [seen(one)[0] for one in await asyncio.gather(before, *after)] == ["first", "second", "second", "second"]
    assert len(rows.asked) == 2


async def test_a_database_that_fails_is_told_to_all_and_asked_again_by_the_next() -> None:
    rows = Rows()
    lookups = looking(rows)
    rows.error = StoreUnavailable("gone")
    told = await asyncio.gather(*(lookups.find("orders", "orders") for _ in range(2)), return_exceptions=True)
    assert [type(one) for one in told] == [StoreUnavailable, StoreUnavailable]
    rows.error = None
    assert seen(await lookups.find("orders", "orders")) == ("first", 0)


async def test_an_attempt_that_is_stopped_keeps_no_other_waiting() -> None:
    rows = Rows()
    lookups = looking(rows)
    rows.answers.clear()
    stopped, other = (asyncio.create_task(lookups.find("orders", "orders")) for _ in range(2))
    await rows.was_asked.wait()
    stopped.cancel()
    rows.answers.set()
    assert seen(await other) == ("first", 0)
    assert seen(await lookups.find("bills", "bills")) == ("first", 2)


@pytest.mark.contract("HOOK-4", "HOOK-12")
async def test_a_database_that_does_not_answer_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the look-up would use up the time of the request, and an answered delivery be cut off."""
    monkeypatch.setattr(module, "ASK_SECONDS", 0.0)
    rows = Rows()
    lookups = looking(rows)
    rows.answers.clear()
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        await lookups.find("orders", "orders")


@pytest.mark.contract("HOOK-4")
def test_the_longest_attempt_has_time_for_all_that_it_does() -> None:
    held = slow_endpoints.HELD_SECONDS * slow_endpoints.LOOKS
    assert held + 2 * module.ASK_SECONDS + LONGEST_TIMEOUT + TRIP_SECONDS <= LONGEST_ATTEMPT
