"""From what was typed after `oncue simulate` to a scenario. A complaint names the option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer

from oncue.app import Oncue
from oncue.bypass import refuse_declared
from oncue.cli import values
from oncue.cli.finding import ask, has_database
from oncue.planning import arrivals, reading, spans, spreads, volume
from oncue.planning.arrivals import Stream
from oncue.planning.scenario import Scenario
from oncue.planning.spreads import Constant, Spread
from oncue.policy import durations
from oncue.policy.triggers import Rule

MEASURED = "measured"
SAMPLE = 1000
ASSUMED = Constant(1.0)
USUAL_DAYS = 7
LONGEST_DAYS = 3660
USUAL_PROCESSES = 4
"""On every machine, lest the output depend on the one that it is made on."""
FIRST_YEAR, LAST_YEAR = 1970, 2200


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed, as it was typed."""

    days: int | None
    length: str | None
    start: str
    nodes: int
    seed: int
    target: str
    durations: Sequence[str]
    arrivals: Sequence[str]
    failures: Sequence[str]
    outages: Sequence[str]
    limits: Sequence[str]
    names_queues: bool = False
    """Whether the queues to serve were typed too, over the settings."""


def scenario(app: Oncue, typed: Typed) -> Scenario:
    tasks, start, length = sorted(app.tasks), _start(typed.start), _length(typed.days, typed.length)
    known = _durations(app, tasks, typed.durations)
    used = sorted(set(queues(app).values()))
    with _naming("--queues"):
        for name in _served(app) if typed.names_queues else ():
            reading.check_known(name, used, "queue")
    with _naming("--limit"):
        limits = reading.limits(reading.pairs(_files(typed.limits), used, "queue"))
    with _naming("--outage"):
        outages = spans.outages(reading.entries(_files(typed.outages)), start, length)
    failures, streams = _failures(app, typed.failures), _streams(app, typed.arrivals)
    with _naming("--arrivals"):
        jobs = volume.arriving(streams, start, length)
    with _naming("--days" if typed.length is None else "--for"):
        volume.check_slots(_rules(app), jobs, start, length)
    return Scenario(
        start=start,
        length=length,
        nodes=typed.nodes,
        concurrency=app.settings.concurrency,
        processes=_processes(app),
        queues=_served(app),
        seed=typed.seed,
        durations={name: known.get(name, ASSUMED) for name in tasks},
        assumed=tuple(name for name in tasks if name not in known),
        failures=failures,
        streams=streams,
        outages=outages,
        limits=limits,
        target=durations.seconds(values.duration(typed.target, "--target")),
        patience=_patience(app),
    )


# --- the application ------------------------------------------------------------------------------------------------


def queues(app: Oncue) -> dict[str, str]:
    """Which queue each task uses."""
    return {name: app.tasks[name].queue for name in sorted(app.tasks)}


def in_processes(app: Oncue) -> list[str]:
    return [name for name in sorted(app.tasks) if app.tasks[name].process]


def _served(app: Oncue) -> tuple[str, ...]:
    """What a worker with these settings serves. Where nothing is set, a plan is about all of the tasks."""
    if app.settings.origin("queues") == "default" and app.tasks:
        return tuple(sorted(set(queues(app).values())))
    return app.settings.queues


def _rules(app: Oncue) -> dict[str, Rule]:
    return {name: task.schedule.rule for name, task in app.tasks.items() if task.schedule is not None}


def _patience(app: Oncue) -> dict[str, float]:
    """By task: after which time a job that has not begun is given up."""
    limits = {name: (task.deadline, task.schedule and task.schedule.grace) for name, task in app.tasks.items()}
    return {name: min(known) for name, limit in limits.items() if (known := [one for one in limit if one is not None])}


def _processes(app: Oncue) -> int:
    return USUAL_PROCESSES if app.settings.origin("processes") == "default" else app.settings.processes


# --- options --------------------------------------------------------------------------------------------------------


def _start(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        wanted = "expected a date or an instant such as 2030-01-31 or 2030-01-31T09:00"
        said = f"{wanted}, from {FIRST_YEAR} to {LAST_YEAR}, not {text!r}"
        raise typer.BadParameter(said, param_hint="--start")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _length(days: int | None, length: str | None) -> float:
    if length is None:
        return (days or USUAL_DAYS) * spans.DAY
    if days is not None:
        raise typer.BadParameter("expected either --days or --for, not both", param_hint="--for")
    try:
        seconds = durations.seconds(length)
    except ValueError:
        seconds = 0.0
    if not 60 <= seconds <= LONGEST_DAYS * spans.DAY:
        wanted = f"expected a duration such as 36h, from 1m to {LONGEST_DAYS}d, not {length!r:.100}"
        raise typer.BadParameter(wanted, param_hint="--for")
    return seconds


def _durations(app: Oncue, tasks: Sequence[str], texts: Sequence[str]) -> dict[str, Spread]:
    with _naming("--durations"):
        plain = [f"*={MEASURED}" if entry == MEASURED else entry for entry in reading.entries(_files(texts))]
        written = reading.by_name(_pairs(app, plain), tasks)
        told = {name: spreads.spread(value) for name, value in written.items() if value != MEASURED}
        return {**told, **_measured(app, [name for name, value in written.items() if value == MEASURED])}


def _measured(app: Oncue, tasks: Sequence[str]) -> dict[str, Spread]:
    """What the last finished attempts of these tasks took, in the application's own database."""
    if not tasks:
        return {}
    if not has_database(app):
        raise ValueError("there is no database yet in which anything was measured")

    async def work() -> dict[str, Spread]:
        found: dict[str, Spread] = {}
        for name in tasks:
            jobs = await app.jobs.list(("succeeded", "failed"), task=name, limit=SAMPLE)
            taken = [job.duration for job in jobs if job.duration is not None]
            if taken:
                found[name] = spreads.measured(taken)
        return found

    return ask(app, work)


def _streams(app: Oncue, texts: Sequence[str]) -> tuple[Stream, ...]:
    with _naming("--arrivals"):
        written = _pairs(app, _files(texts))
        if any(name == reading.EVERYTHING_ELSE for name, _ in written):
            raise ValueError("expected the name of a task before the =, not *")
        for name, _ in written:
            refuse_declared(app.find(name))  # in production it would be refused too
        streams = tuple(arrivals.stream(name, value) for name, value in written)
        arrivals.check_apart(streams)
        return streams


def _failures(app: Oncue, texts: Sequence[str]) -> dict[str, float]:
    with _naming("--failures"):
        written = [(name, reading.share(value)) for name, value in _pairs(app, _files(texts))]
        return reading.by_name(written, sorted(app.tasks))


def _pairs(app: Oncue, texts: Sequence[str]) -> list[tuple[str, str]]:
    return reading.pairs(texts, sorted(app.tasks), queues=queues(app))


def _files(texts: Sequence[str]) -> list[str]:
    """The same texts, with what is in the files for those that name one."""
    return [_read(Path(text[1:])) if text.startswith("@") else text for text in texts]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a file to read after the @; {error}") from None


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """A complaint about what was typed names the option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
