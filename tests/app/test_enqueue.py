from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue import InvalidJob, Oncue, StoreUnavailable, Task, UnknownTask
from tests.store.scene import a_batch


@pytest.fixture
def send(app: Oncue) -> Task[[int], None]:
    @app.task(queue="mail", priority=20)
    def send(order_id: int) -> None: ...

    return send


def the_job(app: Oncue, job_id: int) -> Any:
    return app.wait(app.jobs.get(job_id))


def test_a_job_is_written_from_plain_code(app: Oncue, send: Task[[int], None]) -> None:
    receipt = send.enqueue(42)
    job = the_job(app, receipt.id)
    assert receipt.created
    assert (job.uid, job.task, job.args) == (receipt.uid, "send", {"order_id": 42})
    assert (job.queue, job.priority, job.state, job.enqueued_by) == ("mail", 20, "queued", "system")


async def test_a_job_is_written_from_a_coroutine(app: Oncue, send: Task[[int], None]) -> None:
    receipt = await send.aenqueue(order_id=42)
    assert (await app.jobs.get(receipt.uid)).args == {"order_id": 42}


def test_many_jobs_are_written_in_one_call(app: Oncue) -> None:
    @app.task
    def pair(left: int, right: str = "-") -> None: ...

    rows = [(1, "a"), {"left": 2}, 3, {"right": "d", "left": 4}]
    receipts = pair.enqueue_many(rows)
    assert [the_job(app, receipt.id).args for receipt in receipts] == [
        {"left": 1, "right": "a"},
        {"left": 2},
        {"left": 3},
        {"left": 4, "right": "d"},
    ]
    assert pair.enqueue_many([]) == []


async def test_a_hundred_thousand_jobs_are_written_in_one_call(app: Oncue, send: Task[[int], None]) -> None:
    receipts = await send.aenqueue_many(range(100_000))
    assert len({receipt.uid for receipt in receipts}) == 100_000
    assert [receipt.id for receipt in receipts] == sorted(receipt.id for receipt in receipts)
    assert all(receipt.created for receipt in receipts)
    (queue,) = await app.queues.list()
    assert (queue.name, queue.queued) == ("mail", 100_000)
    assert (await app.jobs.get(receipts[77_777].uid)).args == {"order_id": 77_777}


async def test_one_bad_row_among_many_writes_nothing(app: Oncue, send: Task[[int], None]) -> None:
    with pytest.raises(InvalidJob, match="order_id"):
        await send.aenqueue_many([1, 2, "three"])
    assert await app.jobs.list() == []


async def test_a_delayed_job_is_scheduled(app: Oncue, send: Task[[int], None]) -> None:
    job = await app.jobs.get((await send.using(delay="10m").aenqueue(1)).id)
    assert job.state == "scheduled"
    assert job.visible_at - job.created_at == timedelta(minutes=10)


async def test_an_instant_can_be_named(app: Oncue, send: Task[[int], None]) -> None:
    at = datetime(2100, 1, 1, tzinfo=UTC)
    job = await app.jobs.get((await send.using(at=at).aenqueue(1)).id)
    assert (job.state, job.visible_at) == ("scheduled", at)


async def test_an_instant_in_the_past_is_now(app: Oncue, send: Task[[int], None]) -> None:
    job = await app.jobs.get((await send.using(at=datetime(2000, 1, 1, tzinfo=UTC)).aenqueue(1)).id)
    assert (job.state, job.visible_at) == ("queued", job.created_at)


async def test_options_of_one_enqueue_win_over_the_tasks(app: Oncue, send: Task[[int], None]) -> None:
    call = send.using(queue="slow", priority=100, max_retries=9, deadline="1h", enqueued_by="ada")
    job = await app.jobs.get((await call.aenqueue(1)).id)
    assert (job.queue, job.priority, job.max_retries, job.enqueued_by) == ("slow", 100, 9, "ada")
    assert job.deadline_at == job.created_at + timedelta(hours=1)


