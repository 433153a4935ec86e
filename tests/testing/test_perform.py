from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from oncue import InvalidJob, Oncue, current_job
from oncue.testing import Kit


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Line:
    product: str
    size: Size


def test_arguments_and_results_pass_through_json(app: Oncue, kit: Kit) -> None:
    got: list[Any] = []

    @app.task
    def order(lines: list[Line], at: datetime) -> tuple[Line, ...]:
        got.append((lines, at))
        return tuple(lines)

    line, at = Line("shirt", Size.LARGE), datetime(2030, 1, 1, tzinfo=UTC)
    job = kit.perform(order, [line], at)
    assert got == [([line], at)]
    assert got[0][0][0] is not line, "what the handler gets was read back, as on a worker"
    assert job.result == [{"product": "shirt", "size": "l"}]


def test_arguments_are_refused_as_in_production(app: Oncue, kit: Kit) -> None:
    @app.task
    def order(number: int) -> None: ...

    with pytest.raises(InvalidJob, match="number"):
        kit.perform(order, "many")  # type: ignore[arg-type]
    assert kit.jobs() == []


def test_a_result_without_a_json_form_is_not_kept(app: Oncue, kit: Kit) -> None:
    @app.task
    def work() -> object:
        return object()

    job = kit.perform(work)
    assert (job.state, job.result, job.reason) == ("succeeded", None, "result_not_json")


def test_it_runs_before_everything_that_waits(app: Oncue, kit: Kit) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    work.using(priority=100).enqueue(1)
    work.enqueue(2)
    job = kit.perform(work, 3)
    assert (job.state, job.result) == ("succeeded", 3)
    assert [(other.args["n"], other.state, other.attempt) for other in kit.jobs()] == [
        (1, "queued", 0),
        (2, "queued", 0),
        (3, "succeeded", 1),
    ]


async def test_it_can_be_awaited(app: Oncue, kit: Kit) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    assert (await kit.aperform(work, 3)).result == 3


def test_options_come_with_using(app: Oncue, kit: Kit) -> None:
    @app.task
    def work() -> list[Any]:
        job = current_job()
        job.rows(7)
        return [job.queue, job.attempt, job.retries_left]

    assert kit.perform(work.using(queue="mail", max_retries=9)).result == ["mail", 1, 9]


def test_a_job_that_is_due_later_cannot_be_performed(app: Oncue, kit: Kit) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(AssertionError, match=r"job work\(\) cannot run now: it is scheduled"):
        kit.perform(work.using(delay="1h"))


def test_the_job_that_holds_the_key_is_the_one_that_runs(app: Oncue, kit: Kit) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    standing = work.using(key="k").enqueue(1)
    job = kit.perform(work.using(key="k"), 2)
    assert (job.id, job.result) == (standing.id, 1)


def test_progress_is_kept_with_the_job(app: Oncue, kit: Kit) -> None:
    @app.task
    def crawl(pages: int) -> None:
        for page in range(1, pages + 1):
            current_job().progress(page / pages, f"page {page}")

    job = kit.perform(crawl, 4)
    assert (job.progress, job.progress_note) == (1.0, "page 4")
