"""`webhook_cron serve` as a process: signals, restarts, and a database that goes away."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.app.proxy import Proxy
from tests.examples.webhook_cron.conftest import MakeProgram
from tests.examples.webhook_cron.program import EVERY_SECOND, Program
from tests.examples.webhook_cron.receiver import Receiver


@pytest.mark.contract("HOOK-7")
def test_a_signal_lets_what_is_being_delivered_end(program: Program, receiver: Receiver) -> None:
    (service,) = program._services
    gate = receiver.hold("/a")
    program.make("a", receiver.url("/a"))
    execution = program.trigger("a")
    program.until(lambda: receiver.at("/a"), "it is called")
    service.process.send_signal(signal.SIGTERM)
    program.until(lambda: "draining: 1 running" in service.said, "it drains")
    assert program.execution(execution)["status"] == "emitted", "it answers until the end"
    gate.set()
    assert service.process.wait(30) == 0
    assert service.said.index("gave up the lead") < service.said.index("draining"), "the scheduler stops first"
    program.serve()
    assert program.execution(execution)["status"] == "delivered"
    assert len(receiver.at("/a")) == 1


@pytest.mark.contract("HOOK-7")
def test_what_does_not_end_in_the_drain_time_is_released_uncharged(
    make_program: MakeProgram, cron_url: str, receiver: Receiver
) -> None:
    """The time itself is 30 s by default (`test_settings.py`)."""
    program = make_program(cron_url)
    service = program.serve(ONCUE_DRAIN_TIMEOUT="300ms")
    gate = receiver.hold("/a")
    program.make("a", receiver.url("/a"), retry=[])
    execution = program.trigger("a")
    program.until(lambda: receiver.at("/a"), "it is called")
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(60) == 0, "it does not wait for the answer"
    assert "the drain time is over: 1 jobs are given back" in service.said
    gate.set()
    program.serve()
    assert program.ended(execution)["status"] == "delivered", "it has one attempt, which was not used up"
    assert [call.id for call in receiver.at("/a")] == [execution] * 2


@pytest.mark.contract("HOOK-7")
def test_a_second_signal_stops_at_once(make_program: MakeProgram, sqlite_url: str, receiver: Receiver) -> None:
    program = make_program(sqlite_url)
    service = program.serve()
    receiver.hold("/a")
    program.make("a", receiver.url("/a"))
    program.trigger("a")
    program.until(lambda: receiver.at("/a"), "it is called")
    service.process.send_signal(signal.SIGINT)
    program.until(lambda: "draining" in service.said, "it drains")

    def ended() -> bool:
        service.process.send_signal(signal.SIGTERM)  # two at once count as one
        return service.process.poll() is not None

    program.until(ended, "it stops")
    assert service.process.poll() == 128 + signal.SIGTERM


@pytest.mark.contract("HOOK-9", "HOOK-10", "HOOK-2")
def test_a_ladder_goes_on_after_a_kill_where_it_was(program: Program, receiver: Receiver) -> None:
    (service,) = program._services
    receiver.answers("/a", 500, 503, 200)
    program.make("a", receiver.url("/a"), retry=["50ms", "2s", "50ms"])
    execution = program.trigger("a")
    program.until(lambda: len(program.execution(execution)["attempts"]) == 2, "two attempts were made")
    due = program.execution(execution)["next_attempt_at"]
    service.kill()
    assert len(receiver.at("/a")) == 2
    program.serve()
    told = program.ended(execution)
    assert [attempt["status_code"] for attempt in told["attempts"]] == [500, 503, 200]
    assert told["attempts"][2]["started_at"] >= due, "the backoff is kept"
    assert {call.id for call in receiver.at("/a")} == {execution}


@pytest.mark.contract("HOOK-1", "HOOK-8")
def test_nothing_is_lost_and_nothing_emitted_twice_by_kills(program: Program, receiver: Receiver) -> None:
    job = program.make("a", receiver.url("/a"), schedule=EVERY_SECOND)
    for kills in (1, 2):
        seen = len(receiver.calls)
        program.until(lambda seen=seen: len(receiver.calls) > seen, "it is called")  # type: ignore[misc]
        program._services[-1].kill()
        program.serve()
        assert len(program._services) == 1 + kills
    program.asked("POST", "/api/admin/scheduled-jobs/a/toggle", {"enabled": False})
    program.until(lambda: all(one["status"] != "emitted" for one in program.executions(job)), "all are delivered")
    told = program.executions(job)
    slots = sorted(one["scheduled_at"] for one in told)
    assert len(set(slots)) == len(slots)
    assert {one["status"] for one in told} == {"delivered"}
    assert {call.id for call in receiver.calls} == {one["id"] for one in told}
    audit = program.asked("GET", "/api/admin/scheduled-jobs/a/audit?problems=true")
    assert audit["fates"] == [], "every slot was decided"


@pytest.mark.contract("HOOK-12")
async def test_it_outlives_its_database(make_program: MakeProgram, empty_postgres: str, receiver: Receiver) -> None:
    async with Proxy(empty_postgres) as proxy:
        program = make_program(proxy.url)
        service = await asyncio.to_thread(program.serve)
        await asyncio.to_thread(program.make, "a", receiver.url("/a"), schedule=EVERY_SECOND)
        await asyncio.to_thread(program.until, lambda: receiver.calls, "it is called")
        proxy.away = True
        proxy.hang_up()
        await asyncio.to_thread(_look_while_it_is_away, program, receiver)
        assert "everything is tried again until it answers" in service.said
        seen = len(receiver.calls)
        proxy.away = False
        await asyncio.to_thread(program.until, lambda: len(receiver.calls) > seen, "it goes on by itself")
        assert await asyncio.to_thread(service.stop) == 0


def _look_while_it_is_away(program: Program, receiver: Receiver) -> None:
    body = {"name": "b", "schedule": EVERY_SECOND, "url": receiver.url("/b")}
    for method, path in (("GET", "/jobs"), ("POST", "/jobs"), ("GET", "/api/admin/jobs")):
        problem = program.asked(method, path, body if method == "POST" else None, status=500)
        assert (problem["type"], problem["status"]) == ("/problems/database-unavailable", 500)
        assert problem["detail"]
    assert program.asked("GET", "/health") == {"status": "ok"}
    # A good answer serves for a second.
    program.until(lambda: program.http.get("/health/ready").status_code == 503, "it is not ready")


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_of_postgresql_are_understood(make_program: MakeProgram, empty_postgres: str, scheme: str) -> None:
    program = make_program(empty_postgres.replace("postgresql:", f"{scheme}:"))
    program.serve()
    assert program.asked("GET", "/jobs") == {"jobs": []}