@pytest.mark.contract("QUE-3")
async def test_a_key_has_one_unfinished_job_and_the_receipt_says_which(app: Oncue, send: Task[[int], None]) -> None:
    first = await send.using(key="order:1").aenqueue(1)
    second = await send.using(key="order:1").aenqueue(2)
    assert (second.id, second.uid, second.created) == (first.id, first.uid, False)
    assert (await app.jobs.get(first.id)).args == {"order_id": 1}, "the duplicate changed nothing"
    await app.jobs.cancel(first.id)
    third = await send.using(key="order:1").aenqueue(3)
    assert third.created
    assert third.id != first.id


@pytest.mark.contract("QUE-3")
async def test_a_key_made_of_the_arguments_dedupes_within_one_call(app: Oncue, send: Task[[int], None]) -> None:
    receipts = await send.using(key=lambda order_id: f"order:{order_id}").aenqueue_many([1, 2, 1, 3, 2])
    assert [receipt.created for receipt in receipts] == [True, True, False, True, False]
    assert receipts[0].id == receipts[2].id
    assert receipts[1].id == receipts[4].id


@pytest.mark.contract("QUE-3")
async def test_keys_of_two_tasks_do_not_meet(app: Oncue, send: Task[[int], None]) -> None:
    @app.task
    def other(order_id: int) -> None: ...

    await send.using(key="k").aenqueue(1)
    assert (await other.using(key="k").aenqueue(1)).created


@pytest.mark.contract("QUE-3")
def test_only_one_of_many_threads_makes_the_job(app: Oncue, send: Task[[int], None]) -> None:
    with ThreadPoolExecutor(16) as threads:
        receipts = list(threads.map(lambda n: send.using(key="one").enqueue(n), range(64)))
    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.id for receipt in receipts}) == 1


def test_many_threads_enqueue_at_once(app: Oncue, send: Task[[int], None]) -> None:
    with ThreadPoolExecutor(16) as threads:
        receipts = list(threads.map(send.enqueue, range(200)))
    assert len({receipt.id for receipt in receipts}) == len({receipt.uid for receipt in receipts}) == 200
    (queue,) = app.wait(app.queues.list())
    assert queue.queued == 200


async def test_enqueue_inside_a_loop_says_what_to_use_instead(app: Oncue, send: Task[[int], None]) -> None:
    with pytest.raises(
        RuntimeError, match=r"would block the running event loop: use `await` \(for enqueue: `aenqueue`, for deliver"
    ):
        send.enqueue(1)
    with pytest.raises(RuntimeError, match="aenqueue"):
        send.enqueue_many([1])
    with pytest.raises(RuntimeError, match="await"):
        app.wait(app.jobs.list())
    assert await app.jobs.list() == []


async def test_enqueue_in_a_thread_beside_a_loop_is_fine(app: Oncue, send: Task[[int], None]) -> None:
    receipt = await asyncio.to_thread(send.enqueue, 1)
    assert (await app.jobs.get(receipt.id)).state == "queued"


def test_a_new_loop_every_time_leaves_no_threads_behind(app: Oncue, send: Task[[int], None]) -> None:
    before = set(threading.enumerate())
    for n in range(10):
        asyncio.run(send.aenqueue(n))
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread.name


def test_an_application_that_was_closed_opens_again(app: Oncue, send: Task[[int], None]) -> None:
    send.enqueue(1)
    app.close()
    app.close()
    assert send.enqueue(2).created


