"""The instants of the contract, in virtual time: the ladder, the minute slots, and what a long outage leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from webhook_cron.api import job_api
from webhook_cron.settings import load

from oncue import Oncue
from oncue.server.api import AccessMode
from oncue.server.health import Readiness
from oncue.testing import Kit, use

START = datetime(2026, 11, 18, 9, 0, 30, tzinfo=UTC)
URL = "https://shop.example/hook"


class Cron:
    """The program's API on the test kit's store."""

    def __init__(self, app: Oncue, kit: Kit) -> None:
        self.kit = kit
        api = job_api(app, Readiness(app), CollectorRegistry(), AccessMode.TRUSTED)
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://cron", verify=False)

    async def make(self, schedule: str, **fields: Any) -> dict[str, Any]:
        return await self._asked("POST", "/jobs", {"name": "a", "url": URL, "schedule": schedule, **fields})

    async def executions(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Oldest first."""
        told = await self._asked("GET", f"/jobs/{job['id']}/executions?limit=1000")
        found: list[dict[str, Any]] = told["executions"][::-1]
        return found

    async def execution(self, execution: str) -> dict[str, Any]:
        return await self._asked("GET", f"/executions/{execution}")

    async def _asked(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        reply = await self._http.request(method, path, json=body)
        assert reply.is_success, reply.text
        answer: dict[str, Any] = reply.json()
        return answer

    @property
    def sent_after(self) -> list[float]:
        """When requests were sent, in seconds after the first."""
        sent = [request.at for request in self.kit.webhooks.sent]
        return [(at - sent[0]).total_seconds() for at in sent]


@pytest.fixture
def cron() -> Iterator[Cron]:
    app = Oncue(name="webhook_cron", settings=load({"DATABASE_URL": "sqlite:///unused.db"}))
    with use(app, now=START) as kit:
        yield Cron(app, kit)


@pytest.mark.contract("HOOK-2", "HOOK-9")
async def test_four_attempts_at_the_times_of_the_ladder_and_no_more(cron: Cron) -> None:
    job = await cron.make("0 10 * * *")
    cron.kit.webhooks.answer("a", 500, "timeout", 503, 500, 500, 500)
    await cron.kit.aelapse("5h")
    (told,) = await cron.executions(job)
    assert told["status"] == "failed"
    # A time-out ends after 30 s, and the wait counts from there.
    assert cron.sent_after == pytest.approx([0, 30, 30 + 30 + 120, 30 + 30 + 120 + 600], abs=0.01)
    attempts = (await cron.execution(told["id"]))["attempts"]
    assert [attempt["status_code"] for attempt in attempts] == [500, None, 503, 500]


@pytest.mark.contract("HOOK-2")
async def test_a_job_may_have_another_ladder(cron: Cron) -> None:
    await cron.make("0 10 * * *", retry=["1s", 2, "3m"])
    cron.kit.webhooks.answer("a", *[500] * 4)
    await cron.kit.aelapse("5h")
    assert cron.sent_after == pytest.approx([0, 1, 3, 183], abs=0.01)


@pytest.mark.contract("HOOK-2")
async def test_a_dead_endpoint_opens_no_breaker(cron: Cron) -> None:
    """Six executions fail in a row, and each has its attempts at the times of its own ladder."""
    job = await cron.make("*/1 10 * * *")
    cron.kit.webhooks.answer("a", *["network"] * 300)
    await cron.kit.aelapse("80m")
    executions = await cron.executions(job)
    for told in executions[:6]:
        attempts = (await cron.execution(told["id"]))["attempts"]
        begun = [datetime.fromisoformat(attempt["started_at"]) for attempt in attempts]
        assert [(at - begun[0]).total_seconds() for at in begun] == pytest.approx([0, 30, 150, 750], abs=1)


@pytest.mark.contract("HOOK-1", "HOOK-15")
async def test_slots_are_whole_minutes_unless_seconds_are_declared(cron: Cron) -> None:
    minutes = await cron.make("* * * * *")
    seconds = await cron.make("*/20 * * * * *", name="b")
    await cron.kit.aelapse("3m")
    whole = [told["scheduled_at"] for told in await cron.executions(minutes)]
    assert whole == ["2026-11-18T09:01:00Z", "2026-11-18T09:02:00Z", "2026-11-18T09:03:00Z"]
    finer = [told["scheduled_at"] for told in await cron.executions(seconds)]
    assert len(finer) == len(set(finer)) == 9


@pytest.mark.contract("HOOK-15")
async def test_a_tick_fires_a_thousand_slots_and_tells_what_it_cut(
    cron: Cron, caplog: pytest.LogCaptureFixture
) -> None:
    job = await cron.make("* * * * *")
    cron.kit.clock.advance(timedelta(minutes=1100).total_seconds())  # nobody has looked for so long
    await cron.kit.aelapse("1s")
    assert "scheduler: a has more than 1000 slots due; the rest follows" in caplog.text
    assert len(await cron.executions(job)) == 1000, "as many as a page has"
    assert Counter(found.state for found in cron.kit.jobs()) == {"succeeded": 1100}
