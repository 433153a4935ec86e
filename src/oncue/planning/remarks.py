"""What stands beside the figures: what they rest on, and what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oncue.model import Limits
from oncue.planning.figures import Figures
from oncue.planning.scenario import Scenario
from oncue.planning.spans import moment
from oncue.planning.words import about, clock, listed, plural
from oncue.policy.durations import describe

NOT_SIMULATED = (
    "handlers are not called, so what they would enqueue (add it to --arrivals), Snooze and Skip are not in these "
    "figures; neither are schedules that were made at run time."
)


def notes(
    figures: Figures, queues: Mapping[str, str], scheduled: Collection[str], ruled: Collection[str] = ()
) -> list[str]:
    """What whoever reads the figures should know about what they stand on. The retries of `ruled` follow a function."""
    scenario = figures.scenario
    coming = {stream.task for stream in scenario.streams} | set(scheduled)
    found = [] if queues else ["the application declares no tasks: is the module imported that has them?"]
    if guessed := [name for name in scenario.assumed if name in coming]:
        verb = "takes" if len(guessed) == 1 else "take"
        found.append(f"nobody said how long {listed(guessed)} {verb} (--durations); 1s is assumed.")
    if idle := [name for name in queues if name not in coming]:
        found.append(f"{listed(idle)} never ran: without a schedule, and without --arrivals.")
    due = {schedule.name for schedule in figures.schedules}
    if silent := [name for name in scheduled if name not in due]:
        found.append(f"{listed(silent)} {'has' if len(silent) == 1 else 'have'} no slot in this time.")
    found += [
        f"{stream.words()} never comes in this time."
        for stream in scenario.streams
        if not stream.expected(scenario.start, scenario.length)
    ]
    if unknown := [name for name in ruled if name in coming and scenario.failures.get(name)]:
        found.append(
            f"the retry rule of {listed(unknown)} is a function, which is not called: the usual backoff is assumed."
        )
    return [*found, NOT_SIMULATED]


def asked(scenario: Scenario, application: str) -> list[tuple[str, str]]:
    """What was simulated, for whoever finds the figures later."""
    limits = [f"{queue}: {_limit(limit)}" for queue, limit in sorted(scenario.limits.items())]
    rows = [
        ("application", application),
        ("time", f"{clock(scenario.start)} to {clock(scenario.end)} UTC"),
        ("nodes", f"{scenario.nodes:,}, with {plural(scenario.concurrency, 'seat')} each"),
        ("queues", ", ".join(scenario.queues)),
        ("durations", ", ".join(f"{name}={spread.words()}" for name, spread in scenario.durations.items())),
        ("arrivals", ", ".join(stream.words() for stream in scenario.streams)),
        ("failures", ", ".join(f"{name}={_exactly(share)}" for name, share in scenario.failures.items())),
        ("outages", _outages(scenario)),
        ("limits", ", ".join(limits)),
        ("target", describe(scenario.target)),
        ("seed", str(scenario.seed)),
    ]
    return [(name, value) for name, value in rows if value]


def _exactly(share: float) -> str:
    return f"{share * 100:.12g} %"


def _outages(scenario: Scenario) -> str:
    shown = [f"{clock(moment(scenario.start, one.start))} for {about(one.length)}" for one in scenario.outages[:3]]
    more = len(scenario.outages) - len(shown)
    return ", ".join([*shown, f"and {more:,} more"] if more else shown)


def _limit(limits: Limits) -> str:
    parts = [] if limits.globally is None else [f"{limits.globally:,} at once"]
    parts += [] if limits.per_node is None else [f"{limits.per_node:,} at once on each node"]
    return ", ".join(parts)
