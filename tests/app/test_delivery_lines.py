"""What the log tells of deliveries; and a database that is away costs a delivery none of its attempts."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from oncue import Oncue
from oncue.engine.delivery_lines import log_delivery
from oncue.errors import StoreUnavailable
from oncue.model import Claim, Failed
from oncue.policy.lifecycle import Ended, settle
from oncue.webhooks import delivery
from tests.app.test_webhooks import QUICK, SECRET, app, declared, delivered, finished, receiving
from tests.engine.stage import Stage

__all__ = ["app"]


def dispatcher(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "oncue.dispatcher"]


@pytest.mark.contract("HOOK-21")
async def test_one_line_tells_of_each_attempt(app: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with receiving(500, 200) as server:
        receipt = await declared(app, server).adeliver({"order": 42})
        await delivered(app, receipt.id)
    first, second = dispatcher(caplog)
    known = f"id={receipt.id} execution={receipt.uid} duration="
    assert first.startswith(f"dispatcher: job=orders retrying attempt=1 {known}")
    assert first.endswith(" status=500")
    assert second.startswith(f"dispatcher: job=orders delivered attempt=2 {known}")
    assert second.endswith(" status=200")
    assert not [record for record in caplog.records if record.name == "oncue.job"], "the general lines are left out"


@pytest.mark.contract("HOOK-21")
async def test_a_failure_says_so_with_its_cause(app: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with receiving(404) as server:
        await delivered(app, (await declared(app, server).adeliver()).id)
    bare = await app.adeliver("http://10.0.0.1:81/secret/path?token=7", {"n": 1}, retry=QUICK)
    await delivered(app, bare.id)
    (answered, refused), records = dispatcher(caplog), caplog.records
    assert answered.startswith("dispatcher: job=orders failed attempt=1 ")
    assert answered.endswith(" status=404")
    assert refused.startswith("dispatcher: job=http://10.0.0.1:81 failed attempt=1 ")
    assert refused.endswith(" cause=refused")
    assert {record.levelno for record in records if record.name == "oncue.dispatcher"} == {logging.WARNING}


@pytest.mark.contract("HOOK-19", "HOOK-21")
async def test_no_line_of_the_log_has_a_path_a_query_a_secret_or_an_answer(
    app: Oncue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with receiving(500, 404) as server:
        orders = declared(app, server, secrets=SECRET, headers={"Authorization": "Bearer hunter2"})
        await delivered(app, (await orders.adeliver({"card": "4111"})).id)
        bare = await app.adeliver(server.url("/deep/path?key=hunter3"), {"card": "4111"}, retry=QUICK)
        await delivered(app, bare.id)
    log = "\n".join(f"{record.getMessage()}\n{record.exc_text}" for record in caplog.records)
    assert "dispatcher: job=orders failed" in log
    for forbidden in ("/hook", "token=7", SECRET.removeprefix("whsec_"), "hunter", "/deep", "4111", "thanks"):
        assert forbidden not in log


def line_of(caplog: pytest.LogCaptureFixture, claim: Claim, error: str) -> str:
    caplog.set_level(logging.INFO)
    stage = Stage()
    ended = Ended(claim, Failed(error, final=True), stage.now, stage.now)
    log_delivery(ended, settle(ended, Random(1)), 0.5)
    return dispatcher(caplog)[-1]


def test_of_an_error_that_was_not_foreseen_only_its_kind_is_told(caplog: pytest.LogCaptureFixture) -> None:
    claim = Stage().claim("oncue.deliver", group="orders")
    traceback = 'Traceback (most recent call last):\n  File "x.py", line 1, in y\nInvalidURL: http://me:pw@host/path'
    assert line_of(caplog, claim, traceback).endswith(" error=InvalidURL")
    deleted = "webhook_deleted: the webhook 'orders' was deleted"
    assert line_of(caplog, claim, deleted).endswith(f" error={deleted}")


@pytest.mark.contract("HOOK-2", "HOOK-12")
async def test_an_attempt_that_cannot_ask_the_database_is_given_back_at_no_charge(
    app: Oncue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(delivery, "DATABASE_PAUSE", 0.02)
    async with receiving() as server:
        receipt = await declared(app, server).adeliver()
        connected = await app.internals.connected()
        asked, found = 0, connected.store.webhooks.get

        async def away(*arguments: Any, **options: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked <= 6:
                raise StoreUnavailable("the server closed the connection")
            return await found(*arguments, **options)

        async with app.worker():
            monkeypatch.setattr((await app.internals.connected()).store.webhooks, "get", away)
            job = await finished(app, receipt.id)
    assert (job.state, job.retry_count, len(server.got)) == ("succeeded", 0, 1), "its ladder has four attempts"
    assert asked == 7
    *postponed, last = dispatcher(caplog)
    assert (job.attempt, len(postponed)) == (1, 6), "the others never began"
    why = "the database could not be asked: the server closed the connection"
    assert set(postponed) == {f"dispatcher: job=orders postponed id={job.id} execution={receipt.uid}: {why}"}
    assert last.startswith("dispatcher: job=orders delivered attempt=1 ")
