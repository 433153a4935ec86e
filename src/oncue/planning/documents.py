"""The figures as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncue.planning.charts import WIDTH
from oncue.planning.figures import Figures
from oncue.planning.remarks import asked
from oncue.planning.scenario import Scenario
from oncue.planning.series import Percentiles
from oncue.planning.spans import moment
from oncue.planning.words import sentences


def document(application: str, figures: Figures, notes: Sequence[str]) -> dict[str, Any]:
    scenario, capacity = figures.scenario, figures.capacity
    return {
        "simulated": dict(asked(scenario, application)),
        "findings": [{"tone": sentence.tone, "text": sentence.text} for sentence in sentences(figures)],
        "notes": list(notes),
        "jobs": {
            "made": figures.jobs,
            "attempts": figures.attempts,
            "retries": figures.retries,
            "ended": _sorted(figures.ends),
            "skipped": _sorted(figures.skipped),
            "unfinished": _sorted(figures.left),
        },
        "utilisation": {
            "mean": _rounded(figures.utilisation),
            "busiest_hour": {"share": _rounded(figures.busiest[0]), "from": _instant(scenario, figures.busiest[1])},
        },
        "lateness": {
            "within_target": _rounded(figures.within_target),
            "all": _percentiles(figures.lateness),
            "queues": {queue: _percentiles(late) for queue, late in figures.by_queue.items()},
        },
        "backlog": {
            "most": figures.peak[0],
            "at": _instant(scenario, figures.peak[1]),
            "over_time": _over_time(figures),
            "spells": _spells(figures),
        },
        "schedules": _schedules(figures),
        "tasks": _tasks(figures),
        "capacity": {
            "nodes_for_all": capacity.for_all,
            "nodes_by_arithmetic": capacity.likely,
            "nodes_for_99_percent": capacity.for_most,
            "nodes_without_outages": capacity.without_outages,
            "peak_seats": capacity.peak,
            "peak_at": _instant(scenario, capacity.peak_at),
            "peak_after_outage": capacity.peak_after_outage,
            "held_up_by": list(capacity.held_up_by),
            "narrow": list(capacity.narrow),
            "too_few": capacity.too_few,
            "choices": [
                {
                    "nodes": one.nodes,
                    "simulated": one.simulated,
                    "utilisation": _rounded(one.utilisation),
                    "waits": _percentiles(one.waits),
                }
                for one in capacity.choices
            ],
        },
    }


def _over_time(figures: Figures) -> list[dict[str, Any]]:
    scenario = figures.scenario
    waiting, busy = (series.buckets(scenario.length, WIDTH) for series in (figures.waiting, figures.busy))
    return [
        {"from": _instant(scenario, one.start), "waiting": one.highest, "seats_in_use": _rounded(two.mean)}
        for one, two in zip(waiting, busy, strict=True)
    ]


def _spells(figures: Figures) -> list[dict[str, Any]]:
    return [
        {
            "from": _instant(figures.scenario, one.span.start),
            "to": _instant(figures.scenario, one.span.end),
            "waiting": one.waiting,
            "longest": _rounded(one.longest),
            "outage": one.outage,
        }
        for one in figures.troubles
    ]


def _schedules(figures: Figures) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "slots": one.slots,
            "ran": one.ran,
            "late": one.late,
            "latest": _rounded(one.latest),
            "did_not_run": _sorted(one.lost),
        }
        for one in figures.schedules
    ]


def _tasks(figures: Figures) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "queue": one.queue,
            "jobs": one.jobs,
            "attempts": one.attempts,
            "retries": one.retries,
            "seconds_in_seats": _rounded(one.busy),
            "ended": _sorted(one.ends),
        }
        for one in figures.tasks
    ]


def _percentiles(found: Percentiles) -> dict[str, Any]:
    return {"of": found.of, **{name: _rounded(value) for name, value in found._asdict().items() if name != "of"}}


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _rounded(value: float) -> float:
    return round(value, 6)


def _instant(scenario: Scenario, seconds: float) -> str:
    return moment(scenario.start, seconds).isoformat()
