"""`news_agent serve` as real processes on both stores: kills, a model that fails, and the cutoff."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.examples.news_agent.conftest import MakeProgram
from tests.examples.news_agent.endpoint import BROKEN, Endpoint, text
from tests.examples.news_agent.program import Program

SEATS = 3
OTHERS = [f"user{number}" for number in range(7)]
CUTOFF = "update oncue_subjects set cutoff_at = {at}, next_at = {at} where name = :name"


def in_half_an_hour() -> tuple[str, str]:
    """A time of day in UTC, and the date on which that is."""
    then = datetime.now(UTC) + timedelta(minutes=30)
    return then.strftime("%H:%M"), then.date().isoformat()


def is_for_ann(prompt: dict[str, Any]) -> bool:
    return bool(prompt["kind"] == "digest" and prompt["user"] == "ann")


def bring_cutoff(program: Program, name: str) -> None:
    """The cutoff of a user's present day is now: a test cannot wait for a full minute."""
    now = datetime.now(UTC)
    if program.url.startswith("sqlite"):
        program.execute(CUTOFF.format(at=round(now.timestamp() * 1_000_000)), name=name)
    else:
        program.execute(CUTOFF.format(at="cast(:at as timestamptz)"), name=name, at=now)


def waiting(program: Program) -> int:
    """How many digests are being made, on all nodes."""
    queues = program.asked("GET", "/api/admin/queues")["queues"]
    return int(next(queue["running"] for queue in queues if queue["name"] == "windows"))


@pytest.mark.contract("WIN-1", "WIN-2", "WIN-3", "WIN-5", "WIN-6", "WIN-11", "WIN-13")
def test_each_user_has_one_outcome_though_the_program_is_killed_in_the_middle(
    make_program: MakeProgram, program_url: str, endpoint: Endpoint
) -> None:
    """When the process is killed, ann's attempts have failed, three attempts wait for the model, and the other users
    wait for a seat. Before the process is back, ann's cutoff has passed, and the model is well again for the others."""
    program = make_program(program_url, NEWS_MODEL_URL=endpoint.url, MAX_CONCURRENCY=str(SEATS))
    service, (at, day) = program.serve(), in_half_an_hour()
    endpoint.reply = lambda prompt: text("I hear you") if prompt["kind"] == "reply" else BROKEN
    ann = program.sign_up("ann", at)
    assert program.asked("POST", f"/api/users/{ann}/messages", {"text": "Remember me"}) == {"text": "I hear you"}
    program.until(lambda: program.day(ann, day)["attempts"], "an attempt for ann fails")
    program.asked("PUT", f"/api/users/{ann}", {"topics": ["patience"]})
    endpoint.gate.clear()
    others = [program.sign_up(name, at) for name in OTHERS]
    program.until(lambda: waiting(program) == SEATS, "all seats are taken")
    asked = sum(map(endpoint.asked_for, OTHERS))
    assert asked <= SEATS

    service.kill()
    bring_cutoff(program, "ann")
    endpoint.reply = lambda prompt: BROKEN if is_for_ann(prompt) else text(f"News for {prompt['user']}")
    endpoint.gate.set()
    program.serve()
    for number in others:
        program.until(lambda n=number: program.day(n, day)["status"] != "open", "a day ends")
    for name, number in zip(OTHERS, others, strict=True):
        found = program.day(number, day)
        assert (found["status"], found["digest"]["text"]) == ("success", f"News for {name}")
        assert [said["role"] for said in found["chat"]["context"]] == ["digest"], "delivered once"
        assert [attempt["outcome"] for attempt in found["attempts"]].count("succeeded") == 1
        assert [line["status"] for line in found["days"]] == ["success"]

    program.until(lambda: program.day(ann, day)["chat"]["reset_at"], "ann's chat is reset")
    found = program.day(ann, day)
    assert (found["status"], found["digest"], found["attempts"][0]["error_class"]) == ("cutoff_reached", None, "llm")
    assert [said["text"] for said in found["chat"]["forgotten"]] == ["Remember me", "I hear you"]
    assert found["chat"]["context"] == []
    program.asked("POST", f"/api/users/{ann}/messages", {"text": "Good day"})
    assert [said["text"] for said in endpoint.asked[-1]["context"]] == ["Good day"], "it starts fresh"
    assert "Cutoff reached" in program.http.get(f"/users/{ann}?day={day}").text
