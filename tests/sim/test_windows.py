"""Daily windows under faults and edits; and what a crash or a late call around a cutoff leads to."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from oncue.model import Claim, JobFilter, Slot, Subject
from oncue.sim.checker import check, report
from oncue.sim.driver import finish
from oncue.sim.faults import HoldUp
from oncue.sim.history import Event
from oncue.sim.script import Act
from oncue.sim.windows import (
    CREW,
    HOOK,
    WINDOW,
    Population,
    Terms,
    TotalOutage,
    declare,
    simulate_population,
    simulate_windows,
)
from oncue.sim.world import World


@pytest.mark.contract(
    "WIN-1", "WIN-2", "WIN-3", "WIN-4", "WIN-5", "WIN-6", "WIN-8", "WIN-9", "WIN-12", "WIN-13", "WIN-14"
)
def test_every_promise_is_kept_in_windows() -> None:
    """A simulation in which nothing goes wrong would prove nothing: it is looked at for that too."""
    reached: Counter[str] = Counter()
    for seed in (0, 2, 4, 133):
        world, violations = simulate_windows(seed)
        assert not violations, f"seed {seed}: {report(violations)}"
        events = world.history.events
        reached.update(event.kind for event in events)
        reached.update(event.fields["reason"] or event.fields["status"] for event in events if event.kind == "finalize")
        reached["late"] += sum(_is_workers(event) for event in events if event.kind == "change")
        world.close()
    assert min(reached[kind] for kind in ("success", "cutoff_reached", "added_late", "outage")) >= 4, reached
    assert min(reached[kind] for kind in ("crash", "fault", "lease.end", "subject", "late")) >= 1, reached


def _is_workers(change: Event) -> bool:
    """Whether a worker decided a day whose cutoff had passed: by a late success, or as it refused to begin."""
    told = change.fields
    is_refused = (told["from_state"], told["outcome"]) == ("running", None) and told.get("day_status") is not None
    return is_refused or told.get("ending") == "late"


@pytest.mark.contract("WIN-1", "WIN-2", "WIN-3", "WIN-6", "WIN-19")
def test_every_user_of_a_small_population_has_one_outcome_a_day() -> None:
    """The bar is the same with 2,000 users and 30 days: `python -m oncue.sim windows 0 --users 2000 --days 30`."""
    world, violations = simulate_population(1, Population(users=40, days=1, most=3))
    assert not violations, report(violations)
    outcomes = Counter(
        (event.fields["subject"], event.fields["date"]) for event in world.history.events if event.kind == "finalize"
    )
    assert len({subject for subject, _ in outcomes}) == 40
    assert set(outcomes.values()) == {1}
    assert sum(event.kind == "fault" for event in world.history.events) > 15
    world.close()


def test_a_run_is_the_same_in_another_process() -> None:
    program = (
        "import logging; logging.disable(50);"
        "from oncue.sim.windows import simulate_windows;"
        "print(simulate_windows(3, subjects=3, days=0.5, edits=2)[0].history.digest())"
    )
    told = {subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(told) == 1


# --- one subject ----------------------------------------------------------------------------------------------------

START = datetime(2026, 6, 1, 6, tzinfo=UTC)
CUTOFF = datetime(2026, 6, 1, 9, tzinfo=UTC)
TODAY = date(2026, 6, 1)


def a_world(seconds: float = 1.0, *, only_after: datetime = START) -> World:
    """One subject, whose window is from 08:00 to 09:00: attempts succeed after so many seconds, and fail before an
    instant."""

    def script(claim: Claim) -> Act:
        return Act("ok" if world.clock.now() >= only_after else "fail", seconds)

    world = World(1, crew=CREW, script=script, start=START, elide=True)
    declare(world, Terms("60m", "1m", "2m", 2))
    for name in ("one", "two"):
        world.boot(name)
    finish(world.operator.windows.add(WINDOW, "ann", at="09:00"))
    world.hint()
    return world


def run_to(world: World, instant: datetime) -> None:
    world.run((instant - world.clock.now()).total_seconds())


def ann(world: World) -> Subject:
    return finish(world.operator.windows.subject(WINDOW, "ann"))


def ledger(world: World) -> list[Slot]:
    return finish(world.store.windows.ledger(1, "ann", START - timedelta(days=9), START + timedelta(days=99), 100))


def hooks(world: World) -> list[str]:
    return [job.args["day"] for job in finish(world.store.jobs.find(JobFilter(task=HOOK)))]


def kept(world: World) -> None:
    found = check(world.history.events, world.final())
    world.close()
    assert not found, report(found)


@pytest.mark.contract("WIN-6", "WIN-12")
def test_what_is_settled_before_the_cutoff_and_arrives_after_it_finds_the_day_closed() -> None:
    """The planner of the other node was faster: the success is late, and changes nothing."""
    world = a_world(55.0, only_after=CUTOFF - timedelta(seconds=70))
    world.members["one"].executor.concurrency = 0  # it leads, and its line is free
    run_to(world, CUTOFF - timedelta(seconds=9))
    assert world.members["one"].leads
    assert world.members["two"].worker.executor.running == 1
    HoldUp(0.0, "two", 12.0).strike(world)
    run_to(world, CUTOFF + timedelta(minutes=1))
    assert (ann(world).last_date, ann(world).status) == (TODAY, "cutoff_reached")
    assert hooks(world) == ["2026-06-01"]
    kept(world)


@pytest.mark.contract("WIN-2", "WIN-14")
@pytest.mark.parametrize("deed", ["change", "remove", "many"])
def test_an_edit_during_an_outage_leaves_out_no_day(deed: str) -> None:
    """The days whose cutoffs the planner had not come to are decided by the old terms, before the new ones count."""
    world = a_world()
    run_to(world, CUTOFF + timedelta(hours=1))
    TotalOutage(0.0, ("one", "two"), 3 * 86_400.0, dead=True).strike(world)
    run_to(world, CUTOFF + timedelta(days=2, hours=4))
    windows = world.operator.windows
    if deed == "change":
        world.errand(windows.change(WINDOW, "ann", at="18:00"))
    elif deed == "many":
        world.errand(windows.add_many(WINDOW, [{"subject": "ann", "at": "18:00"}]))
    else:
        world.errand(windows.remove(WINDOW, "ann"))
    world.run(1.0)
    told = [(row.verdict, row.reason, row.scheduled_for.day, row.slots) for row in ledger(world)]
    assert told == [("fired", None, 1, 1), ("missed", "outage", 2, 1), ("skipped", "cutoff_reached", 3, 1)]
    assert hooks(world) == ["2026-06-03"]
    run_to(world, CUTOFF + timedelta(days=3, hours=12))
    kept(world)


@pytest.mark.contract("WIN-14")
def test_a_success_that_waited_for_the_database_until_its_date_was_over_finds_its_day_missed() -> None:
    """Its node was cut off from the database with the outcome in hand, and is faster than the planner afterwards."""
    world = a_world(30.0)
    run_to(world, CUTOFF - timedelta(minutes=59, seconds=45))
    TotalOutage(0.0, ("one", "two"), 20 * 3600.0, dead=False).strike(world)
    run_to(world, CUTOFF + timedelta(hours=21))
    assert (ann(world).last_date, ann(world).status, ann(world).reason) == (TODAY, "missed", "outage")
    assert hooks(world) == []
    kept(world)


@pytest.mark.contract("WIN-8")
def test_after_a_decided_day_the_next_one_begins_under_the_new_terms() -> None:
    """In the zone that the subject moves to, tomorrow's window is open before today's cutoff has come."""
    world = a_world()
    run_to(world, CUTOFF - timedelta(minutes=50))
    assert ann(world).status == "success"
    finish(world.operator.windows.change(WINDOW, "ann", tz="Pacific/Kiritimati", at="22:55"))
    assert ann(world).cutoff_at == CUTOFF - timedelta(minutes=5) + timedelta(days=1)
    finish(world.operator.windows.change(WINDOW, "ann", tz="Pacific/Kiritimati", at="00:30"))
    assert (ann(world).day, ann(world).cutoff_at) == (date(2026, 6, 2), CUTOFF + timedelta(minutes=90))
    run_to(world, CUTOFF + timedelta(minutes=40))
    assert (ann(world).last_date, ann(world).status) == (date(2026, 6, 2), "success")
    kept(world)
