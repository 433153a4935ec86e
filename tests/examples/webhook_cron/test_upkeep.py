"""The reconciler and the analytics of the program: off unless they are asked for, and never in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oncue import Oncue
from tests.examples.webhook_cron.conftest import MakeProgram
from tests.examples.webhook_cron.program import EVERY_SECOND
from tests.examples.webhook_cron.receiver import Receiver
from tests.ports import free_port
from tests.redis_server import RedisServer


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.mark.contract("HOOK-11", "HOOK-21")
def test_the_reconciler_is_off_unless_it_is_enabled(make_program: MakeProgram, sqlite_url: str) -> None:
    program = make_program(sqlite_url)
    assert program.serve().stop() == 0
    assert "reconciler" not in program.said
    program.serve(RECONCILE_ENABLED="true")
    line = "reconciler: started (interval=5m0s, threshold=10m0s, batch=100)"
    program.until(lambda: line in program.said, "it is started")


@pytest.mark.contract("HOOK-11", "HOOK-21")
def test_the_reconciler_re_emits_what_no_node_would_look_at(
    make_program: MakeProgram, empty_postgres: str, receiver: Receiver
) -> None:
    program = make_program(empty_postgres)
    service = program.serve()
    program.make("a", receiver.url("/a"))
    assert service.stop() == 0
    execution = emitted_without_a_worker(empty_postgres, "a")
    with psycopg.connect(program.url) as connection:  # what a backup of some of the tables would leave
        connection.execute("delete from oncue_group_wakeups")
        connection.execute("delete from oncue_groups")
        connection.execute(
            "update oncue_jobs set order_at = order_at - interval '12m30s', visible_at = visible_at - interval '12m30s'"
        )
    program.serve(RECONCILE_ENABLED="true", RECONCILE_INTERVAL="200ms", RECONCILE_THRESHOLD="10m")
    assert program.ended(execution)["status"] == "delivered"
    assert len(receiver.calls) == 1
    program.until(lambda: "reconciler: cycle complete, re-emitted=1, failed=0" in program.said, "it is told")
    assert "reconciler: found 1 orphaned executions" in program.said
    (line,) = [line for line in program.said.splitlines() if "reconciler: re-emitted" in line]
    assert f"reconciler: re-emitted execution={execution} job=a scheduled_at=" in line
    assert "(age=12m3" in line


def emitted_without_a_worker(url: str, name: str) -> str:
    app = Oncue(url, name="webhook_cron")
    try:
        slot = app.wait(app.schedules.run_now(name))
        assert slot.job_id is not None
        return str(app.wait(app.jobs.get(slot.job_id)).uid)
    finally:
        app.close()


@pytest.mark.contract("HOOK-6", "HOOK-21")
def test_deliveries_go_on_without_redis(make_program: MakeProgram, sqlite_url: str, receiver: Receiver) -> None:
    program = make_program(sqlite_url, REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
    service = program.serve()
    program.until(lambda: "analytics: redis error" in service.said, "it warns")
    program.make("a", receiver.url("/a"))
    assert program.ended(program.trigger("a"))["status"] == "delivered"
    assert service.stop() == 0


@pytest.mark.contract("HOOK-6", "HOOK-21")
def test_executions_are_counted_in_redis(
    make_program: MakeProgram, sqlite_url: str, receiver: Receiver, redis: RedisServer
) -> None:
    program = make_program(sqlite_url, REDIS_URL=redis.url)
    service = program.serve()
    receiver.answers("/a", 200, 400)
    program.make("a", receiver.url("/a"))
    for status in ("delivered", "failed"):
        assert program.ended(program.trigger("a"))["status"] == status
    assert service.stop() == 0
    with redis.client() as client:
        counts = [client.hgetall(key) for key in client.keys("oncue:analytics:*")]
    totals = {field: sum(int(found.get(field, 0)) for found in counts) for field in ("a:delivered", "a:failed")}
    assert totals == {"a:delivered": 1, "a:failed": 1}
    assert "dispatcher: job=a delivered attempt=1" in program.said
    assert "dispatcher: job=a failed" in program.said


@pytest.mark.contract("HOOK-17")
def test_the_metrics_that_operators_watch_are_there(
    make_program: MakeProgram, sqlite_url: str, receiver: Receiver
) -> None:
    program = make_program(sqlite_url)
    program.serve()
    job = program.make("a", receiver.url("/a"), schedule=EVERY_SECOND)
    program.until(lambda: any(one["status"] == "delivered" for one in program.executions(job)), "it is delivered")
    told = program.http.get("/metrics").text
    for name in (
        "oncue_buffer_size", "oncue_buffer_capacity 100.0", "easycron_eventbus_buffer_size", "oncue_emit_errors_total",
        "easycron_eventbus_emit_errors_total 0.0", 'oncue_deliveries_total{outcome="delivered"}',
        'oncue_delivery_attempts_total{outcome="delivered"}', "oncue_delivery_seconds_bucket",
    ):  # fmt: skip
        assert f"\n{name}" in told, name
    assert "orphan" in told
