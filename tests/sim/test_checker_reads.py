"""Histories of real processes: several files, cut lines, and promises that hold without the whole story."""

from __future__ import annotations

import json
from pathlib import Path

from oncue.sim import history
from oncue.sim.checker import PROMISES, Final, check
from oncue.sim.history import Event
from oncue.sim.runs import DRIFT, simulate


def change(at: int, node: str, claim_no: int, state: str, *, accepted: bool = True) -> Event:
    fields = {
        "id": 1, "from_state": "running", "claim_no": claim_no, "state": state, "reason": None, "outcome": state,
        "retry_count": 0, "attempt": 1, "crashes": 0, "visible_at": 0, "started_at": 0, "ended_at": at, "error": None,
        "accepted": accepted,
    }  # fmt: skip
    return Event(at, node, "change", fields)


def claim(at: int, node: str, claim_no: int) -> Event:
    fields = {"id": 1, "claim_no": claim_no, "crashes": 0, "retry_count": 0, "attempt": 0, "cancel_requested": False}
    return Event(at, node, "claim", fields)


def test_a_history_survives_its_files(tmp_path: Path) -> None:
    world, _ = simulate(5)
    by_node: dict[str, list[Event]] = {}
    for event in world.history.events:
        by_node.setdefault(event.node, []).append(event)
    for node, events in by_node.items():
        text = "".join(event.line() + "\n" for event in events)
        (tmp_path / f"{node}.jsonl").write_text(text + '[1893456000000000,"cut off in the mid', "utf-8")
    read = history.merged(history.read(path) for path in sorted(tmp_path.glob("*.jsonl")))
    assert len(read) == len(world.history.events)
    assert check(read, world.final(), complete=False, ordered=False, tolerance=DRIFT, drained_within=180) == []
    world.history.save(tmp_path / "all")
    assert [event.line() for event in history.read(tmp_path / "all")] == [e.line() for e in world.history.events]


def test_a_history_with_holes_raises_no_alarm() -> None:
    """A killed process takes its last events with it; the others' are still checked."""
    killed = 0
    for seed in range(10):
        world, _ = simulate(seed)
        victims = {event.node for event in world.history.events if event.kind == "crash"}
        left = [event for event in world.history.events if event.node not in victims]
        # Without its end, a job that was pruned cannot be told from one that was lost.
        pruned = any(event.kind == "prune" for event in world.history.events)
        assert pruned or check(left, world.final(), complete=False, ordered=False, tolerance=DRIFT) == []
        killed += len(victims)
        world.close()
    assert killed


def test_a_double_end_is_seen_without_the_whole_story() -> None:
    events = [change(5, "a", 1, "succeeded"), change(9, "b", 1, "failed")]
    found = check(events, Final(()), complete=False, ordered=False)
    assert {violation.promise for violation in found} == {
        "only the current claim writes",
        "a job ends once, and stays as it ended",
    }


def test_a_claim_after_the_end_is_seen_whatever_the_order_of_the_files() -> None:
    events = [claim(3, "b", 2), change(4, "a", 1, "succeeded")]
    found = check(events, Final(()), complete=False, ordered=False)
    assert [violation.promise for violation in found] == ["nothing starts after the end"]


def test_a_report_names_the_promise_and_shows_the_events() -> None:
    (first, *_) = check([change(5, "a", 1, "succeeded"), change(9, "b", 1, "failed")], Final(()), complete=False)
    assert first.promise in PROMISES
    lines = str(first).splitlines()
    assert lines[0].startswith(first.promise)
    assert [json.loads(line)[0] for line in lines[1:]] == [5, 9]
