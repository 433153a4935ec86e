"""Two `webhook_cron serve` on one database: they share the work, and one goes on when the other leaves or dies."""

from __future__ import annotations

import signal

import pytest

from tests.examples.webhook_cron.conftest import MakeProgram
from tests.examples.webhook_cron.program import EVERY_SECOND
from tests.examples.webhook_cron.receiver import Receiver


@pytest.mark.contract("HOOK-1", "HOOK-7", "HOOK-10")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["it leaves", "it dies"])
def test_two_live_instances_fire_each_slot_once(
    make_program: MakeProgram, empty_postgres: str, receiver: Receiver, end: signal.Signals
) -> None:
    first, second = make_program(empty_postgres), make_program(empty_postgres)
    leader, _ = first.serve(), second.serve()
    job = first.make("a", receiver.url("/a"), schedule=EVERY_SECOND)
    executions = [program.trigger("a") for program in (first, second) for _ in range(10)]
    assert {second.ended(execution)["status"] for execution in executions} == {"delivered"}
    second.until(lambda: len(receiver.calls) > len(executions) + 2, "slots are delivered by either")
    leader.process.send_signal(end)
    leader.process.wait(60)
    seen = len(receiver.calls)
    second.until(lambda: len(receiver.calls) > seen + 1, "the other goes on")
    second.asked("POST", "/api/admin/scheduled-jobs/a/toggle", {"enabled": False})
    second.until(lambda: all(one["status"] != "emitted" for one in second.executions(job)), "all are delivered")
    told = second.executions(job)
    slots = [one["scheduled_at"] for one in told if one["id"] not in executions]
    assert len(set(slots)) == len(slots)
    assert {call.id for call in receiver.calls} == {one["id"] for one in told}
    if end == signal.SIGTERM:
        assert len(receiver.calls) == len(told), "none was sent twice"
    assert second.asked("GET", "/api/admin/scheduled-jobs/a/audit?problems=true")["fates"] == []
