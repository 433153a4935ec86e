"""Inside the kit a caller's own connection is accepted, and left alone: the job goes to the kit's store at once."""

from __future__ import annotations

import asyncio
import sqlite3

import aiosqlite
import pytest

from oncue import InvalidJob, Oncue, Task
from oncue.testing import Kit


@pytest.fixture
def work(app: Oncue) -> Task[[int], int]:
    @app.task
    def work(n: int) -> int:
        return n

    return work


def test_a_job_of_a_transaction_is_there_at_once_and_does_not_follow_it(kit: Kit, work: Task[[int], int]) -> None:
    connection = sqlite3.connect(":memory:")
    receipt = work.using(on=connection, key="k").enqueue(1)
    work.using(on=connection, key="k").enqueue_many([2])
    connection.rollback()
    connection.close()
    assert kit.assert_enqueued(work.using(on=connection, key="k"), 1).id == receipt.id
    assert kit.drain() == {"succeeded": 1}


def test_a_stand_in_will_do_for_a_connection(kit: Kit, work: Task[[int], int]) -> None:
    assert kit.perform(work.using(on=object()), 7).result == 7


def test_plain_and_async_code_enqueue_as_they_do_in_production(
    kit: Kit, work: Task[[int], int], runner: asyncio.Runner
) -> None:
    async def inside() -> None:
        async with aiosqlite.connect(":memory:") as connection:
            await work.using(on=connection).aenqueue(1)
            work.using(on=object()).enqueue(2)  # in a running loop too
            with pytest.raises(InvalidJob, match=r"on: .* is asynchronous"):
                work.using(on=connection).enqueue(3)

    runner.run(inside())
    assert [job.args["n"] for job in kit.jobs()] == [1, 2]
