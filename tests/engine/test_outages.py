"""After nobody led for a while, the next leader tells what came due meanwhile and what became of it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue.engine.outages import MOST_LINES, Outage, described
from oncue.model import Decided
from oncue.policy import slots
from oncue.sim.script import Act
from oncue.sim.world import PACE, World
from tests.engine.rig import audit_holds

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def after(**parts: float) -> datetime:
    return NOON + timedelta(**parts)


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("outage report:")]


def down_for(world: World, seconds: float) -> None:
    for name in list(world.members):
        world.crash(name)
    world.run(seconds)


@pytest.mark.contract("SLOT-16")
def test_the_report_lists_the_interval_the_slots_and_their_fates(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.boot("first")
    world.run(1.0)
    world.schedule("minutely", "* * * * *", grace=100.0)
    world.schedule("hourly", "0 * * * *", grace=100.0)
    world.schedule("yearly", "@yearly")
    world.run(59.5)
    down_for(world, 3600.0)
    heard: list[float] = []
    with caplog.at_level(logging.WARNING, "oncue.scheduler"):
        member = world.boot("second")
        member.telemetry.subscribe(lambda _, measured, __: heard.append(measured["duration"]), "outage")
        world.run(30.0)
    head, *lines = reports(caplog)
    assert head == (
        "outage report: nobody led from 2030-01-01T00:01:00+00:00 to 2030-01-01T01:01:00+00:00 (1h); "
        "61 slots came due meanwhile"
    )
    (folded, hourly) = world.slots("minutely")[3], world.slots("hourly")[0]
    assert [line.removeprefix("outage report:  ") for line in lines] == [
        "minutely 2030-01-01T00:02:00+00:00 to 2030-01-01T00:59:00+00:00 (58 slots): missed (misfire)",
        "minutely 2030-01-01T01:00:00+00:00: coalesced (into 2030-01-01T01:01:00+00:00)",
        f"minutely 2030-01-01T01:01:00+00:00: fired, job {folded.job_id}",
        f"hourly 2030-01-01T01:00:00+00:00: fired, job {hourly.job_id}",
    ]
    assert heard == [pytest.approx(3600.0, abs=1.0)]
    caplog.clear()
    world.run(600.0)
    assert reports(caplog) == [], "once"
    assert audit_holds(world, "minutely")


def test_no_slots_no_report(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.boot("first")
    world.run(1.0)
    world.schedule("yearly", "@yearly")
    down_for(world, 3600.0)
    world.boot("second")
    world.run(60.0)
    assert reports(caplog) == []


def test_a_handover_in_good_order_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.boot("first")
    world.boot("second")
    world.run(1.0)
    world.schedule("often", "@every 1s")
    world.run(5.0)
    (leader,) = [name for name, member in world.members.items() if member.leads]
    world.stop(leader, within=0.0)
    world.run(10.0)
    assert reports(caplog) == []


def test_the_first_leader_ever_has_no_outage_to_tell_of(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.schedule("often", "@every 1s")
    world.run(100.0)
    world.boot("first")
    world.run(5.0)
    assert reports(caplog) == []


def test_a_database_that_was_away_is_an_outage_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(1.0)
    world.schedule("often", "@every 10s")
    member.wire.down = True
    world.run(100.0)
    member.wire.down = False
    world.run(PACE.lease)
    assert reports(caplog)[0].endswith("10 slots came due meanwhile")


def test_a_host_that_slept_is_an_outage_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.boot("alone")
    world.run(1.0)
    world.schedule("often", "@every 10s")
    world.pause("alone")
    world.run(105.0)
    world.resume("alone")
    world.run(PACE.lease)
    assert reports(caplog)[0].endswith("10 slots came due meanwhile")


def test_the_report_waits_for_what_was_cut(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(slots, "MOST", 10)
    world = World(1, concurrency=50)
    world.boot("first")
    world.run(1.0)
    world.schedule("often", "@every 1s", Act(), missed="each", max_instances=100)
    world.run(2.5)
    down_for(world, 35.0)
    world.boot("second")
    world.run(1.0)
    heads = [line for line in reports(caplog) if "nobody led" in line]
    assert len(heads) == 1
    assert heads[0].endswith(("35 slots came due meanwhile", "36 slots came due meanwhile"))


def record(outage: Outage) -> list[str]:
    lines: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log = logging.Logger("report")
    log.addHandler(Listening())
    outage.report(log)
    return lines


def test_a_long_report_says_how_much_it_leaves_out() -> None:
    outage = Outage(NOON, after(days=1))
    for minute in range(1, 101):
        outage.add("often", Decided(after(minutes=minute), "missed", "misfire"))
    outage.add("often", Decided(after(hours=3), "missed", "misfire", until=after(hours=5), slots=121))
    lines = record(outage)
    assert len(lines) == MOST_LINES + 2
    assert outage.slots == 221
    assert lines[-1] == "outage report:  and 171 more: `oncue audit` tells of each"


def test_one_slot_is_not_many() -> None:
    outage = Outage(NOON, after(hours=1))
    outage.add("often", Decided(after(minutes=1), "missed", "misfire"))
    assert record(outage)[0].endswith("(1h); 1 slot came due meanwhile")


def test_slots_of_another_time_are_not_its_business() -> None:
    outage = Outage(NOON, after(hours=1))
    outage.add("often", Decided(NOON, "missed"))
    outage.add("often", Decided(after(hours=1, seconds=1), "fired"))
    outage.add("often", Decided(after(hours=-2), "missed", until=NOON, slots=3))
    assert outage.slots == 0
    outage.add("often", Decided(after(hours=-2), "missed", until=after(minutes=1), slots=3))
    assert outage.slots == 3


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        ({"verdict": "fired", "job_id": 7}, "2030-01-01T12:00:00+00:00: fired, job 7"),
        (
            {"verdict": "skipped", "reason": "max_instances", "blocked_by": 6},
            "2030-01-01T12:00:00+00:00: skipped (max_instances), job 6 was in the way",
        ),
        (
            {"verdict": "missed", "reason": "misfire", "until": after(hours=1), "slots": 61},
            "2030-01-01T12:00:00+00:00 to 2030-01-01T13:00:00+00:00 (61 slots): missed (misfire)",
        ),
    ],
)
def test_a_verdict_in_words(decided: dict[str, Any], words: str) -> None:
    assert described(Decided(NOON, **decided)) == words
