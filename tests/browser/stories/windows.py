"""Daily windows: one with a day that goes badly, one that is paused, and one without a subject."""

from __future__ import annotations

import contextlib
from datetime import date, datetime, timedelta

from oncue import Conflict, Oncue, daily
from oncue.model import AlertState
from tests.browser import history

DIGEST, BRIEF, EMPTY = "windows_digest", "windows_brief", "windows_empty"
ODD = ["a/b", "..", "<b>ann</b>", "josé & co", "a?y#z", "a/../b", "1"]
"""Names that paths and markup would change, if they could."""
ANN, LATE, GONE, STUCK = "ann", "late", "gone", "stuck"
MANY = 60


def declare(app: Oncue) -> None:
    @app.task
    async def windows_note() -> None: ...

    @app.task(name=DIGEST, schedule=daily(window="60m", retry="10m"), max_concurrency=20, timeout="30s")
    async def digest(user: str, day: date, language: str = "en") -> None:
        if user.startswith(STUCK):
            raise ConnectionError("the model does not answer: 503 <overloaded>")

    @app.task(name=BRIEF, schedule=daily(window="2h", retry="15m", tz="Europe/Berlin"), queue="windows-brief")
    async def brief(user: str) -> None: ...

    @app.task(name=EMPTY, schedule=daily())
    async def empty(user: str) -> None: ...


async def tell(app: Oncue) -> list[str]:
    await history.declared(app)
    now = await app.now()
    await _subjects(app, now)
    job_id = await _a_success(app)
    await _days(app, job_id, now.date())
    await app.schedules.toggle(BRIEF, False, changed_by="token:anna#4")
    await app.windows.add(BRIEF, ANN, at=_at(now, hours=9), by="token:anna#4")
    await app.windows.remove(DIGEST, GONE, by="token:anna#4")
    await _slos(app, now)
    days_ago = now.date() - timedelta(days=3)
    pages = ["/windows", f"/windows/{DIGEST}", f"/windows/{DIGEST}?day={days_ago}", f"/windows/{EMPTY}"]
    subjects = [f"/windows/{DIGEST}/subjects/{name}" for name in (ANN, f"{STUCK}-1", GONE)]
    return [*pages, *subjects, f"/window/subject?window={DIGEST}&subject=.."]


def _at(now: datetime, **later: float) -> str:
    return f"{now + timedelta(**later):%H:%M}"


async def _subjects(app: Oncue, now: datetime) -> None:
    """Some that are open, some that wait, and one that came too late for today."""
    waits = _at(now, hours=8)
    await app.windows.add(DIGEST, ANN, at=waits, tz="UTC", args={"language": "de"}, by="token:anna#4")
    await app.windows.change(DIGEST, ANN, weekdays="MON-SUN", days_off=["2030-12-24"], by="token:anna#4")
    await app.windows.add(DIGEST, LATE, at=_at(now, minutes=-5))
    await app.windows.add(DIGEST, GONE, at=waits)
    rows = [{"subject": f"user-{number:03}", "at": waits, "tz": "Asia/Tokyo"} for number in range(MANY)]
    rows += [{"subject": name, "at": waits} for name in ODD]
    rows += [{"subject": f"{name}-{number}", "at": _at(now, minutes=40)} for name in (STUCK, "quick")
             for number in range(1, 4)]  # fmt: skip
    await app.windows.add_many(DIGEST, rows, by="import")


async def _a_success(app: Oncue) -> int:
    """A job that has succeeded, whether a worker runs or not."""
    receipt = await app.tasks["windows_note"].aenqueue()
    with contextlib.suppress(Conflict):  # it has by itself
        await app.jobs.set_status(receipt.id, "succeeded")
    return receipt.id


async def _days(app: Oncue, job_id: int, today: date) -> None:
    """Two weeks: mostly well, an outage, and today's crowd."""
    days, tallies = {}, []
    for back in range(1, 29):
        day = today - timedelta(days=back)
        if day.weekday() == 6:
            continue
        days[day] = "missed" if back == 5 else "cutoff_reached" if back in (3, 9) else "success"
        if back < 14:
            missed = 31 if back == 5 else 0
            cutoffs = {3: 24, 9: 6}.get(back, 0)
            for at, many in (("05:30", 12), ("06:00", 40), ("06:30", 25), ("07:00", 70), ("08:00", 36)):
                lost = min(cutoffs, many // 3)
                tallies += history.tallied(day, at, opened=many, success=many - lost, cutoff_reached=lost)
            tallies += history.tallied(day, "08:30", missed=missed)
    for at, many, lost in (("05:30", 14, 0), ("06:00", 44, 1), ("06:30", 25, 0), ("07:00", 81, 9), ("07:15", 20, 6)):
        tallies += history.tallied(today, at, opened=many, success=many - lost, cutoff_reached=lost)
    tallies += history.tallied(today, "23:55", opened=320, success=60)
    tallies += history.tallied(today, "08:10", added_late=2)
    await history.days_of(app, DIGEST, ANN, days, job_id, tallies)


async def _slos(app: Oncue, now: datetime) -> None:
    since = now - timedelta(minutes=6)
    await history.book_of(
        app,
        AlertState("predicted_misses", DIGEST, 214, 3.2, 5, since, since + timedelta(minutes=2), 23 * 60 + 55,
                   f"at the present rate 214 users of {DIGEST} miss 23:55 (UTC)"),
        AlertState("job_duration", DIGEST, 812.4, 30_000,
                   text=f"95 % of the attempts of {DIGEST} take up to 812 ms (at most 30000 ms)"),
        AlertState("saturation", "windows", 0.87, 0.8, 1, since + timedelta(minutes=5),
                   text="all seats of queue windows were taken in 87% of the samples (at most 80%)"),
    )  # fmt: skip
