"""`oncue explain` and `oncue audit` of a window's days, on each back end."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta
from typing import Any

import pytest

from oncue import Oncue, daily
from oncue.model import Decided, SubjectStep
from oncue.policy import windows
from oncue.verbs.schedules.declaring import Declaring
from tests.cli.conftest import Shell, on_database

DAY = timedelta(days=1)


@pytest.fixture
def today(shop: str) -> date:
    """A window from ten days ago. Of ann's days three went by: one reached its cutoff, one was missed, one is not in
    the ledger. The day of bob is open."""

    async def made(app: Oncue) -> date:
        @app.task(schedule=daily(), max_concurrency=3)
        async def digest(user: str) -> None: ...

        connected = await app.internals.connected()
        now = connected.now()
        connected.now = lambda: now - 10 * DAY  # type: ignore[method-assign]
        await Declaring(app.internals).synchronise()
        await app.windows.add("digest", "ann", at="00:00")
        connected.now = lambda: now  # type: ignore[method-assign]
        window, ann = await app.windows.get("digest"), await app.windows.subject("digest", "ann")
        tomorrow = windows.days_from(windows.terms_of(ann, windows.rule_of(window.expression), "UTC"), now.date() + DAY)
        decided = (
            Decided(windows.slot_of(now.date() - 3 * DAY), "skipped", "cutoff_reached"),
            Decided(windows.slot_of(now.date() - 2 * DAY), "missed", "outage"),
        )
        step = SubjectStep(
            window.id, "ann", ann.version, next(tomorrow), now + DAY, None, now.date(), "missed", "outage", decided
        )
        assert await connected.store.windows.advance([step], now) == [True]
        await app.windows.add("digest", "bob", at=f"{now + timedelta(minutes=30):%H:%M}")
        bob = await app.windows.subject("digest", "bob")
        span = {"day": now.date(), "opens_at": now, "cutoff_at": now + timedelta(hours=1)}
        assert await connected.store.windows.put([dataclasses.replace(bob, **span)], now) == [True]
        await app.windows.run_now("digest", "bob")
        return now.date()

    found: date = on_database(shop, made)
    return found


def days(answer: Any) -> list[tuple[str, str]]:
    return [(day["day"], day["fate"]) for day in answer["days"]]


@pytest.mark.contract("WIN-2", "WIN-6")
def test_an_audit_names_the_days_that_the_ledger_does_not_know(oncue: Shell, today: date) -> None:
    span = ("--from", str(today - 3 * DAY), "--to", str(today - 2 * DAY))
    sound = oncue("audit", "digest", "--subject", "ann", *span)
    assert sound.code == 0, sound.err
    assert "Every day is accounted for, once." in sound.out
    told = oncue("audit", "digest", "--subject", "ann", *span, "--json").json
    assert days(told) == [(str(today - 3 * DAY), "cutoff_reached"), (str(today - 2 * DAY), "missed")]
    assert (told["holds"], told["counts"]) == (True, {"cutoff_reached": 1, "missed": 1})

    broken = oncue("audit", "digest", "--from", str(today - 3 * DAY), "--to", str(today - DAY), "--json")
    assert broken.code == 4
    assert days(broken.json) == [(str(today - DAY), "unaccounted")]
    assert broken.json["counts"] == {"cutoff_reached": 1, "missed": 1, "unaccounted": 1}
    assert f"digest: day {today - DAY} of ann: unaccounted" in broken.err
    assert (broken.json["subjects"], broken.json["problems"]) == (2, 1)
    everything = oncue("audit", "--all", "--from", "-3d")
    assert everything.code == 4
    assert "digest" in everything.out


def test_an_audit_counts_first_what_the_days_came_to(oncue: Shell, today: date) -> None:
    told = oncue("audit", "digest", "--from", str(today), "--to", str(today), "--json").json
    assert [(day["day"], day["open"]) for day in told["by_day"]] == [(str(today), 1)]
    shown = oncue("audit", "digest", "--from", str(today), "--to", str(today)).out
    assert "cutoff_reached" in shown


def test_a_subjects_day_is_explained(oncue: Shell, today: date) -> None:
    told = oncue("explain", "digest", "--subject", "bob", "--json").json
    assert told["status"] == "open"
    assert [finding["code"] for finding in told["findings"]][:2] == ["open", "no_node_alive"]
    shown = oncue("explain", "digest", "--subject", "ann", "--day", str(today - 2 * DAY))
    assert shown.out.startswith(f"day {today - 2 * DAY} of ann in window digest: missed")
    assert "The window" not in oncue("explain", "digest").out
    assert oncue("explain", "digest", "--subject", "eve").code == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("explain", "digest", "--day", "2030-01-01"), "expected --subject too"),
        (("explain", "digest", "--subject", "ann", "--day", "soon"), "expected a date such as"),
        (("explain", "digest", "--subject", "ann", "--at", "now"), "either --at, for a slot, or --subject"),
        (("audit", "--all", "--subject", "ann"), "expected the name of its window too"),
        (("audit", "digest", "--from", "2020-01-01"), "expected at most 366 days"),
    ],
)
def test_what_is_typed_wrong_is_named(oncue: Shell, today: date, arguments: tuple[str, ...], says: str) -> None:
    answer = oncue(*arguments)
    assert answer.code == 2
    assert says in " ".join(answer.err.replace("│", " ").split())
