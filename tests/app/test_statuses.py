"""What the stats count under a status is what a listing of that status lists, by every way in."""

from __future__ import annotations

from random import Random

import pytest

from oncue import Oncue, cron
from oncue.model import Cancelled, Failed, Skipped, Snoozed, State, Succeeded
from tests.app.firing import fire
from tests.app.test_by_hand import a_worker, claimed, settled

COUNTED: dict[str, State] = {
    "queued": "queued", "running": "running", "failed": "failed", "completed": "succeeded",
    "cancelled": "cancelled", "skipped": "skipped",
}  # fmt: skip
"""The keys of the stats, and the status that lists what each counts."""
OUTCOMES = (Succeeded(), Failed("x"), Failed("x", final=True), Cancelled(), Skipped("no"), Snoozed(3600.0), None)


async def lived_through(app: Oncue, dice: Random) -> None:
    """Jobs in every state that there is, as many as the dice say."""
    work = app.find("work")
    node = await a_worker(app)
    for outcome in OUTCOMES:
        for number in range(dice.randrange(1, 4)):
            await work.aenqueue(number)
            claim = await claimed(app, node)
            if outcome is not None:
                assert await settled(app, claim, outcome)
    await work.using(delay="1h").aenqueue_many(range(dice.randrange(1, 4)))
    await work.aenqueue_many(range(dice.randrange(1, 4)))
    now = await app.now()
    made = await app.schedules.create("often", cron("* * * * * *"), work, {"n": 1})
    await app.schedules.backfill(made.name, now.replace(microsecond=0), now)
    await fire((await app.internals.connected()).store, now)


@pytest.mark.contract("QUE-10", "QUE-11")
@pytest.mark.parametrize("seed", range(3))
async def test_a_status_lists_what_the_stats_count(app: Oncue, seed: int) -> None:
    @app.task
    def work(n: int) -> None: ...

    await lived_through(app, Random(seed))
    await (await app.internals.connected()).store.counters.fold(10_000)
    stats = await app.jobs.stats()
    listed = {key: len(await app.jobs.list([status])) for key, status in COUNTED.items()}
    assert listed == {key: getattr(stats, key) for key in COUNTED}
    assert all(listed.values())
    assert sum(listed.values()) == len(await app.jobs.list())
    later = await app.jobs.list(["scheduled", "retrying"])
    assert {job.id for job in later} < {job.id for job in await app.jobs.list(["queued"])}
