"""`app.windows.audit` and `app.windows.explain`, and the same in the shell, on both stores."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from oncue import InvalidSubject, Oncue, SubjectNotFound, daily
from oncue.policy.lifecycle import close_day
from oncue.verbs.schedules.declaring import Declaring
from tests.app.conftest import MakeApp
from tests.app.test_window_jobs import DAY, app, opened
from tests.app.test_windows import Bench, led, stored

__all__ = ["app"]

FIRST, LAST = DAY - timedelta(days=1), DAY + timedelta(days=5)


async def succeeded(bench: Bench, *names: str) -> None:
    """A day that is a success for each."""
    for name in names:
        job = await opened(bench, name, DAY)
        (found,) = await bench.store.windows.unfinished([job.id])
        at = datetime(2030, 1, 2, 8, 30, tzinfo=UTC)
        done = close_day(found, at, "success", "")._replace(state="succeeded", reason=None)
        assert await bench.store.jobs.apply([done], at) == [True]


async def planned(bench: Bench, *days: int) -> None:
    for day in days:
        await bench.plan(datetime(2030, 1, day, 8, 0, tzinfo=UTC))
        await bench.plan(datetime(2030, 1, day, 9, 0, tzinfo=UTC))


async def fates(app: Oncue, name: str) -> list[tuple[int, str, int]]:
    found = await app.windows.audit("digest", FIRST, LAST, subject=name)
    return [(one.day.day, one.fate, one.days) for one in found.days if one.fate != "pending"]


@pytest.mark.contract("WIN-2", "WIN-6", "WIN-14")
async def test_every_day_of_a_subject_is_accounted_for(app: Oncue) -> None:
    bench = await led(app)
    await succeeded(bench, "ann")
    await planned(bench, 2)
    await bench.plan(datetime(2030, 1, 5, 7, 0, tzinfo=UTC))
    await planned(bench, 5)
    assert await fates(app, "ann") == [(2, "success", 1), (3, "missed", 2), (5, "cutoff_reached", 1)]
    explained = await app.windows.explain("digest", "ann", date(2030, 1, 4))
    assert explained.status == "missed"
    assert (await app.windows.explain("digest", "ann", DAY)).status == "success"
    assert (await app.windows.explain("digest", "ann", date(2030, 1, 5))).codes[0] == "cutoff_reached"


@pytest.mark.contract("WIN-2", "WIN-14")
@pytest.mark.parametrize("was_disabled", [False, True])
async def test_an_edit_after_an_outage_leaves_no_day_without_an_outcome(
    make_app: MakeApp, database_url: str, was_disabled: bool
) -> None:
    """Unless the window was disabled: then a day that was over before it was enabled again is no day of it."""

    async def declared(retry: str, now: datetime) -> Oncue:
        app = make_app(database_url)

        @app.task(schedule=daily(retry=retry))
        async def digest(user: str) -> None: ...

        (await app.internals.connected()).now = lambda: now  # type: ignore[method-assign]
        await Declaring(app.internals).synchronise()
        return app

    first = await declared("10m", datetime(2025, 1, 1, 7, tzinfo=UTC))
    await first.windows.add("digest", "ann", at="09:00")
    if was_disabled:
        await first.schedules.toggle("digest", False)
    app = await declared("5m", datetime(2025, 1, 2, 10, tzinfo=UTC))
    if was_disabled:
        await app.schedules.toggle("digest", True)
    bench = await led(app)
    await bench.plan(datetime(2025, 1, 2, 10, 1, tzinfo=UTC))
    found = await app.windows.audit("digest", date(2025, 1, 1), date(2025, 1, 2))
    fates = [(one.day.day, one.fate) for one in found.days]
    assert fates == ([] if was_disabled else [(1, "missed"), (2, "cutoff_reached")])


async def test_subjects_are_audited_a_page_at_a_time(app: Oncue) -> None:
    bench = await led(app)
    await succeeded(bench, "ann", "bob", "cas")
    await planned(bench, 2)
    first = await app.windows.audit("digest", FIRST, DAY, limit=2)
    assert (first.subjects, first.last, first.counts()) == (2, "bob", {"success": 2})
    rest = await app.windows.audit("digest", FIRST, DAY, after="bob", limit=2)
    assert (rest.subjects, rest.last, [one.subject for one in rest.days]) == (1, "cas", ["cas"])
    with pytest.raises(SubjectNotFound, match="no subject 'eve'"):
        await app.windows.audit("digest", subject="eve")
    with pytest.raises(InvalidSubject, match="start: expected a date up to 2030-01-01"):
        await app.windows.audit("digest", DAY, FIRST)


async def test_the_job_of_a_day_and_its_day_explain_each_other(app: Oncue) -> None:
    bench = await led(app)
    job = await opened(bench)
    told = await app.jobs.explain(job.id)
    assert told.codes[:2] == ["day_of", "no_node_alive"]
    ann = await stored(app, "ann")
    found = await app.windows.explain("digest", "ann", ann.day)
    assert (found.status, found.codes[:2]) == ("open", ["open", "no_node_alive"])
    await app.jobs.cancel(job.id)
    assert (await app.windows.explain("digest", "ann", ann.day)).status == "ended"
    await app.windows.remove("digest", "ann")
    assert "removed" in (await app.windows.explain("digest", "ann", ann.day)).codes
    with pytest.raises(SubjectNotFound, match="no subject 'eve'"):
        await app.windows.explain("digest", "eve")
    assert (await app.schedules.explain("digest")).codes[-2:] == ["window", "no_subjects"]
