"""From the options of `oncue simulate` to a scenario. A complaint names the option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import typer

from oncue.app import Oncue
from oncue.application.slots_only import refuse_declared
from oncue.cli.finding import ask, has_database
from oncue.planning import reading
from oncue.planning.scenario import DAY, Scenario, Spread, Stream
from oncue.policy import durations, moments

MEASURED = "measured"
SAMPLE = 1000
USUAL_DAYS, LONGEST_DAYS = 7, 3660
USUAL_PROCESSES = 4
"""The same on every machine, so that the output does not depend on the machine."""
FIRST_YEAR, LAST_YEAR = 1970, 2200


def scenario(
    app: Oncue, *, start: str, days: int | None, length: str | None, nodes: int, seed: int, target: str,
    takes: Sequence[str], arrivals: Sequence[str], failures: Sequence[str], outages: Sequence[str],
    limits: Sequence[str], names_queues: bool,
) -> Scenario:  # fmt: skip
    """`names_queues` says that the queues to serve were typed too, over the settings."""
    tasks, used = sorted(app.tasks), sorted(set(queues(app).values()))
    with naming("--start"):
        first = _start(start)
    with naming("--for"):
        seconds = _length(days, length)
    with naming("--durations"):
        known = _durations(app, takes)
    with naming("--queues"):
        for name in _served(app) if names_queues else ():
            reading.check_known(name, used, "queue")
    with naming("--limit"):
        at_once = reading.limits(reading.pairs(_files(limits), used, "queue"))
    with naming("--outage"):
        spans = reading.outages(reading.entries(_files(outages)), first, seconds)
    with naming("--failures"):
        fails = reading.by_name([(name, reading.share(value)) for name, value in _pairs(app, failures)], tasks)
    with naming("--arrivals"):
        streams = _streams(app, arrivals)
    with naming("--arrivals, --days"):
        rules = {name: task.schedule.rule for name, task in app.tasks.items() if task.schedule is not None}
        reading.check_volume(streams, rules, first, first + timedelta(seconds=seconds))
    with naming("--target"):
        late = durations.seconds(target)
    return Scenario(
        start=first, length=seconds, nodes=nodes, concurrency=app.settings.concurrency, processes=_processes(app),
        queues=_served(app), seed=seed, durations={name: known.get(name, reading.constant(1.0)) for name in tasks},
        assumed=tuple(name for name in tasks if name not in known), failures=fails, arrivals=streams, outages=spans,
        limits=at_once, target=late, longest_waits=_longest_waits(app),
    )  # fmt: skip


def of_task(app: Oncue, name: str, takes: Sequence[str], failures: Sequence[str]) -> tuple[Spread | None, float]:
    """How long attempts of one task take, if that is known, and which share of them fails."""
    with naming("--durations"):
        known = _durations(app, takes)
    with naming("--failures"):
        fails = reading.by_name([(task, reading.share(value)) for task, value in _pairs(app, failures)], [name])
    return known.get(name), fails.get(name, 0.0)


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


def _longest_waits(app: Oncue) -> dict[str, float]:
    """By task: after which time a job that has not begun is given up."""
    limits = {name: (task.deadline, task.schedule and task.schedule.grace) for name, task in app.tasks.items()}
    return {name: min(known) for name, limit in limits.items() if (known := [one for one in limit if one is not None])}


def _processes(app: Oncue) -> int:
    return USUAL_PROCESSES if app.settings.origin("processes") == "default" else app.settings.processes


# --- options --------------------------------------------------------------------------------------------------------


def _start(text: str) -> datetime:
    try:
        start = moments.utc(text)
    except ValueError:
        start = None
    if start is None or not FIRST_YEAR <= start.year <= LAST_YEAR:
        wanted = "expected a date or an instant such as 2030-01-31 or 2030-01-31T09:00"
        raise ValueError(f"{wanted}, from {FIRST_YEAR} to {LAST_YEAR}, not {text!r}")
    return start


def _length(days: int | None, length: str | None) -> float:
    if length is None:
        return (days or USUAL_DAYS) * DAY
    if days is not None:
        raise ValueError("expected either --days or --for, not both")
    try:
        seconds = durations.seconds(length)
    except ValueError:
        seconds = 0.0
    if not 60 <= seconds <= LONGEST_DAYS * DAY:
        raise ValueError(f"expected a duration such as 36h, from 1m to {LONGEST_DAYS}d, not {length!r:.100}")
    return seconds


def _durations(app: Oncue, texts: Sequence[str]) -> dict[str, Spread]:
    plain = [f"*={MEASURED}" if entry == MEASURED else entry for entry in reading.entries(_files(texts))]
    written = reading.by_name(_pairs(app, plain), sorted(app.tasks))
    told = {name: reading.spread(value) for name, value in written.items() if value != MEASURED}
    wanted = [name for name, value in written.items() if value == MEASURED]
    if wanted and not has_database(app):
        raise ValueError("there is no database yet in which anything was measured")
    return {**told, **_measured(app, wanted)} if wanted else told


def _measured(app: Oncue, tasks: Sequence[str]) -> dict[str, Spread]:
    """What the last finished attempts of these tasks took, in the application's own database."""

    async def work() -> dict[str, Spread]:
        found: dict[str, Spread] = {}
        for name in tasks:
            jobs = await app.jobs.list(("succeeded", "failed"), task=name, limit=SAMPLE)
            if taken := [job.duration for job in jobs if job.duration is not None]:
                found[name] = reading.measured(taken)
        return found

    return ask(app, work)


def _streams(app: Oncue, texts: Sequence[str]) -> tuple[Stream, ...]:
    written = _pairs(app, texts)
    if any(name == reading.EVERYTHING_ELSE for name, _ in written):
        raise ValueError("expected the name of a task before the =, not *")
    for name, _ in written:
        refuse_declared(app.find(name))  # in production it would be refused too
    streams = tuple(reading.stream(name, value) for name, value in written)
    reading.check_apart(streams)
    return streams


def _pairs(app: Oncue, texts: Sequence[str]) -> list[tuple[str, str]]:
    return reading.pairs(_files(texts), sorted(app.tasks), queues=queues(app))


def _files(texts: Sequence[str]) -> list[str]:
    """The same texts, with what is in the files for those that name one."""
    try:
        return [Path(text[1:]).read_text("utf-8") if text.startswith("@") else text for text in texts]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a file to read after the @; {error}") from None


@contextmanager
def naming(option: str) -> Iterator[None]:
    """A complaint about what was typed names the option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
