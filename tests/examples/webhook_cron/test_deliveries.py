"""What a job's receiver answers, and what becomes of the execution: on a real database, by real requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.examples.webhook_cron.conftest import MakeProgram
from tests.examples.webhook_cron.program import EVERY_SECOND, Program
from tests.examples.webhook_cron.receiver import Answer, Receiver
from tests.ports import free_port

QUICK = ["50ms", "50ms", "50ms"]
ELSEWHERE = {"Location": "https://elsewhere.example/"}


class Case(NamedTuple):
    name: str
    answers: Sequence[Answer]
    status: str
    codes: Sequence[int]


CASES = [
    Case("ok", [200], "delivered", [200]),
    Case("empty", [204], "delivered", [204]),
    Case("moved", [(301, ELSEWHERE)], "failed", [301]),
    Case("bad", [400], "failed", [400]),
    Case("gone", [410], "failed", [410]),
    Case("error", [500], "failed", [500, 500, 500, 500]),
    Case("busy", [503, 429, 200], "delivered", [503, 429, 200]),
]


@pytest.mark.contract("HOOK-2", "HOOK-3", "HOOK-10", "HOOK-16", "HOOK-19")
def test_each_class_of_answers_ends_as_the_contract_says(program: Program, receiver: Receiver) -> None:
    for case in CASES:
        receiver.answers(f"/{case.name}", *case.answers)
        program.make(case.name, receiver.url(f"/{case.name}"), retry=QUICK)
    executions = {case.name: program.trigger(case.name) for case in CASES}
    for case in CASES:
        told = program.ended(executions[case.name])
        codes = [attempt["status_code"] for attempt in told["attempts"]]
        assert (told["status"], codes) == (case.status, case.codes), case.name
        assert [attempt["attempt"] for attempt in told["attempts"]] == list(range(1, len(codes) + 1))
        calls = receiver.at(f"/{case.name}")
        assert {call.id for call in calls} == {told["id"]}, "one id for all attempts"
        assert len(calls) == len(codes)


@pytest.mark.contract("HOOK-3", "HOOK-4")
def test_an_endpoint_that_is_silent_or_not_there_is_tried_again(program: Program, receiver: Receiver) -> None:
    receiver.hold("/slow")
    program.make("slow", receiver.url("/slow"), timeout=1, retry=["50ms"])
    program.make("dead", f"http://127.0.0.1:{free_port()}/", retry=["50ms"])
    slow, dead = program.trigger("slow"), program.trigger("dead")
    for execution, error in ((dead, "refused"), (slow, "")):
        told = program.ended(execution)
        assert (told["status"], len(told["attempts"])) == ("failed", 2)
        assert all(attempt["status_code"] is None for attempt in told["attempts"])
        assert all(error in attempt["error"].lower() for attempt in told["attempts"]), told


@pytest.mark.contract("HOOK-5")
def test_one_job_that_hangs_holds_up_no_other(make_program: MakeProgram, sqlite_url: str, receiver: Receiver) -> None:
    program = make_program(sqlite_url, ONCUE_CONCURRENCY="12", ONCUE_WEBHOOKS_PER_ENDPOINT="4")
    program.serve()
    gate = receiver.hold("/hangs")
    program.make("hangs", receiver.url("/hangs"))
    program.make("well", receiver.url("/well"))
    hanging = [program.trigger("hangs") for _ in range(20)]
    program.until(lambda: len(receiver.at("/hangs")) == 4, "its share is taken")
    for _ in range(3):
        assert program.ended(program.trigger("well"))["status"] == "delivered"
    assert len(receiver.at("/hangs")) == 4
    gate.set()
    assert {program.ended(one)["status"] for one in hanging} == {"delivered"}


@pytest.mark.contract("HOOK-10", "HOOK-22")
def test_what_has_ended_stays_as_it_is(program: Program, receiver: Receiver) -> None:
    receiver.answers("/a", 400, 200)
    job = program.make("a", receiver.url("/a"))
    before = program.ended(program.trigger("a"))
    place = f"/api/admin/jobs/{before['number']}"
    assert not program.http.post(f"{place}/cancel").is_success
    assert not program.http.put(f"{place}/status", json={"status": "success"}).is_success
    program.asked("POST", f"{place}/retry")
    program.until(lambda: len(program.executions(job)) == 2, "the retry is an execution of its own")
    assert program.ended(program.executions(job)[0]["id"])["status"] == "delivered"
    assert program.execution(before["id"]) == before


@pytest.mark.contract("HOOK-8", "HOOK-17", "HOOK-21")
def test_what_does_not_fit_into_the_buffer_is_told_and_delivered_later(
    make_program: MakeProgram, sqlite_url: str, receiver: Receiver
) -> None:
    """It takes five seconds: so long an execution may wait for room before the log complains."""
    program = make_program(sqlite_url, ONCUE_BUFFER="2", ONCUE_CONCURRENCY="1")
    program.serve()
    program.asked("PUT", "/api/admin/queues/webhooks/limits", {"global": 1})
    gate = receiver.hold("/a")
    jobs = [program.make(f"job{number}", receiver.url("/a"), schedule=EVERY_SECOND) for number in range(6)]
    program.until(lambda: program.said.count("scheduler: emitted job=") >= 6, "all are emitted")
    for job in jobs:
        program.asked("POST", f"/api/admin/scheduled-jobs/{job['name']}/toggle", {"enabled": False})
    emitted = sum(len(program.executions(job)) for job in jobs)
    # The buffer has room for two, and the only seat for one more, also while the first delivery waits aside.
    program.until(lambda: program.said.count("scheduler: ORPHAN execution=") >= emitted - 4, "the buffer is full")
    lines = [line for line in program.said.splitlines() if "scheduler: ORPHAN" in line]
    fields = dict(part.split("=", 1) for part in lines[0].split() if "=" in part)
    assert lines[0].endswith("emit failed: event buffer full")
    assert f"eventbus: buffer full, execution={fields['execution']} job={fields['job']}" in program.said
    lost = program.execution(fields["execution"])
    assert (lost["status"], lost["scheduled_at"]) == ("emitted", fields["scheduled_at"])
    program.until(
        lambda: (
            metrics(program)["easycron_eventbus_emit_errors_total"]
            == program.said.count("scheduler: ORPHAN execution=")
            == program.said.count("eventbus: buffer full")
        ),
        "the figure is what the log tells",
    )
    figures = metrics(program)
    assert figures["easycron_eventbus_buffer_capacity"] == figures["oncue_buffer_capacity"] == 2
    assert figures["easycron_eventbus_buffer_size"] <= 2
    gate.set()
    assert program.ended(lost["id"])["status"] == "delivered", "it was left in the durable queue"


def metrics(program: Program) -> dict[str, float]:
    lines = program.http.get("/metrics").text.splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if line and not line.startswith("#")]
    return {name: float(value) for name, value in pairs}
