"""Deliveries inside a test: scripted answers, and what would have been sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from oncue import Ladder, Oncue, cron
from oncue.errors import InvalidJob
from oncue.testing import EndpointAnswer, use
from oncue.webhooks import verify

NOON = datetime(2030, 6, 3, 12, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
HOOK = "https://shop.example/hooks/orders?key=7"


@pytest.fixture
def app() -> Oncue:
    return Oncue("postgresql://nobody@nowhere.invalid/nothing")


@pytest.mark.contract("HOOK-3", "HOOK-19")
def test_a_delivery_is_signed_and_goes_nowhere(app: Oncue) -> None:
    orders = app.webhook("orders", url=HOOK, secrets=[SECRET], headers={"X-Shop": "7"})
    with use(app) as kit:
        receipt = orders.deliver({"order": 7})
        assert kit.webhooks.sent == []
        assert kit.drain() == {"succeeded": 1}
        (sent,) = kit.webhooks.sent
        assert (sent.webhook, sent.method, sent.url, sent.json) == ("orders", "POST", HOOK, {"order": 7})
        assert sent.id == str(receipt.uid)
        assert sent.headers["X-Shop"] == "7"
        assert sent.verified
        assert sent.body is not None
        verify(sent.body, sent.headers, SECRET, now=kit.clock.now())


def test_a_request_without_a_secret_or_with_another_is_not_verified(
    app: Oncue, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = app.webhook("plain", url=HOOK)
    referring = app.webhook("referring", url=HOOK, secrets="env:ONCUE_SECRET_KIT")
    monkeypatch.setenv("ONCUE_SECRET_KIT", OTHER)
    with use(app) as kit:
        plain.deliver()
        referring.deliver()
        assert kit.drain() == {"succeeded": 2}
        assert {sent.webhook: sent.verified for sent in kit.webhooks.sent} == {"plain": False, "referring": True}


@pytest.mark.contract("HOOK-2")
def test_a_webhook_without_retries_is_tried_once(app: Oncue) -> None:
    orders = app.webhook("orders", url=HOOK, retry=Ladder())
    with use(app) as kit:
        kit.webhooks.answer(orders, 503, "network")
        orders.deliver()
        assert kit.elapse("2h") == {"failed": 1}
        orders.deliver()
        assert kit.elapse("2h") == {"failed": 1}
        assert len(kit.webhooks.sent) == 2


@pytest.mark.contract("HOOK-2", "HOOK-3")
def test_scripted_answers_climb_the_ladder(app: Oncue) -> None:
    orders = app.webhook("orders", url=HOOK, secrets=SECRET)
    with use(app, now=NOON) as kit:
        kit.webhooks.answer(orders, 500, "network", (429, {"Retry-After": "3600"}))
        receipt = orders.deliver()
        assert kit.elapse("2h") == {"succeeded": 1}
        sent = kit.webhooks.sent
        assert [(one.at - NOON).total_seconds() for one in sent] == [0, 30, 150, 3750]
        assert {one.id for one in sent} == {str(receipt.uid)}, "one idempotency id for all attempts"
        assert [one.answer.status for one in sent] == [500, "network", 429, 200]


@pytest.mark.contract("HOOK-2", "HOOK-4")
def test_a_timeout_takes_its_time_and_the_next_step_counts_from_its_end(app: Oncue) -> None:
    orders = app.webhook("orders", url=HOOK, timeout=20)
    with use(app, now=NOON) as kit:
        kit.webhooks.answer("orders", "timeout", 503, 503, 503, 503)
        receipt = orders.deliver()
        assert kit.elapse("1h") == {"failed": 1}
        assert len(kit.webhooks.sent) == 4
        assert kit.webhooks.sent[1].at == NOON + timedelta(seconds=20 + 30)
        assert kit.job(receipt).error == "HTTP 503"


@pytest.mark.contract("HOOK-3")
@pytest.mark.parametrize("answer", [404, 302, "refused", EndpointAnswer(400, body="no such order")])
def test_what_no_retry_helps_fails_at_once(app: Oncue, answer: EndpointAnswer) -> None:
    orders = app.webhook("orders", url=HOOK)
    with use(app) as kit:
        kit.webhooks.answer("orders", answer)
        orders.deliver()
        assert kit.elapse("1h") == {"failed": 1}
        assert len(kit.webhooks.sent) == 1


def test_a_redirect_is_followed_as_far_as_the_webhook_allows(app: Oncue) -> None:
    moved = app.webhook("moved", url=HOOK, redirects=1, secrets=SECRET)
    elsewhere = EndpointAnswer(307, {"Location": "https://elsewhere.example/in"})
    with use(app) as kit:
        kit.webhooks.answer("moved", elsewhere)
        moved.deliver({"order": 7})
        assert kit.drain() == {"succeeded": 1}
        first, second = kit.webhooks.sent
        assert (first.verified, second.verified) == (True, False), "no signature for another origin"
        assert (second.url, second.json) == ("https://elsewhere.example/in", {"order": 7})
        kit.webhooks.answer("moved", elsewhere, elsewhere)
        moved.deliver()
        assert kit.drain() == {"failed": 1}


def test_bare_deliveries_are_known_by_their_endpoint(app: Oncue) -> None:
    with use(app) as kit:
        kit.webhooks.answer("https://shop.example/anything", 404)
        app.deliver(HOOK, {"order": 7})
        app.deliver("https://other.example/", {"order": 8})
        assert kit.drain() == {"failed": 1, "succeeded": 1}
        assert {(sent.webhook, sent.url) for sent in kit.webhooks.sent} == {
            (None, HOOK),
            (None, "https://other.example/"),
        }


def test_a_scheduled_webhook_delivers_when_time_passes(app: Oncue) -> None:
    app.webhook("daily", url=HOOK, schedule=cron("0 3 * * *"))
    with use(app, now=NOON) as kit:
        assert kit.elapse("2d") == {"succeeded": 2}
        assert [sent.json["scheduled_for"] for sent in kit.webhooks.sent] == [
            "2030-06-04T03:00:00Z",
            "2030-06-05T03:00:00Z",
        ]


def test_an_open_circuit_breaker_holds_deliveries_back(app: Oncue) -> None:
    orders = app.webhook("orders", url=HOOK, retry=Ladder("1s"))
    with use(app, now=NOON) as kit:
        kit.webhooks.answer("orders", *[503] * 5)
        for _ in range(5):
            orders.deliver()
        kit.drain()
        late = orders.deliver()
        kit.drain()
        assert kit.job(late).state == "queued"
        kit.elapse("5m")
        assert kit.job(late).state == "succeeded"
        assert kit.webhooks.sent[5].at == NOON + timedelta(seconds=30)


def test_each_test_begins_anew_and_the_application_keeps_its_own_way_out(app: Oncue) -> None:
    orders = app.webhook("orders", url=HOOK)
    with use(app) as kit:
        kit.webhooks.answer("orders", 500)
    with use(app) as kit:
        orders.deliver()
        assert kit.drain() == {"succeeded": 1}
    assert app.internals.make_transport() is not kit.webhooks


def test_an_answer_that_is_none_is_refused(app: Oncue) -> None:
    with use(app) as kit:
        for wrong in (7, 999, "late"):
            with pytest.raises(ValueError, match="answer: expected a status"):
                kit.webhooks.answer("orders", wrong)
    with use(app) as kit, pytest.raises(ValueError, match=r"expected \(status, headers, body\) with headers such as"):
        kit.webhooks.answer("orders", (500, "busy"))


def test_deliveries_are_asserted_like_jobs(app: Oncue) -> None:
    orders, stock = (app.webhook(name, url=HOOK) for name in ("orders", "stock"))
    with use(app) as kit:
        orders.deliver({"order": 7}, key="seven")
        assert kit.assert_enqueued(orders, {"order": 7}).key == "orders:seven"
        assert kit.assert_enqueued(orders) == kit.assert_enqueued(orders, payload={"order": 7})
        kit.refute_enqueued(orders, {"order": 8})
        kit.refute_enqueued(stock)
        assert ([job.group for job in kit.jobs(orders)], kit.jobs(stock)) == (["orders"], [])
        with pytest.raises(AssertionError, match=r"no job oncue.deliver\(webhook='stock'\) was enqueued"):
            kit.assert_enqueued(stock)
        with pytest.raises(InvalidJob, match="key: expected the payload alone"):
            kit.assert_enqueued(orders, key="seven")
        with pytest.raises(TypeError, match="perform: expected a task, not <webhook orders>: `deliver` to it"):
            kit.perform(orders)  # type: ignore[arg-type]


def test_an_address_that_a_worker_would_refuse_is_no_error_here(app: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    orders = app.webhook("orders", url="http://127.0.0.1:9000/hook")
    with use(app) as kit:
        orders.deliver()
        assert kit.drain() == {"succeeded": 1}
    assert "every delivery will fail" not in caplog.text
