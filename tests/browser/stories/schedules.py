"""Schedules in all their states: of tasks and webhooks, in code and at run time, paused, late, with slots that fired,
failed, were missed, coalesced, skipped or run by hand, and one that was edited and one that was deleted."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

from oncue import Oncue, cron, daily
from oncue.model import Decided, Step
from oncue.policy import schedules as policy
from oncue.policy.triggers import Rule

REPORT, FAILING, OUTAGE, DENSE, PAUSED = (
    "schedules.report", "schedules.failing", "schedules.outage", "schedules.dense", "schedules.paused"
)  # fmt: skip
DELIVERED, EDITED, CODED, DELETED, CLUSTER, WINDOW = (
    "schedules.delivered", "schedules.edited", "schedules.coded", "schedules.deleted", "schedules.tidy",
    "schedules.window",
)  # fmt: skip
DAY = timedelta(days=1)


def declare(app: Oncue) -> None:
    @app.task(name="schedules.make_report", max_retries=0)
    async def make_report(kind: str = "short", fails: bool = False) -> None:
        if fails:
            raise ValueError(f"no figures for the {kind} report")

    @app.task(name=CODED, schedule=cron("*/15 8-18 * * MON-FRI", tz="Europe/Berlin"))
    async def coded() -> None: ...

    @app.task(name=WINDOW, schedule=daily(window="30m", retry="5m"))
    async def window(subject: str) -> None: ...

    @app.cluster_task(name=CLUSTER)
    async def tidy() -> None: ...

    app.webhook("schedules.hook", url="http://127.0.0.1:9/hook")


async def tell(app: Oncue) -> list[str]:
    now = await app.now()
    await app.schedules.create(DELETED, "0 5 * * *", "schedules.make_report")
    await _began(app, REPORT, now - 40 * DAY, cron("30 2 * * *", tz="Europe/Berlin"), description="Yesterday's figures")
    await _past(app, REPORT, now - 40 * DAY, now)
    await _began(app, FAILING, now - DAY, Rule("0 */2 * * *"), args='{"fails":true,"kind":"long"}')
    await _past(app, FAILING, now - DAY, now)
    await _began(app, OUTAGE, now - timedelta(hours=5), Rule("*/5 * * * *"), is_found_late=True, grace=600.0)
    await app.schedules.create(DENSE, "@every 10s", "schedules.make_report")
    await app.schedules.create(PAUSED, "0 9 * * MON", "schedules.make_report", enabled=False)
    await app.schedules.create(DELIVERED, "0 8 1 * *", webhook="schedules.hook", args={"payload": {"month": True}})
    await app.schedules.create("schedules.cluster", "0 4 * * SUN", CLUSTER)
    await app.schedules.create(EDITED, "0 6 * * *", "schedules.make_report")
    await app.schedules.change(EDITED, rule="0 7 * * MON-FRI", tz="America/New_York", priority=70, changed_by="anna")
    await app.schedules.run_now(DELETED)
    await app.schedules.delete(DELETED)
    latest = await app.schedules.latest_slots(REPORT, 1)
    slot = latest[0].scheduled_for.isoformat().replace("+00:00", "Z")
    return [
        "/schedules", "/schedules?state=paused", "/schedules?prefix=nothing", "/calendar", "/calendar?span=week",
        *(f"/schedules/{name}" for name in (REPORT, FAILING, OUTAGE, DENSE, PAUSED, DELIVERED, EDITED, DELETED)),
        f"/schedules/{REPORT}?slot={slot}", f"/schedules/{REPORT}?from=2027-03-27", f"/edit-schedule/{REPORT}",
        f"/schedules/{CODED}", f"/schedules/{WINDOW}",
        f"/edit-schedule/{CODED}", f"/edit-schedule/{DELIVERED}", "/new-schedule",
    ]  # fmt: skip


async def _began(app: Oncue, name: str, at: datetime, rule: Rule, *, is_found_late: bool = False, **terms: Any) -> None:
    """A schedule that has stood since then, of which nothing is decided."""
    draft, store = await app.schedules.get(DELETED), (await app.internals.connected()).store
    about = {"name": name, "expression": rule.expression, "tz": rule.tz, "grace": 90 * DAY.total_seconds(), **terms}
    made = policy.created(dataclasses.replace(draft, **about), at, "anna")
    if not is_found_late:  # the leader leaves alone what has no next slot
        made = made._replace(schedule=dataclasses.replace(made.schedule, next_run_at=None))
    assert await store.schedules.revise([made], at) == [True]


async def _past(app: Oncue, name: str, start: datetime, end: datetime) -> None:
    """Its slots since then, with every verdict among them."""
    connected, one = await app.internals.connected(), await app.schedules.get(name)
    fires = await app.schedules.preview(name, 100, start)
    slots = [fire.scheduled_for for fire in fires if fire.scheduled_for < end]
    ids = iter(await connected.ids(len(slots)))
    decided, in_the_way = [], 0
    for number, slot in enumerate(slots):
        if number % 11 == 5:
            decided.append(Decided(slot, "missed", "misfire"))
        elif number % 13 == 7:
            decided.append(Decided(slot, "skipped", "max_instances", blocked_by=in_the_way))
        elif number % 17 == 9:
            decided.append(Decided(slot, "coalesced", f"into {slots[min(number + 1, len(slots) - 1)].isoformat()}"))
        else:
            in_the_way = next(ids)
            decided.append(Decided(slot, "manual" if number % 10 == 8 else "fired", None, in_the_way))
    following = (await app.schedules.preview(name, 1, end))[0].scheduled_for
    step = Step(one.id, one.version, slots[-1], following, decided)
    assert await connected.store.slots.decide([step], end, by="tests") == [True]
