"""Jobs over HTTP: made, listed, shown, called, deleted; what is refused, and by which name."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from tests.examples.webhook_cron.conftest import MakeProgram
from tests.examples.webhook_cron.program import EVERY_SECOND, NEVER, Program
from tests.examples.webhook_cron.receiver import Receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.contract("HOOK-1", "HOOK-14", "HOOK-22")
def test_a_job_is_made_called_shown_and_deleted(program: Program, receiver: Receiver) -> None:
    assert program.asked("GET", "/health") == {"status": "ok"}
    job = program.make("orders", receiver.url("/orders"), schedule=EVERY_SECOND, body='{"slot": "{{ scheduled_for }}"}')
    assert UUID(job["id"])
    assert (job["retry"], job["timeout"], job["missed"]) == ([30, 120, 600], 30, "each")
    assert program.asked("GET", "/jobs")["jobs"][0]["id"] == job["id"]
    assert program.asked("GET", f"/jobs/{job['id']}")["url"] == receiver.url("/orders")
    program.until(lambda: len(receiver.at("/orders")) >= 2, "it is called twice")
    assert program.asked("DELETE", f"/jobs/{job['id']}")["deleted"]
    program.asked("GET", f"/jobs/{job['id']}", status=404)
    assert program.asked("GET", "/jobs") == {"jobs": []}
    told = program.executions(job)  # of a deleted job too
    delivered = [one for one in told if one["status"] == "delivered"]
    assert {one["job_id"] for one in told} == {job["id"]}
    assert {call.id for call in receiver.at("/orders")} >= {one["id"] for one in delivered}
    assert len({one["scheduled_at"] for one in told}) == len(told), "a slot is emitted once"
    slots = {one["id"]: {"slot": one["scheduled_at"]} for one in told}
    assert all(json.loads(call.body) == slots[call.id] for call in receiver.at("/orders"))
    shown = program.execution(delivered[0]["id"])
    assert [(one["attempt"], one["status_code"], one["error"]) for one in shown["attempts"]] == [(1, 200, None)]
    assert "scheduler: emitted job=orders execution=" + delivered[-1]["id"] in program.said


def test_the_words_of_the_origin_are_understood(program: Program, receiver: Receiver) -> None:
    body = {
        "name": "a", "cron_expression": NEVER, "timezone": "Europe/Berlin", "webhook_url": receiver.url("/a"),
        "webhook_secret": SECRET, "webhook_timeout_seconds": 5,
    }  # fmt: skip
    job = program.asked("POST", "/jobs", body, status=201)
    assert (job["schedule"], job["timezone"], job["timeout"], job["signed"]) == (NEVER, "Europe/Berlin", 5, True)
    assert SECRET not in str(program.asked("GET", "/jobs"))
    program.ended(program.trigger("a"))
    (call,) = receiver.at("/a")
    assert call.headers["webhook-signature"].startswith("v1,")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"timeout": 0.5}, "timeout: expected 1 to 60 seconds"),
    ({"timeout": "61s"}, "timeout: expected 1 to 60 seconds"),
    ({"schedule": "61 * * * *"}, "schedule: "),
    ({"schedule": "@every 90s"}, "schedule: expected five fields"),
    ({"timezone": "Mars/Base"}, "timezone: "),
    ({"url": "ftp://127.0.0.1/"}, "url: "),
    ({"url": "http://10.0.0.1/"}, "url: "),
    ({"url": "http://169.254.169.254/latest"}, "url: "),
    ({"method": "BREW"}, "method: "),
    ({"retry": ["soon"]}, "retry: "),
    ({"webhook_secret": "hush"}, "secrets: "),
    ({"colour": "red"}, "colour: there is no such field"),
]


@pytest.mark.contract("HOOK-4", "HOOK-19")
def test_what_makes_no_sense_is_refused_by_the_name_of_its_field(program: Program, receiver: Receiver) -> None:
    for fields, complaint in REFUSED:
        body = {"name": "a", "schedule": NEVER, "url": receiver.url(), **fields}
        detail = program.asked("POST", "/jobs", body, status=422)["detail"]
        assert detail.startswith(complaint), (fields, detail)
    assert program.asked("GET", "/jobs") == {"jobs": []}
    program.make("a", receiver.url())
    program.asked("POST", "/jobs", {"name": "a", "schedule": NEVER, "url": receiver.url()}, status=409)
    for path in ("/jobs/7", f"/jobs/{UUID(int=7)}", f"/jobs/{UUID(int=7)}/executions", "/executions/x"):
        program.asked("GET", path, status=404)


def test_a_job_whose_request_was_cut_off_is_made_by_the_next(program: Program, receiver: Receiver) -> None:
    program.make("a", receiver.url("/old"))
    program.asked("DELETE", "/api/admin/scheduled-jobs/a")  # its webhook is left
    job = program.make("a", receiver.url("/new"))
    assert job["url"] == receiver.url("/new")
    program.ended(program.trigger("a"))
    assert [call.path for call in receiver.calls] == ["/new"]


@pytest.mark.contract("HOOK-14")
def test_another_machine_needs_a_token(make_program: MakeProgram, sqlite_url: str) -> None:
    program = make_program(sqlite_url)
    program.start(HTTP_ADDR=f":{program.port}")
    program.until(lambda: "http: listening on" in program.said, "it listens")
    assert program.asked("GET", "/health") == {"status": "ok"}
    program.asked("GET", "/jobs", status=401)
    made = program.run("oncue", "token", "create", "me", "--scope", "operate", "--app", "webhook_cron.app:app")
    token = next(word for word in made.stdout.split() if word.startswith("oncue_"))
    program.http.headers["Authorization"] = f"Bearer {token}"
    assert program.asked("GET", "/jobs") == {"jobs": []}
