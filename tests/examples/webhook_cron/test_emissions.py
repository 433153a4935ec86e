"""What is told of executions that find no room: not of those that wait for their own endpoint, or that others begin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from webhook_cron import emissions
from webhook_cron.emissions import Emissions
from webhook_cron.settings import load

from oncue import Oncue
from oncue.model import DELIVER, Decided
from oncue.server.health import Readiness

SLOT = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)
LATER = datetime(2026, 11, 18, 9, 1, tzinfo=UTC)


class Bus:
    """A scheduler that emits, beside a worker all of whose seats are taken and whose buffer holds two."""

    def __init__(self) -> None:
        settings = load({"DATABASE_URL": "sqlite:///x", "ONCUE_BUFFER": "2", "ONCUE_WEBHOOKS_PER_ENDPOINT": "2"})
        self.app = Oncue(name="webhook_cron", settings=settings)
        node = SimpleNamespace(executor=SimpleNamespace(concurrency=1, running=1, aside=0, waiting=0))
        self.emissions = Emissions(self.app, cast("Readiness", SimpleNamespace(node=node)))
        self._ids = iter(range(1, 100))

    def emit(self, name: str) -> int:
        job_id = next(self._ids)
        decided = Decided(SLOT, "fired", None, job_id)
        self.app.internals.telemetry.emit("slot", {"slots": 1, "late": 0.0}, schedule=name, decided=decided)
        return job_id

    def begin(self, job_id: int) -> None:
        self.app.internals.telemetry.emit("job.start", {}, claim=SimpleNamespace(id=job_id, task=DELIVER))

    def survey(self, queued: int, sampled_at: datetime) -> None:
        queues = [SimpleNamespace(name="webhooks", queued=queued)]
        found = SimpleNamespace(at=LATER, sampled_at=sampled_at, queues=queues)
        self.app.internals.telemetry.emit("survey", {}, survey=found)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    monkeypatch.setattr(emissions, "EMIT_SECONDS", 0.0)
    return Bus()


async def turn() -> None:
    """Let what was put off until now be called."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.contract("HOOK-8", "HOOK-21")
async def test_only_what_found_no_room_in_time_is_told(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b"):
        bus.emit(name)
    late, quick = bus.emit("c"), bus.emit("d")
    bus.begin(quick)
    await turn()
    assert bus.emissions.errors == 1
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.partition(" execution=")[0] for line in told] == ["eventbus: buffer full,", "scheduler: ORPHAN"]
    assert all(f"{late:012x} job=c" in line for line in told)
    bus.begin(late)
    bus.begin(1)
    bus.emit("e")
    await turn()
    assert bus.emissions.errors == 1, "there is room again"


@pytest.mark.contract("HOOK-5", "HOOK-21")
async def test_what_waits_for_its_own_endpoint_takes_no_room(bus: Bus) -> None:
    for _ in range(5):
        bus.emit("slow")
    await turn()
    assert bus.emissions.errors == 0


async def test_what_another_process_begins_takes_no_room_here(bus: Bus) -> None:
    for name in ("a", "b"):
        bus.emit(name)
    bus.survey(0, sampled_at=SLOT)  # counted before they were emitted
    bus.emit("c")
    await turn()
    assert bus.emissions.errors == 1
    bus.survey(1, sampled_at=LATER)
    bus.emit("d")
    await turn()
    assert bus.emissions.errors == 1, "two of three have begun elsewhere"
