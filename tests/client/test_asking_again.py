"""Answers get lost, servers die and databases go away: what a client asks for is done once, and it is told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from oncue import ApiError, Client, Conflict, NewJob, Receipt, StoreUnavailable, Unreachable
from oncue.client import jobs, nodes
from oncue.client.servers import Servers
from oncue.client.transport import _no_answer, address_of
from oncue.client.trying import Asker, delay_after
from tests.cli.conftest import Process
from tests.cli.test_worker import free_address
from tests.client.conftest import Aside, Shop, Site
from tests.client.proxy import Proxy

MakeProxy = Callable[[str], Proxy]
STATS = {"queued": 1, "running": 0, "failed": 0, "completed": 0, "cancelled": 0, "skipped": 0}


def test_a_lost_answer_makes_no_second_job(stored_shop: Shop, make_proxy: MakeProxy) -> None:
    proxy = make_proxy(stored_shop.url)
    with Client(proxy.url) as client, Client(stored_shop.url) as aside:
        proxy.swallow = 2
        receipt = client.enqueue("add", {"a": 1})
        assert len(proxy.keys()) == 3
        assert len(set(proxy.keys())) == 1
        assert (receipt.created, [job.id for job in aside.jobs.list()]) == (True, [receipt.id])
        proxy.swallow = 1
        receipts = client.enqueue_many([NewJob("add", {"a": 2}), NewJob("add", {"a": 3})])
        assert [job.id for job in aside.jobs.list()] == [receipts[1].id, receipts[0].id, receipt.id]
        assert len(set(proxy.keys())) == 2, "another call has another key"


def test_a_lost_answer_to_a_change(shop: Shop, make_proxy: MakeProxy) -> None:
    """What would be refused the second time is answered as it was the first time."""
    proxy = make_proxy(shop.url)
    with Client(proxy.url) as client:
        job = client.enqueue("add", {"a": 1}).id
        jobs, schedules = client.jobs, client.schedules
        for change in (
            lambda: jobs.boost(job, 5), lambda: jobs.set_status(job, "failed"), lambda: jobs.retry(job),
            lambda: jobs.prioritize(job, 7), lambda: jobs.cancel(job), lambda: client.queues.pause("default"),
            lambda: schedules.create("r", "@daily", "report"), lambda: schedules.change("r", new_name="s"),
            lambda: schedules.run_now("s"), lambda: jobs.set_status_many([job], "queued"),
            lambda: schedules.delete("s"),
        ):  # fmt: skip
            proxy.swallow = 1
            change()
        assert proxy.swallow == 0
        (entry,) = [entry for entry in client.audit_log.list(subject=f"job:{job}") if entry.after == {"priority": 5}]
        assert entry.before == {"priority": 0}, "it was boosted once"
        assert client.jobs.list(limit=1)[0].schedule_id is not None
        assert len(client.jobs.list()) == 2


def test_a_secret_is_lost_with_its_answer(shop: Shop, make_proxy: MakeProxy) -> None:
    proxy = make_proxy(shop.url)
    _, text = shop.aside.run(shop.app.tokens.create("ops", ["admin"]))
    with Client(proxy.url, token=text) as client:
        proxy.swallow = 1
        with pytest.raises(Conflict, match="A secret is told only once"):
            client.tokens.create("ci", ["read"])
        assert [token.name for token in client.tokens.list()] == ["ops", "ci"]


def test_the_server_is_killed_after_it_has_written(
    shop: Shop, sqlite_url: str, tmp_path: Path, make_proxy: MakeProxy
) -> None:
    where = free_address()
    process, proxy = Process(tmp_path, sqlite_url, "serve", "--http", where), make_proxy(f"http://{where}")
    told: list[Receipt] = []
    with Client(proxy.url, patience=60) as client:
        process.says("http: listening on")
        proxy.swallow = 1
        enqueueing = threading.Thread(target=lambda: told.append(client.enqueue("add", {"a": 1})))
        enqueueing.start()
        assert proxy.swallowed.wait(60)
        process.close()
        proxy.target = shop.url  # another server on the same database
        enqueueing.join(60)
        (receipt,) = told
        assert [(job.uid, job.state) for job in client.jobs.list()] == [(receipt.uid, "queued")]
        assert receipt.created


# --- time -----------------------------------------------------------------------------------------------------------


class Script:
    """A server that answers as it is told, and a clock that only moves when somebody waits."""

    def __init__(self, aside: Aside, *answers: Response) -> None:
        self.url = Site(aside, self).url
        self.now = 0.0
        self.waits: list[float] = []
        self.keys: list[str | None] = []
        self._answers = iter(answers)
        self._servers = Servers(address_of(self.url), (), self.watch)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.keys.append({name: value.decode() for name, value in scope["headers"]}.get(b"idempotency-key"))
        await next(self._answers)(scope, receive, send)

    def watch(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def ask(self, request: Any, **patience: float) -> Any:
        times = {"timeout": 10.0, "patience": 20.0} | patience
        asker = Asker(self._servers, None, **times, new_id=lambda: UUID(int=5), watch=self.watch)
        try:
            return asker.ask(request, self.wait)
        finally:
            self._servers.close()


def problem(slug: str, status: int, detail: str = "so it is", **headers: str) -> Response:
    body = json.dumps({"type": f"/problems/{slug}", "title": "No", "status": status, "detail": detail})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status, named, "application/problem+json")


def away(**headers: str) -> Response:
    return problem("database-unavailable", 503, "the database does not answer", **headers)


def test_what_passes_is_waited_for(aside: Aside) -> None:
    receipt = JSONResponse({"id": 1, "uid": "01960f3c-7c00-8000-8000-000000000001", "created": True}, 201)
    script = Script(
        aside, away(Retry_After="2"), Response("bad gateway", 502), Response("", 504),
        problem("still-being-answered", 409, Retry_After="1"), receipt,
    )  # fmt: skip
    assert script.ask(jobs.enqueue("add", {"a": 1})).id == 1
    assert script.waits[0] == 2.0
    assert 0.1 <= script.waits[1] <= 0.3, "twice the first delay, half as long again or half of it"
    assert script.waits[3] >= 1.0
    assert script.keys == [str(UUID(int=5))] * 5


def test_patience_ends(aside: Aside) -> None:
    script = Script(aside, *[away() for _ in range(50)])
    with pytest.raises(StoreUnavailable) as caught:
        script.ask(jobs.enqueue("add"))
    assert str(caught.value) == "the database does not answer; it is unknown whether the request took effect"
    assert 10 < script.now < 20
    assert len(script.waits) < 15, "ever longer"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (away(Retry_After="30"), StoreUnavailable),
        (problem("conflict", 409), Conflict),
        (problem("effect-unknown", 409), ApiError),
        (problem("internal-error", 500), ApiError),
    ],
)
def test_what_asking_again_does_not_change(aside: Aside, answer: Response, kind: type[Exception]) -> None:
    script = Script(aside, answer)
    with pytest.raises(kind, match=r"so it is|the database does not answer"):
        script.ask(jobs.stats())
    assert script.waits == []


def test_probes_ask_once(aside: Aside) -> None:
    script = Script(aside, JSONResponse({"status": "database_unavailable", "database": {}}, 503))
    assert script.ask(nodes.ready()).is_ready is False
    assert script.waits == []


def test_no_answer_in_time(shop: Shop, make_proxy: MakeProxy) -> None:
    proxy = make_proxy(shop.url)
    proxy.keep = True
    with Client(proxy.url, timeout=0.05, patience=0) as client:
        with pytest.raises(Unreachable, match=r"nothing within 0\.05 s; it is unknown whether the request took effect"):
            client.enqueue("add", {"a": 1})
        assert proxy.kept.wait(60)
        with pytest.raises(Unreachable, match=r"nothing within 0\.05 s$"):
            client.jobs.stats()
        proxy.keep = False
    with Client(proxy.url, timeout=5) as client:
        assert client.jobs.stats().queued == 1, "it did take effect"


def test_nobody_is_there() -> None:
    with Client(f"http://{free_address()}", patience=0.2) as client:
        with pytest.raises(Unreachable) as caught:
            client.enqueue("add")
        assert "refused" in str(caught.value)
        assert "unknown" not in str(caught.value), "nothing was sent"
        with pytest.raises(Unreachable):
            client.health()
    unknown_name = _no_answer(socket.gaierror(socket.EAI_NONAME, "unknown"), 1, False, False)
    assert delay_after(unknown_name, jobs.stats(), 0, Random(1)) is None, "who mistyped it is told at once"
    no_resolver = _no_answer(socket.gaierror(socket.EAI_AGAIN, "later"), 1, False, False)
    assert delay_after(no_resolver, jobs.stats(), 0, Random(1)) is not None


# --- connections ----------------------------------------------------------------------------------------------------


def test_connections_are_used_again(shop: Shop, aside: Aside, make_proxy: MakeProxy, monkeypatch: Any) -> None:
    proxy = make_proxy(shop.url)
    with Client(proxy.url) as client:
        for _ in range(5):
            client.jobs.stats()
        assert proxy.connections == 1
        aside.run(proxy.hang_up())
        client.jobs.stats()
        assert (proxy.connections, len(proxy.heads)) == (2, 6), "a line that was cut while idle costs no try"
        threads = [threading.Thread(target=client.jobs.stats) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (proxy.connections <= 9, len(proxy.heads)) == (True, 14)
        before = proxy.connections
        monkeypatch.setattr("os.getpid", lambda: -1)
        client.jobs.stats()
        assert proxy.connections == before + 1, "a forked child leaves its parent's lines alone"
