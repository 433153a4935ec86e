"""Many callers of several processes change one day at once, while the planner closes it: it has one outcome all the
same, on both stores."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, date, datetime

import pytest

from oncue import Conflict, JobNotFound, Oncue, SubjectNotFound, daily
from oncue.model import TERMINAL, Job
from oncue.policy.days import fate_of
from oncue.verbs.schedules.declaring import Declaring
from tests.app.conftest import MakeApp
from tests.app.test_windows import DAY, Bench, led, stored

OPENS, CUTOFF = (datetime(2030, 1, 2, hour, tzinfo=UTC) for hour in (8, 9))
NAMES = [f"user{number}" for number in range(8)]
APPS, TURNS = 3, 6


def declared(app: Oncue) -> Oncue:
    @app.task
    async def reset_chat(user: str, day: date) -> None: ...

    @app.task(schedule=daily(window="60m", retry="10m"), on_cutoff=reset_chat)
    async def digest(user: str, day: date) -> None: ...

    return app


async def days_job(app: Oncue, name: str) -> Job:
    return await app.jobs.get((await stored(app, name)).job_id or 0)


async def outcome(app: Oncue, name: str) -> str:
    """What the ledger says of the day, in one row."""
    (slot,) = await app.windows.ledger("digest", name, start=DAY, end=DAY)
    return fate_of(slot)


class Callers:
    """What operators and users do to one subject's day, in an order that the dice say."""

    def __init__(self, app: Oncue, name: str, dice: random.Random) -> None:
        self._app, self._name = app, name
        self._verbs = dice.choices((self.succeed, self.end, self.again, self.remove, self.add, self.run), k=TURNS)

    async def act(self) -> None:
        for verb in self._verbs:
            await _tried(verb)

    async def succeed(self) -> None:
        await self._app.jobs.set_status((await days_job(self._app, self._name)).id, "succeeded")

    async def end(self) -> None:
        await self._app.jobs.set_status((await days_job(self._app, self._name)).id, "failed")

    async def again(self) -> None:
        await self._app.jobs.retry((await days_job(self._app, self._name)).id)

    async def remove(self) -> None:
        await self._app.windows.remove("digest", self._name)

    async def add(self) -> None:
        await self._app.windows.add("digest", self._name, at="09:00")

    async def run(self) -> None:
        await self._app.windows.run_now("digest", self._name)


async def _tried(verb: Callable[[], Awaitable[None]]) -> None:
    with suppress(Conflict, SubjectNotFound, JobNotFound):  # another caller was there first, and this one is told so
        await verb()


async def attacked(apps: list[Oncue], bench: Bench, seed: int) -> None:
    dice = random.Random(seed)
    callers = [Callers(app, name, dice).act() for name in NAMES for app in apps]
    await asyncio.gather(*callers, bench.plan(OPENS))
    late = [Callers(app, name, dice).act() for name in NAMES for app in apps]
    await asyncio.gather(*late, bench.plan(CUTOFF))
    for name in NAMES:
        await apps[0].windows.add("digest", name, at="09:00")
    await bench.plan(CUTOFF)


@pytest.mark.contract("WIN-1", "WIN-2", "WIN-6", "WIN-13")
@pytest.mark.parametrize("seed", range(4))
async def test_a_day_that_many_change_at_once_has_one_outcome(make_app: MakeApp, database_url: str, seed: int) -> None:
    apps = [declared(make_app(database_url)) for _ in range(APPS)]
    await Declaring(apps[0].internals).synchronise()
    bench = await led(apps[0])
    for name in NAMES:
        await bench.put(name)
    await bench.plan(OPENS)
    await attacked(apps, bench, seed)
    jobs = await apps[0].jobs.list(limit=1000)
    of_day = [job for job in jobs if job.task == "digest" and job.scheduled_for == datetime(2030, 1, 2, tzinfo=UTC)]
    assert [job.id for job in of_day if job.state not in TERMINAL] == []
    successes = Counter(job.subject for job in of_day if job.state == "succeeded")
    hooks = Counter(job.args["user"] for job in jobs if job.task == "reset_chat" and job.args["day"] == DAY.isoformat())
    told = {name: await outcome(apps[0], name) for name in NAMES}
    assert {name: (successes[name], hooks[name]) for name in NAMES} == {
        name: (1, 0) if status == "success" else (0, 1) for name, status in told.items()
    }
    counted = Counter[str]()
    for one in await bench.store.windows.day(bench.window.id, DAY):
        counted[one.event] += one.subjects
    assert counted == {"opened": len(NAMES), **Counter(told.values())}
