"""Days of a crowd that end together: written in one go, and each comes to what it would have come to by itself."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from oncue import Oncue
from oncue.model import Applied, Batch, Change, Day, DayCount, LeaderEpoch, NextDay, OpenJob, Subject
from oncue.policy.lifecycle import close_day
from oncue.policy.window_steps import DuePage
from oncue.store.shared import Endings
from tests.app.test_windows import Bench, app, led, stored

__all__ = ["app"]

OPENING, CUTOFF = (datetime(2030, 1, 2, hour, tzinfo=UTC) for hour in (8, 9))
TOMORROW = Day(CUTOFF.date() + timedelta(days=1), OPENING + timedelta(days=1), CUTOFF + timedelta(days=1))
JOB = OpenJob(1, "queued", 0, "{}", OPENING, 0, 0, 0, None, None, None, None)
END = close_day(JOB, CUTOFF, "cutoff_reached", "cutoff_reached", (), NextDay(3, TOMORROW, 540))
NAMES = ("ann", "bob", "cid", "dan", "eve")


def hook(job_id: int, name: str) -> Batch:
    return Batch(
        task="reset", queue="default", priority=0, state="queued", options="{}", max_retries=0, max_runtime=None,
        created_at=CUTOFF, visible_at=CUTOFF, deadline_at=None, enqueued_by="window", retry_of=None, ids=[job_id],
        args=[f'{{"user": "{name}"}}'],
    )  # fmt: skip


async def changes_of(bench: Bench, names: list[str]) -> list[Change]:
    """The end of each one's day, with its hook; the fence of the second does not hold, nor the version of the third."""
    subjects = [await stored(bench.app, name) for name in names]
    jobs = {job.id: job for job in await bench.store.windows.unfinished([one.job_id or 0 for one in subjects])}
    ids = await bench.store.jobs.reserve(len(names))
    made = []
    for place, (subject, job_id) in enumerate(zip(subjects, ids, strict=True)):
        job = jobs[subject.job_id or 0]._replace(claim_no=int(place == 1))
        moves_on = NextDay(subject.version - (place == 2), TOMORROW, 540)
        follow = (hook(job_id, subject.name),)
        made.append(close_day(job, CUTOFF, "cutoff_reached", "cutoff_reached", follow, moves_on))
    return made


async def told(bench: Bench, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A subject and the job of its day, but for what is its own."""
    subject = await stored(bench.app, name)
    row = dataclasses.asdict(dataclasses.replace(subject, name="", job_id=None, created_at=OPENING))
    (slot,) = await bench.store.windows.ledger(subject.schedule_id, name, OPENING - timedelta(days=1), CUTOFF, 9)
    job = dataclasses.asdict(await bench.app.jobs.get(slot.job_id or 0))
    return {**row, "has_job": subject.job_id is not None}, {**job, "id": 0, "subject": "", "args": {}}


@pytest.mark.contract("WIN-6", "WIN-13")
async def test_days_that_are_ended_together_come_to_what_each_comes_to_by_itself(app: Oncue) -> None:
    bench = await led(app)
    together, apart = list(NAMES), [f"{name} too" for name in NAMES]
    for name in (*together, *apart):
        await bench.put(name)
    await bench.plan(OPENING)
    crowd = await changes_of(bench, together)
    assert Endings(crowd, [*range(len(crowd))]).are_alike
    answers = await bench.store.jobs.apply(crowd, CUTOFF)
    singly: list[Applied] = []
    for change in await changes_of(bench, apart):
        singly += await bench.store.jobs.apply([change], CUTOFF)
    assert answers == singly == [True, False, True, True, True]
    for one, other in zip(together, apart, strict=True):
        assert await told(bench, one) == await told(bench, other)
    moved = [(await stored(app, name)).day for name in together]
    assert moved == [TOMORROW.date, OPENING.date(), OPENING.date(), TOMORROW.date, TOMORROW.date]
    hooks = sorted(job.args["user"] for job in await app.jobs.list(task="reset", limit=100))
    assert hooks == sorted(name for name in (*together, *apart) if not name.startswith("bob"))
    assert await app.windows.day("digest", OPENING.date()) == [
        DayCount(540, "cutoff_reached", 8),
        DayCount(540, "opened", 10),
    ]


OTHER: dict[str, Any] = {
    "from_state": "retrying", "state": "failed", "reason": "missed", "outcome": "failed", "visible_at": CUTOFF,
    "retry_count": 1, "attempt": 1, "crashes": 1, "started_at": CUTOFF, "ended_at": OPENING, "result": "1",
    "error": "boom", "isolation": 1, "details": "{}", "day_status": "missed", "next_day": NextDay(3, TOMORROW, 541),
    "leader": LeaderEpoch(uuid4(), 1),
}  # fmt: skip


@pytest.mark.parametrize("field", [*OTHER, "id", "claim_no", "follow_ups"])
def test_ends_are_alike_that_differ_in_nothing_but_what_is_told_of_each(field: str) -> None:
    own = {"id": 2, "claim_no": 1, "follow_ups": (hook(7, "ann"),)}
    assert {*OTHER, *own} == {*Change._fields[: Change._fields.index("before")], "leader"}
    second = END._replace(**{"id": 2, field: {**OTHER, **own}[field]})
    assert Endings([END, second], [0, 1]).are_alike == (field in own)


def test_other_versions_are_alike_and_other_days_and_no_days_are_not() -> None:
    def alike(moves_on: NextDay | None) -> bool:
        return Endings([END, END._replace(id=2, next_day=moves_on)], [0, 1]).are_alike

    assert alike(NextDay(4, TOMORROW, 540))
    assert not alike(NextDay(3, TOMORROW._replace(cutoff_at=CUTOFF), 540))
    assert not alike(None)


def test_two_ends_of_one_job_and_plain_ends_are_not_alike() -> None:
    assert not Endings([END, END], [0, 1]).are_alike
    assert not Endings([END], [0]).are_alike
    plain = END._replace(day_status=None)
    assert not Endings([plain, plain._replace(id=2)], [0, 1]).are_alike


@pytest.mark.contract("WIN-9", "WIN-14")
async def test_a_page_plans_each_subject_as_if_it_were_the_only_one(app: Oncue) -> None:
    """Subjects differ in one thing that their days follow from, before and after the cutoff, and days later."""
    bench = await led(app)
    ann = await bench.put("ann")
    rows = [
        ann, *[dataclasses.replace(ann, **fields) for fields in (
            {"name": "bob"}, {"due": 600}, {"tz": "Asia/Tokyo"}, {"weekdays": 1}, {"days_off": (TOMORROW.date,)},
            {"job_id": 5}, {"last_date": ann.day}, {"since": CUTOFF}, {"since": CUTOFF + timedelta(days=1)},
            {"since": ann.since - timedelta(days=1)}, {"opens_at": OPENING - timedelta(hours=1)},
            {"cutoff_at": CUTOFF + timedelta(minutes=1)}, {"day": TOMORROW.date},
        )],
    ]  # fmt: skip
    stopping = JOB._replace(cancel_requested_at=OPENING)
    for now in (OPENING, CUTOFF, CUTOFF + timedelta(days=1), CUTOFF + timedelta(days=5)):
        page = DuePage(bench.window, now)
        for row in rows:
            for job in (None, JOB, stopping) if row.job_id else (None,):
                assert page.planned(row, job) == planned_alone(bench, row, job, now)


def planned_alone(bench: Bench, row: Subject, job: OpenJob | None, now: datetime) -> Any:
    return DuePage(bench.window, now).planned(row, job)
