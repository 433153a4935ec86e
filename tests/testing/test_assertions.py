from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from oncue import InvalidJob, JobNotFound, Oncue, Task
from oncue.testing import Kit, use

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def send(app: Oncue) -> Task[..., None]:
    @app.task(queue="mail")
    def send(to: str, on: datetime | None = None, copies: int = 1) -> None: ...

    return send


def test_a_job_is_found_by_its_arguments(kit: Kit, send: Task[..., None]) -> None:
    receipt = send.enqueue("ada", copies=2)
    for job in (
        kit.assert_enqueued(send),
        kit.assert_enqueued(send, "ada"),
        kit.assert_enqueued(send, copies=2),
        kit.assert_enqueued(send, "ada", copies=2, on=None),
    ):
        assert job.id == receipt.id


def test_arguments_are_compared_as_they_are_stored(kit: Kit, send: Task[..., None]) -> None:
    send.enqueue("ada", NOON)
    kit.assert_enqueued(send, on=NOON)
    kit.assert_enqueued(send, on="2030-01-01T12:00:00Z")
    kit.refute_enqueued(send, on=NOON + timedelta(seconds=1))


def test_a_default_counts_as_given(kit: Kit, send: Task[..., None]) -> None:
    send.enqueue("ada")
    kit.assert_enqueued(send, "ada", copies=1)
    kit.refute_enqueued(send, "ada", copies=2)


@pytest.mark.parametrize(
    "options",
    [{"queue": "slow"}, {"priority": 60}, {"delay": "10m"}, {"key": "k"}, {"key": lambda to, **_: f"to {to}"}],
    ids=lambda options: next(iter(options)),
)
def test_options_are_compared_when_they_are_named(kit: Kit, send: Task[..., None], options: dict[str, object]) -> None:
    send.enqueue("ada")
    kit.refute_enqueued(send.using(**options), "ada")  # type: ignore[arg-type]
    send.using(**options).enqueue("ada")  # type: ignore[arg-type]
    kit.assert_enqueued(send.using(**options), "ada")  # type: ignore[arg-type]


def test_a_default_option_is_compared_when_it_is_named(kit: Kit, send: Task[..., None]) -> None:
    send.using(priority=60).enqueue("ada")
    kit.refute_enqueued(send.using(priority=0), "ada")


def test_an_instant_can_be_named(app: Oncue, send: Task[..., None]) -> None:
    with use(app, now=NOON) as kit:
        send.using(at=NOON + timedelta(hours=1)).enqueue("ada")
        kit.assert_enqueued(send.using(at=NOON + timedelta(hours=1)))
        kit.assert_enqueued(send.using(delay="1h"))
        kit.refute_enqueued(send.using(at=NOON))


def test_the_message_shows_what_was_enqueued_instead(app: Oncue, kit: Kit, send: Task[..., None]) -> None:
    @app.task
    def other() -> None: ...

    other.enqueue()
    send.using(key="k", delay="10m").enqueue("bob")
    with pytest.raises(AssertionError) as failure:
        kit.assert_enqueued(send.using(priority=60, delay="90m"), "ada")
    assert str(failure.value) == (
        "no job send(to='ada') delay=1h30m priority=60 was enqueued; enqueued were:\n"
        "  send(to='bob') queue=mail priority=0 key=k delay=10m, now scheduled\n"
        "  other() queue=default priority=0, now queued"
    )


def test_the_message_says_when_there_was_nothing(kit: Kit, send: Task[..., None]) -> None:
    with pytest.raises(AssertionError, match=r"no job send\(\) was enqueued; nothing was enqueued at all"):
        kit.assert_enqueued(send)


def test_the_message_stays_short(kit: Kit, send: Task[..., None]) -> None:
    send.enqueue_many(f"user {n}" for n in range(30))
    with pytest.raises(AssertionError, match="and 10 more") as failure:
        kit.assert_enqueued(send, "ada")
    assert len(str(failure.value).splitlines()) == 22


def test_refuting_shows_what_was_there(kit: Kit, send: Task[..., None]) -> None:
    send.enqueue("ada")
    with pytest.raises(
        AssertionError, match=r"no job send\(to='ada'\) was expected; enqueued were:\n  send\(to='ada'\)"
    ):
        kit.refute_enqueued(send, "ada")


def test_it_does_not_matter_that_the_job_has_run(kit: Kit, send: Task[..., None]) -> None:
    send.enqueue("ada")
    kit.drain()
    kit.assert_enqueued(send, "ada")


def test_the_job_that_a_test_performs_is_not_one_that_was_enqueued(app: Oncue, kit: Kit) -> None:
    @app.task
    def crawl(depth: int) -> None:
        if depth:
            crawl.enqueue(depth - 1)

    kit.perform(crawl, 1)
    kit.assert_enqueued(crawl, 0)
    kit.refute_enqueued(crawl, 1)


def test_an_expectation_that_no_job_can_meet_is_an_error(kit: Kit, send: Task[..., None]) -> None:
    with pytest.raises(InvalidJob, match="copies: no job can have it"):
        kit.refute_enqueued(send, copies="many")
    with pytest.raises(InvalidJob, match="unexpected keyword argument 'cc'"):
        kit.refute_enqueued(send, cc="bob")


def test_jobs_are_listed_oldest_first_and_narrowed_down(app: Oncue, kit: Kit, send: Task[..., None]) -> None:
    @app.task
    def broken() -> None:
        raise ValueError

    send.enqueue("ada")
    broken.using(max_retries=0).enqueue()
    send.enqueue("bob")
    kit.drain()
    assert [job.task for job in kit.jobs()] == ["send", "broken", "send"]
    assert [job.args["to"] for job in kit.jobs(send)] == ["ada", "bob"]
    assert [job.task for job in kit.jobs(state="failed")] == ["broken"]


def test_thousands_of_jobs_are_all_listed(kit: Kit, send: Task[..., None]) -> None:
    send.enqueue_many(f"user {n}" for n in range(2500))
    assert [job.args["to"] for job in kit.jobs()] == [f"user {n}" for n in range(2500)]


def test_one_job_is_shown_by_receipt_job_id_or_uid(kit: Kit, send: Task[..., None]) -> None:
    receipt = send.enqueue("ada")
    job = kit.job(receipt)
    assert kit.job(job) == kit.job(receipt.id) == kit.job(receipt.uid) == job
    with pytest.raises(JobNotFound):
        kit.job(99)
