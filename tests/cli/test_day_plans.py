"""`oncue simulate --window`: the plan of a window's day."""

from __future__ import annotations

import asyncio
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from oncue.verbs.schedules.declaring import Declaring
from tests.cli.conftest import DIGEST, Shell

WEDNESDAY = date(2030, 1, 2)


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCUE_APP", DIGEST)


def plan(oncue: Shell, *arguments: str) -> Any:
    answer = oncue("simulate", "--window", "digest", *arguments, "--json")
    assert answer.code == 0, answer.err
    return answer.json


GIVEN = ("--subjects", "400@09:00, 100@06:00-08:00", "--durations", "digest=20s")


@pytest.mark.contract("WIN-19")
def test_misses_by_cutoff_and_the_seats_that_leave_none(oncue: Shell) -> None:
    """Two seats do 2 x 179 attempts of 20 seconds before nine: one that ends at nine comes too late."""
    told = plan(oncue, *GIVEN)
    assert (told["subjects"], told["seats"], told["misses"], told["seats_needed"]) == (500, 2, 42, 3)
    last = told["buckets"][-1]
    assert (last["cutoff"], last["subjects"], last["misses"]) == ("2030-01-01T09:00:00Z", 400, 42)
    assert sum(one["misses"] for one in told["buckets"]) == 42
    assert [(one["seats"], one["misses"]) for one in told["numbers_of_seats"]] == [(2, 42), (3, 0)]
    assert plan(oncue, *GIVEN, "--seats", "3")["misses"] == 0
    shown = oncue("simulate", "--window", "digest", *GIVEN).out
    assert "42 of 500 subjects miss their cutoff with 2 seats." in shown
    assert "3 seats are needed for no misses." in shown
    assert "2030-01-01 09:00" in shown


def test_the_same_seed_gives_the_same_plan(oncue: Shell) -> None:
    random = ("--subjects", "300@06:00-09:00", "--durations", "digest=~20s", "--failures", "digest=20%")
    assert plan(oncue, *random) == plan(oncue, *random)
    assert plan(oncue, *random)["buckets"] != plan(oncue, *random, "--seed", "2")["buckets"]


def test_what_no_number_of_seats_helps_is_told(oncue: Shell) -> None:
    slow = oncue("simulate", "--window", "digest", "--subjects", "10@09:00", "--durations", "digest=5m")
    assert "10 miss it with any number of seats: their attempts fail or take too long." in slow.out


def test_the_stored_subjects_are_planned_on_their_day(
    oncue: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    sys.modules.pop("tests.cli.digest", None)
    from tests.cli.digest import app

    async def made() -> None:
        app.override({"database_url": database_url})
        try:
            await Declaring(app.internals).synchronise()
            await app.windows.add("digest", "ann", at="09:00", tz="Europe/Berlin")
            await app.windows.add("digest", "bob", at="07:30", weekdays="MON,TUE")
            await app.windows.add("digest", "cas", at="00:30")
        finally:
            await app.aclose()

    asyncio.run(made())
    told = plan(oncue, "--day", str(WEDNESDAY))
    assert [(one["cutoff"], one["subjects"]) for one in told["buckets"]] == [
        ("2030-01-02T00:30:00Z", 1), ("2030-01-02T08:00:00Z", 1),
    ]  # fmt: skip
    assert told["durations"] == "1s"
    assert "assumed to take 1s" in told["notes"][0]
    assert len(plan(oncue, "--day", "2030-01-01")["buckets"]) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--window", "digest"), "there is no database yet that has subjects"),
        (("--window", "other", "--subjects", "5@09:00"), "'other' is no window"),
        (("--window", "digest", "--subjects", "many"), "expected so many subjects and their due times"),
        (("--window", "digest", "--subjects", "5@09:00-08:00"), "end before they begin"),
        (("--window", "digest", "--subjects", "5@09:00", "--nodes", "3"), "beside --window, not this"),
        (("--seats", "3"), "expected --window too"),
        (("--window", "digest", "--subjects", "5@09:00", "--day", "soon"), "expected a date such as"),
    ],
)
def test_what_is_typed_wrong_is_named(
    oncue: Shell, tmp_path: Path, arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/none.db")
    answer = oncue("simulate", *arguments)
    assert answer.code == 2
    assert says in " ".join(answer.err.split())
    assert not (tmp_path / "none.db").exists()
