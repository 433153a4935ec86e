"""Every verb, asked of a real server, on each back end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from oncue import Client, Conflict, InvalidSubject, Ladder, NewJob, Receipt, SubjectNotFound, cron, daily
from oncue.client.requests import Request
from oncue.client.verbs import Listing, Noun, Verb, Verbs
from oncue.verbs.schedules.declaring import Declaring
from tests.client.conftest import Aside, Shop, Site
from tests.server.conftest import a_shop

WEEK = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
NOT_FOR_CLIENTS = {"/metrics", "/openapi.json"}


class Recording(Client):
    """Remembers which verbs were used."""

    def __init__(self, url: str, token: str | None = None) -> None:
        super().__init__(url, token=token)
        self.used: set[str] = set()

    def _asking(self, prepare: Callable[..., Request[Any]]) -> Callable[..., Any]:
        self.used.add(prepare.__name__)
        return super()._asking(prepare)

    def _walking(self, prepare: Callable[..., Request[Any]]) -> Callable[..., Any]:
        self.used.add(prepare.__name__)
        return super()._walking(prepare)


@pytest.mark.contract("QUE-10", "QUE-11", "QUE-12", "QUE-13", "QUE-14", "QUE-15", "QUE-16", "HOOK-22")
def test_every_verb_and_every_route(stored_shop: Shop) -> None:
    with Recording(stored_shop.url) as client:
        ids = enqueue(client)
        stored_shop.work(*ids, then=lambda: cluster(client))
        look(client, ids)
        change(client, ids)
        queues(client)
        schedules(client)
        webhooks(client)
        windows(client, stored_shop)
        cluster_jobs(client, stored_shop)
        access(client)
        known = [verb for noun in (Verbs, *Noun.__subclasses__()) for verb in vars(noun).values()]
        assert client.used == {verb._prepare.__name__ for verb in known if isinstance(verb, Verb | Listing)}
    routes = {(method, route.path_format) for route in stored_shop.gate.api.routes for method in route.methods}  # type: ignore[attr-defined]
    wanted = {(method, path) for method, path in routes if method != "HEAD" and path not in NOT_FOR_CLIENTS}
    assert set(stored_shop.asked) == wanted, "a route has no verb, or a verb has no route"


def enqueue(client: Client) -> list[int]:
    receipt = client.enqueue("add", {"a": 2}, queue="sums", priority=60, key="two", max_retries=1, deadline="1h")
    assert receipt == Receipt(receipt.id, receipt.created_at, True)
    again = client.enqueue("add", {"a": 2}, key="two")
    assert (again.id, again.created_at, again.created) == (receipt.id, receipt.created_at, False)
    grouped = NewJob("add", {"a": 3}, queue="sums", group="g")
    failing, counted = client.enqueue_many([NewJob("boom", {"text": "oh"}), grouped])
    assert client.jobs.get(counted.id).group == "g"
    assert client.jobs.get(receipt.uid).id == receipt.id, "a receipt over HTTP knows the job's public name"
    return [receipt.id, failing.id, counted.id]


def test_large_arguments_are_left_out_of_listings_unless_asked_for(stored_shop: Shop) -> None:
    text = "x" * 5000
    with Client(stored_shop.url) as client:
        job_id = client.enqueue("boom", {"text": text}).id
        (short,) = client.jobs.list()
        assert (short.args, list(short.shortened or {})) == ({}, ["args"])
        for whole in (*client.jobs.list(whole=True), *client.jobs.all(whole=True), client.jobs.get(job_id)):
            assert (whole.args, whole.shortened) == ({"text": text}, {})


def look(client: Client, ids: list[int]) -> None:
    done, failed, _ = ids
    job = client.jobs.get(done)
    assert (job.state, job.result, job.queue, job.priority, job.key, job.args["a"]) == (
        "succeeded", 3, "sums", 60, "two", 2,
    )  # fmt: skip
    assert (job.attempt, job.finished, job.max_retries, job.uid) == (1, True, 1, client.jobs.list(limit=3)[-1].uid)
    assert job.created_at.tzinfo is not None
    assert timedelta(minutes=59) < job.deadline_at - job.created_at < timedelta(minutes=61)  # type: ignore[operator]
    job = client.jobs.get(failed)
    assert [(attempt.outcome, attempt.worker) for attempt in job.attempts] == [("failed", job.worker)]
    assert job.attempts[0].error is not None
    assert "ValueError: oh" in job.attempts[0].error
    assert job.explanation.codes
    assert job.duration == (job.finished_at - job.started_at).total_seconds()  # type: ignore[operator]
    assert [found.id for found in client.jobs.list(["failed"], queue="mail", task="boom")] == [failed]
    assert [found.id for found in client.jobs.list(limit=1, offset=1, before=ids[2] + 1)] == [failed]
    assert [found.id for found in client.jobs.all(page=2)] == sorted(ids, reverse=True)
    assert client.jobs.list(group="nobody") == list(client.jobs.all(group="nobody")) == []
    stats = client.jobs.stats()
    assert (stats.completed, stats.failed, stats.queued, stats.counted_at) == (2, 1, 0, None)


def change(client: Client, ids: list[int]) -> None:
    later = client.enqueue("add", {"a": 1}, at=datetime(2040, 1, 1, tzinfo=UTC)).id
    assert client.jobs.get(later).visible_at == datetime(2040, 1, 1, tzinfo=UTC)
    assert client.jobs.prioritize(later, 50).priority == 50
    assert client.jobs.boost(later).priority == 60
    assert client.jobs.set_status(later, "success").state == "succeeded"
    assert client.jobs.retry(later).state == "queued"
    assert client.jobs.cancel(later).state == "cancelled"
    stranger = uuid4()
    handled = client.jobs.set_status_many([later, ids[1], stranger], "queued")
    assert [(one.id, one.outcome, one.state) for one in handled] == [
        (later, "changed", "queued"), (ids[1], "changed", "queued"), (stranger, "not_found", None),
    ]  # fmt: skip
    assert [one.outcome for one in client.jobs.retry_many([later, ids[0]])] == ["conflict", "changed"]
    last = client.enqueue("add", {"a": 1}, delay=timedelta(hours=1))
    assert client.jobs.get(last.id).visible_at - last.created_at == timedelta(hours=1)


def queues(client: Client) -> None:
    assert client.queues.pause("mail").paused_at is not None
    assert client.queues.resume("mail").paused_at is None
    assert client.queues.limit("mail", globally=5, per_node=2).global_limit == 5
    limited = client.queues.limit("mail", globally=None)
    assert (limited.global_limit, limited.node_limit) == (None, 2)
    assert client.queues.get("mail") == limited
    assert limited in client.queues.list()
    every = client.queues.limit("mail", per_group=4, rate="100/s", rate_per_group="10/min")
    assert (every.group_limit, every.rate, every.group_rate) == (4, "100/s", "10/min")
    assert client.queues.limit("mail", group="tenant:7", per_group=1).group_limit == 4
    client.queues.pause("mail", group="a", for_=timedelta(hours=1))
    client.queues.pause("mail", group="b", until=datetime(2130, 1, 1, tzinfo=UTC))
    a, b, seven = client.queues.groups("mail")
    assert ((b.name, b.rate, b.paused_until), seven.limit) == (("b", "10/min", datetime(2130, 1, 1, tzinfo=UTC)), 1)
    assert client.queues.groups("mail", after="a", limit=1) == [b]
    assert list(client.queues.all_groups("mail", page=1)) == [a, b, seven]
    client.queues.resume("mail", group="a")
    assert "a" not in [group.name for group in client.queues.groups("mail") if group.paused_until is not None]


def schedules(client: Client) -> None:
    berlin = cron("0 3 * * *", tz="Europe/Berlin")
    made = client.schedules.create("nightly", berlin, "report", {"pages": 2}, priority=20, grace=timedelta(minutes=9))
    assert (made.expression, made.tz, made.args, made.grace, made.created_by) == (
        "0 3 * * *", "Europe/Berlin", {"pages": 2}, 540.0, "local",
    )  # fmt: skip
    changed = client.schedules.change("nightly", rule="0 4 * * *", description="figures")
    assert (changed.expression, changed.tz, changed.revision) == ("0 4 * * *", "Europe/Berlin", made.revision + 1)
    assert client.schedules.toggle(made.id, False).enabled is False
    assert client.schedules.toggle("nightly", True).enabled is True
    assert client.schedules.get("nightly") == client.schedules.get(made.id) == client.schedules.list()[0]
    assert [revision.expression for revision in client.schedules.revisions("nightly")][-2:] == [
        "0 4 * * *",
        "0 3 * * *",
    ]
    fires = client.schedules.preview("nightly", 3, datetime(2030, 1, 1, tzinfo=UTC))
    assert fires[0].scheduled_for == datetime(2030, 1, 1, 3, tzinfo=UTC)
    assert fires[0].local.hour == 4
    compared = client.schedules.preview_change("nightly", count=2, rule="0 9 * * *")
    assert [one.stays for one in (*compared.going, *compared.coming)] == [False] * 4
    assert compared.after.expression == "0 9 * * *"
    assert compared.before == client.schedules.get("nightly")
    slots = client.schedules.undecided("nightly", "-3d")
    assert len(slots) in (2, 3)
    filled = client.schedules.backfill("nightly", "-3d")
    assert (len(filled.jobs), filled.present, client.schedules.undecided("nightly", "-3d")) == (len(slots), 0, [])
    rows = list(client.schedules.all_slots("nightly", slots[0], "now", page=1))
    assert [row.scheduled_for for row in rows] == slots
    assert client.schedules.slots("nightly", "-3d", "now") == client.schedules.latest_slots("nightly") == rows
    assert rows[0].verdict == "manual"
    audit = client.schedules.audit("nightly", "-3d")
    assert (audit.holds, audit.problems, len(audit.fates)) == (True, [], len(slots))
    assert audit.fates[0].row == rows[0]
    client.schedules.create("by hand", "@hourly", "report", max_instances=2)
    slot = client.schedules.preview("by hand", 1)[0].scheduled_for
    assert client.schedules.trigger("by hand", slot).scheduled_for == slot
    assert client.jobs.get(client.schedules.run_now("by hand").job_id or 0).schedule == "by hand"
    assert client.schedules.delete("by hand") is None
    assert [schedule.name for schedule in client.schedules.all(page=1)] == ["nightly"]


def webhooks(client: Client) -> None:
    secret = "whsec_" + "c2VjcmV0" * 4
    made = client.webhooks.create(
        "orders/paid", url="https://shop.example/hooks", headers={"Authorization": "Bearer s3cret"}, secrets=[secret],
        retry=Ladder("30s", "2m"), timeout=timedelta(seconds=10), body="{{payload}}", ca="own.pem",
    )  # fmt: skip
    assert (made.name, made.headers, made.retry, made.timeout) == (
        "orders/paid", {"Authorization": "(hidden)"}, (30.0, 120.0), 10.0,
    )  # fmt: skip
    assert secret not in repr(made)
    changed = client.webhooks.change("orders/paid", url="https://shop.example/v2", ca=None, retry=["5s"])
    assert (changed.url, changed.ca, changed.body, changed.retry) == (
        "https://shop.example/v2", None, "{{payload}}", (5.0,),
    )  # fmt: skip
    assert client.webhooks.toggle("orders/paid", False).reason == "by_hand"
    assert client.webhooks.toggle("orders/paid", True).enabled
    paused = client.webhooks.pause("orders/paid", until=datetime(2130, 1, 1, tzinfo=UTC))
    assert paused.endpoint.paused_until == datetime(2130, 1, 1, tzinfo=UTC)
    assert client.webhooks.resume("orders/paid").endpoint.paused_until is None
    shown = client.webhooks.get("orders/paid")
    (listed,) = client.webhooks.list()
    assert (shown.endpoint.name, shown.url, [listed]) == ("orders/paid", listed.url, list(client.webhooks.all(page=1)))
    delivery = client.webhooks.deliver("orders/paid", {"order": 7}, key="seven", delay="1h", priority=5)
    bare = client.deliver("https://other.example/hooks", {"order": 8}, headers={"X-Key": "env:ONCUE_SECRET_KEY"})
    assert client.webhooks.deliver("orders/paid", key="seven").id == delivery.id
    assert [found.number for found in client.webhooks.executions()] == [bare.id, delivery.id]
    assert [found.id for found in client.webhooks.all_executions("orders/paid", page=1)] == [delivery.uid]
    emitted, failed = (list(client.webhooks.all_executions(status=status)) for status in ("emitted", "failed"))
    assert ([found.number for found in emitted], failed) == ([bare.id, delivery.id], [])
    assert client.webhooks.executions("orders/paid", status="delivered") == []
    execution = client.webhooks.execution(delivery.uid)
    assert (execution.status, execution.state, execution.payload, execution.attempt_list) == (
        "emitted", "scheduled", {"order": 7}, (),
    )  # fmt: skip
    assert execution.next_attempt_at == delivery.created_at + timedelta(hours=1)
    assert client.webhooks.execution(bare.id).url == "https://other.example/hooks"
    client.jobs.cancel(delivery.id)
    assert client.webhooks.execution(delivery.id).status == "failed"
    assert client.webhooks.retry(delivery.uid).retry_of == delivery.id
    planned = client.schedules.create("stock", "@hourly", webhook="orders/paid", args={"payload": 1})
    assert (planned.webhook, planned.max_instances) == ("orders/paid", 100)
    assert client.schedules.change("stock", webhook="orders/paid", args={"payload": 2}).args["payload"] == 2
    client.schedules.delete("stock")
    assert client.webhooks.delete("orders/paid") is None


def cluster(client: Client) -> None:
    (node,) = client.nodes.list()
    assert (node.alive, node.queues, node.concurrency) == (True, ("default", "mail", "sums"), 64)
    assert node.started_at <= node.beat_at < node.expires_at
    leader = client.nodes.leader()
    assert leader.name is None or (leader.id, leader.none_since) == (node.id, None)


def cluster_jobs(client: Client, shop: Shop) -> None:
    shop.app.cluster_task(name="compact")(lambda level=1: None)
    made = client.cluster.run("compact", {"level": 2}, key="nightly")
    assert (made.status, made.parts, made.quorum.parts, made.spread_at) == ("new", (), 0, None)
    assert client.cluster.get(made.id) == made
    assert [job.id for job in client.cluster.list(before=made.id + 1, limit=1)] == [made.id]
    assert [job.uid for job in client.cluster.all()] == [made.uid]
    assert client.cluster.leader() is None
    assert client.jobs.cancel(made.id).state == "cancelled"


def windows(client: Client, shop: Shop) -> None:
    @shop.app.task(name="news/daily", schedule=daily(window="30m"))
    async def digest(user: str, day: date, language: str = "en") -> None: ...

    shop.aside.run(Declaring(shop.app.internals).synchronise())
    (found,) = client.windows.list()
    assert found == client.windows.get("news/daily")
    assert (found.name, found.window_seconds, found.queue, found.enabled) == ("news/daily", 1800.0, "windows", True)
    tz = "UTC" if shop.aside.run(shop.app.now()).hour < 12 else "Etc/GMT+12"  # where the day is far from its end
    ann = client.windows.add("news/daily", "ann/ü", at="23:59", tz=tz, weekdays=WEEK, args={"language": "de"})
    assert (ann.subject, ann.at, ann.tz, ann.args) == ("ann/ü", "23:59", tz, {"language": "de"})
    assert ann.cutoff_at - ann.opens_at == timedelta(minutes=30)
    assert client.windows.subject("news/daily", "ann/ü") == ann
    changed = client.windows.change("news/daily", "ann/ü", args=None, days_off=[date(2030, 12, 24)])
    assert (changed.at, changed.args, changed.days_off) == ("23:59", {}, (date(2030, 12, 24),))
    assert client.windows.change("news/daily", "ann/ü", weekdays=None, days_off=None).days_off == ()
    rows = [{"subject": "bob", "at": "09:00"}, {"subject": "cas", "at": "9", "tz": None}]
    told = client.windows.add_each("news/daily", rows)
    assert [(one.subject, one.outcome, one.field) for one in told] == [("bob", "added", None), ("cas", "invalid", "at")]
    assert [one.subject for one in client.windows.subjects("news/daily", after="ann/ü", limit=5)] == ["bob"]
    assert [one.subject for one in client.windows.all_subjects("news/daily", page=1)] == ["ann/ü", "bob"]
    opened = client.windows.run_now("news/daily", "ann/ü", idempotency_key="open")
    assert client.windows.run_now("news/daily", "ann/ü", idempotency_key="open") == opened
    with pytest.raises(Conflict) as refused:
        client.windows.run_now("news/daily", "ann/ü")
    assert refused.value.job_id == opened.job_id
    (row,) = client.windows.ledger("news/daily", "ann/ü")
    assert (row.day, row.outcome, row.job_id) == (opened.day, "open", opened.job_id)
    assert [(one.open, one.success) for one in client.windows.day("news/daily", opened.day)] == [(1, 0)]
    explained = client.windows.explain("news/daily", "ann/ü")
    assert (explained.status, explained.findings[0].code) == ("open", "open")
    assert client.windows.explain("news/daily", "ann/ü", date(2040, 1, 31)).subject.startswith(
        "day 2040-01-31 of ann/ü"
    )
    audited = client.windows.audit("news/daily", opened.day, opened.day)
    assert (audited.holds, audited.subjects, audited.last, audited.problems) == (True, 2, "bob", [])
    assert [(day.subject, day.fate) for day in audited.days if day.subject == "ann/ü"] == [("ann/ü", "open")]
    (day,) = client.windows.audit("news/daily", opened.day, opened.day, subject="ann/ü").days
    assert (day.day, day.until, day.job_id) == (opened.day, opened.day, opened.job_id)
    assert [one.subject for one in client.windows.subjects("news/daily", prefix="ann/")] == ["ann/ü"]
    assert {one.state for one in client.alerts.book().alerts} <= {"ok", "breached", "warned"}
    client.windows.remove("news/daily", "ann/ü")
    for missing in (("news/daily", "ann/ü"), ("nothing", "bob")):
        with pytest.raises(SubjectNotFound):
            client.windows.subject(*missing)
    with pytest.raises(InvalidSubject) as wrong:
        client.windows.add("news/daily", "bob", at="09:00", args={"language": 7})
    assert wrong.value.field == "args.language"


def access(client: Recording) -> None:
    entries = client.audit_log.list(subject="queue:mail")
    assert [entry.actor for entry in entries] == ["local"] * len(entries)
    assert entries[0].after == {"group": "a", "paused_until": None}
    assert list(client.audit_log.all(subject="queue:mail", page=1)) == entries
    assert client.health() == "ok"
    ready = client.ready()
    assert (ready.status, ready.is_ready, ready.facts["database"]["status"]) == ("ready", True, "ok")
    token, text = client.tokens.create("ci", ["admin"], expires="90d")
    assert token.expires_at == token.created_at + timedelta(days=90)
    with Recording(str(client._address), token=text) as holder:
        holder.used = client.used
        assert [known.id for known in holder.tokens.list()] == [token.id]
        assert holder.tokens.revoke("ci").revoked_at is not None


def test_an_api_inside_of_another_application(aside: Aside, sqlite_url: str, tmp_path: Path) -> None:
    app = a_shop(sqlite_url, tmp_path)
    aside.farewells.append(app.aclose)
    site = Site(aside, Starlette(routes=[Mount("/inner/oncue", app.asgi(on_loopback=True))]))
    with Client(f"{site.url}/inner/oncue/") as client:
        ids = [client.enqueue("add", {"a": number}).id for number in range(3)]
        assert [job.id for job in client.jobs.all(page=1)] == ids[::-1]


@pytest.mark.contract("QUE-3", "QUE-10", "QUE-11")
def test_what_waits_for_later_is_queued_and_a_tasks_own_key_holds(client: Client) -> None:
    first = client.enqueue("crawl", {"subreddit_id": 7}, delay="1h")
    again = client.enqueue("crawl", {"subreddit_id": 7})
    assert (again.id, again.created) == (first.id, False)
    assert [job.id for job in client.jobs.list(["queued"])] == [first.id]
    assert [job.id for job in client.jobs.all(["queued"])] == [first.id]
    assert client.jobs.stats().queued == 1
