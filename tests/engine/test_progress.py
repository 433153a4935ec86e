"""What a handler tells of its progress: checked when it is told, and only the latest handed on."""

from __future__ import annotations

import asyncio

import pytest

from oncue.engine.context import current_job
from oncue.model import Failed
from tests.engine.stage import Stage, settle


async def test_the_latest_progress_of_each_attempt_is_handed_out_until_it_is_saved() -> None:
    step = [asyncio.Event(), asyncio.Event()]

    async def climb(by: float) -> None:
        job = current_job()
        for number in (1, 2):
            job.progress(0.0, "this is never seen")
            job.progress(number * by, f"step {number}")
            await step[number - 1].wait()

    async def silent() -> None:
        await asyncio.Event().wait()

    def told() -> list[tuple[int, float, str | None]]:
        return [(progress.job_id, progress.fraction, progress.note) for progress in stage.executor.progressed()]

    stage = Stage(climb, silent)
    stage.submit(stage.claim("climb", args={"by": 0.1}), stage.claim("climb", args={"by": 0.2}), stage.claim("silent"))
    await settle()
    assert told() == told() == [(1, 0.1, "step 1"), (2, 0.2, "step 1")]
    first, second = stage.executor.progressed()
    assert first.told_at == stage.now
    stage.executor.saved([second])
    assert told() == [(1, 0.1, "step 1")]
    step[0].set()
    await settle()
    stage.executor.saved([first])  # what was written while the handler went on is not the latest
    assert told() == [(1, 0.2, "step 2"), (2, 0.4, "step 2")]
    stage.executor.cancel(1, 1)
    await settle()
    assert told() == [(2, 0.4, "step 2")], "what has ended is told by its outcome"


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), float("inf"), "half", None])
async def test_a_fraction_outside_of_0_to_1_is_refused(wrong: object) -> None:
    async def work() -> None:
        current_job().progress(wrong)  # type: ignore[arg-type]

    outcome = await Stage(work).outcome("work")
    assert isinstance(outcome, Failed)
    assert outcome.error.endswith(f"ValueError: fraction: expected a number from 0 to 1, not {wrong!r}")


async def test_a_note_is_kept_short() -> None:
    async def work() -> None:
        current_job().progress(1, "x" * 1000 + " the end\x00")
        await asyncio.Event().wait()

    stage = Stage(work)
    stage.submit(stage.claim("work"))
    await settle()
    (told,) = stage.executor.progressed()
    assert told.note is not None
    assert len(told.note.encode()) <= 200
    assert told.note.endswith("xx the end\\x00")