def test_closing_an_application_leaves_nobody_waiting(app: Oncue, send: Task[[int], None]) -> None:
    """Whoever was enqueueing at that moment gets a receipt or an error, not eternity."""
    send.enqueue(0)
    answers: list[object] = []

    def enqueue_on_and_on() -> None:
        for n in range(200):
            try:
                answers.append(send.enqueue(n))
            except StoreUnavailable as error:
                answers.append(error)

    threads = [threading.Thread(target=enqueue_on_and_on, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        app.close()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 800


async def test_ids_that_the_database_hands_out_twice_are_thrown_away(app: Oncue, send: Task[[int], None]) -> None:
    """After a fail-over another process may get the ids that this one still has in hand."""
    for n in range(5):
        await send.aenqueue(n)
    connection = await app.internals.connected()
    taken = list(connection._spare_ids)
    assert taken, "the test needs some in hand"
    await connection.store.jobs.enqueue([a_batch(len(taken))._replace(ids=taken)])
    receipt = await send.aenqueue(42)
    assert receipt.id not in taken
    assert (await app.jobs.get(receipt.id)).args == {"order_id": 42}


async def test_telemetry_hears_of_jobs_and_duplicates(app: Oncue, send: Task[[int], None]) -> None:
    heard: list[dict[str, float]] = []
    app.internals.telemetry.subscribe(lambda event, measurements, metadata: heard.append(dict(measurements)), "enqueue")
    await send.using(key=str).aenqueue_many([1, 2, 2])
    assert heard == [{"jobs": 2, "duplicates": 1}]


BAD_OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"priority": 101}, "priority", "expected a whole number from 0 to 100, not 101"),
    ({"priority": -1}, "priority", "0 to 100"),
    ({"priority": 1.5}, "priority", "0 to 100"),
    ({"priority": True}, "priority", "0 to 100"),
    ({"queue": ""}, "queue", "a printable name of 1 to 128 characters"),
    ({"queue": " mail"}, "queue", "without commas and spaces"),
    ({"queue": "m" * 129}, "queue", "a printable name"),
    ({"delay": "soon"}, "delay", "expected a duration such as '30s'"),
    ({"delay": -1}, "delay", "between 0 and 100 years"),
    ({"delay": float("nan")}, "delay", "between 0 and 100 years"),
    ({"at": datetime(2030, 1, 1)}, "at", "expected a datetime with a time zone"),
    ({"at": "tomorrow"}, "at", "expected a datetime with a time zone"),
    ({"at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 1}, "at", "either `delay` or `at`"),
    ({"deadline": "never"}, "deadline", "expected a duration"),
    ({"max_retries": -1}, "max_retries", "0 to 1,000,000"),
    ({"enqueued_by": None}, "enqueued_by", "a printable name"),
    ({"enqueued_by": "a\x00b"}, "enqueued_by", "a printable name"),
]


@pytest.mark.parametrize(("options", "field", "message"), BAD_OPTIONS, ids=lambda value: str(value)[:30])
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], field: str, message: str) -> None:
    @Oncue("sqlite:///never.db").task
    def work() -> None: ...

    with pytest.raises(InvalidJob, match=message) as refusal:
        work.using(**options)
    assert refusal.value.field == field


@pytest.mark.parametrize("key", ["", "k" * 513, "a\x00b", "\ud800", 7, lambda: 7, lambda: ""], ids=range(7))
async def test_a_bad_key_is_refused(make_app: Any, sqlite_url: str, key: Any) -> None:
    app = make_app(sqlite_url)

    @app.task  # type: ignore[untyped-decorator]
    def work() -> None: ...

    with pytest.raises(InvalidJob, match="key: expected a text of 1 to 512 characters"):
        await work.using(key=key).aenqueue()
    assert await app.jobs.list() == []


async def test_an_instant_beyond_a_hundred_years_is_refused(make_app: Any, sqlite_url: str) -> None:
    app = make_app(sqlite_url)

    @app.task  # type: ignore[untyped-decorator]
    def work() -> None: ...

    with pytest.raises(InvalidJob, match="at: expected an instant within the next hundred years"):
        await work.using(at=datetime(9999, 1, 1, tzinfo=UTC)).aenqueue()


def test_calling_a_task_runs_it_here_and_now() -> None:
    app = Oncue("sqlite:///never.db")

    @app.task
    def double(n: int) -> int:
        """Twice as many."""
        return 2 * n

    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice as many.")
    assert app.find("double") is double
    with pytest.raises(UnknownTask, match="no task 'triple' is declared; declared are: double"):
        app.find("triple")
