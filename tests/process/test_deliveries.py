"""Deliveries under way when their worker is told to stop: none is lost, none is sent twice that could be finished."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from signal import SIGTERM

import pytest

from oncue.settings import Settings
from tests import postgres
from tests.ports import free_port
from tests.process.cluster import Cluster, Process
from tests.process.test_outage import own_cluster, own_server

__all__ = ["own_cluster", "own_server"]

ALLOW = "127.0.0.0/8"
SEATS = 8
SHARE = Settings.webhooks_per_endpoint


class Receiver(ThreadingHTTPServer):
    """Counts deliveries by their id as they come, and answers when it is let."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = threading.Event()
        self._lock = threading.Lock()
        self.came: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    def note(self, counter: Counter[str], name: str) -> None:
        with self._lock:
            counter[name] += 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        name = self.headers["webhook-id"]
        self.server.note(self.server.came, name)
        self.server.answers.wait(60)
        try:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.wfile.flush()
        except OSError:  # it hung up
            return
        self.server.note(self.server.answered, name)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("ONCUE_WEBHOOKS_ALLOW", ALLOW)
    with Receiver() as receiver, serving(receiver):
        yield receiver


@contextmanager
def serving(receiver: Receiver) -> Iterator[None]:
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        receiver.answers.set()
        receiver.shutdown()
        thread.join()


def delivering(cluster: Cluster, receiver: Receiver, count: int) -> list[int]:
    """So many deliveries to it, of a webhook made by hand."""
    cluster.app.wait(cluster.app.webhooks.create("orders", url=receiver.url))
    return [cluster.app.wait(cluster.app.webhooks.deliver("orders", {"n": n})).id for n in range(count)]


def started(cluster: Cluster, *options: str) -> Process:
    return cluster.started(*options, ONCUE_WEBHOOKS_ALLOW=ALLOW)


@pytest.mark.contract("HOOK-7", "HOOK-9")
def test_what_is_under_way_is_finished_and_the_rest_waits_for_the_next_worker(
    steady_cluster: Cluster, receiver: Receiver
) -> None:
    cluster = steady_cluster
    ids = delivering(cluster, receiver, 40)
    cluster.app.wait(cluster.app.schedules.create("often", "@every 1s", webhook="orders"))
    place = f"127.0.0.1:{free_port()}"
    worker = started(cluster, "--concurrency", str(SEATS), "--http", place)
    cluster.until(lambda: len(receiver.came) == SHARE, "the endpoint has its share, of which some left their seats")
    worker.send(SIGTERM)
    cluster.until(lambda: "draining: " in worker.said, "it drains")
    made = len(cluster.jobs())
    time.sleep(1.5)  # a slot would have come
    assert len(cluster.jobs()) == made, "the scheduler stops first"
    assert len(receiver.came) == SHARE, "nothing more is claimed"
    with urllib.request.urlopen(f"http://{place}/health", timeout=5) as answer:
        assert answer.status == 200, "the HTTP server closes last"
    receiver.answers.set()
    assert worker.ends() == 0, worker.said
    rows = cluster.jobs()
    assert {job.state for job in rows} <= {"succeeded", "queued", "scheduled"}
    delivered = {str(job.uid) for job in rows if job.state == "succeeded"}
    assert delivered == set(receiver.came), "what was sent was settled"
    assert len(delivered) >= SHARE
    assert {(job.attempt, job.retry_count, job.crashes) for job in rows if job.state != "succeeded"} <= {(0, 0, 0)}

    successor = started(cluster)
    cluster.until_done(ids)
    cluster.stop(successor)
    assert {job.state for job in cluster.rows(ids)} == {"succeeded"}
    assert set(receiver.came.values()) == {1}, "none was sent twice"
    assert {str(job.uid) for job in cluster.rows(ids)} <= set(receiver.answered), "none is lost"


@pytest.mark.contract("HOOK-7", "HOOK-9", "HOOK-19")
def test_what_is_not_answered_in_time_is_given_back_uncharged_and_sent_again_with_its_id(
    steady_cluster: Cluster, receiver: Receiver
) -> None:
    cluster = steady_cluster
    ids = delivering(cluster, receiver, SEATS)
    worker = started(cluster, "--concurrency", str(SEATS), "--drain-timeout", "500ms")
    cluster.until(lambda: len(receiver.came) == SEATS, "all seats deliver")
    worker.send(SIGTERM)
    assert worker.ends() == 0, worker.said
    rows = cluster.rows(ids)
    assert {(job.state, job.retry_count, job.crashes) for job in rows} == {("queued", 0, 0)}
    given_back = cluster.app.wait(cluster.app.jobs.attempts(ids[0]))
    assert [(attempt.outcome, attempt.error) for attempt in given_back] == [("shutdown", None)]
    receiver.answers.set()
    started(cluster)
    cluster.until_done(ids)
    assert {(job.state, job.retry_count) for job in cluster.rows(ids)} == {("succeeded", 0)}
    assert receiver.came == Counter({str(job.uid): 2 for job in rows}), "the same ids, as each is one execution"


@pytest.mark.contract("HOOK-2", "HOOK-12")
def test_a_database_that_goes_away_under_deliveries_costs_none_of_their_attempts(
    own_server: postgres.Server, own_cluster: Cluster, receiver: Receiver
) -> None:
    """A charged one would wait for half a minute, the first rung of its ladder."""
    cluster = own_cluster
    receiver.answers.set()
    ids = delivering(cluster, receiver, 1)
    worker = started(cluster)
    cluster.until_done(ids)
    for _ in range(3):
        before = len(receiver.came)
        ids += [cluster.app.wait(cluster.app.webhooks.deliver("orders", {"n": n})).id for n in range(100)]
        cluster.until(lambda before=before: len(receiver.came) > before, "they are on their way")  # type: ignore[misc]
        own_server.control("restart", "-m", "immediate")
        cluster.until_done(ids)
    rows = cluster.rows(ids)
    assert {(job.state, job.retry_count) for job in rows} == {("succeeded", 0)}
    assert {str(job.uid) for job in rows} == set(receiver.answered)
    cluster.stop(worker)
