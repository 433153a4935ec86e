"""`oncue jobs`, `job`, `retry`, `cancel`, `priority`, `boost`: looking at jobs and changing their fate."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.markup import escape

from oncue.app import Oncue
from oncue.cli import failures, output, values
from oncue.cli.finding import AppOption, DatabaseOption, ask, find
from oncue.cli.output import JsonOption
from oncue.errors import OncueError
from oncue.model import STATES, Attempt, Job
from oncue.server.records import ALIASES, attempt_record, job_record

BY = "cli"

Ref = Annotated[str, typer.Argument(metavar="ID", help="The job's id or uid.", show_default=False)]
Refs = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids or uids of jobs.", show_default=False)]


def _complete_status(incomplete: str) -> list[str]:
    return [word for word in (*STATES, *ALIASES) if word.startswith(incomplete)]


Statuses = Annotated[
    list[str] | None,
    typer.Option(
        "--status", "-s", metavar="STATUS", help="Only these; repeat it, or separate by commas.",
        autocompletion=_complete_status, show_default=False,
    ),
]  # fmt: skip


def list_jobs(
    status: Statuses = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue.")] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this key.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 50,
    before: Annotated[int | None, typer.Option("--before", metavar="ID", help="Older than this job.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """List jobs, newest first."""
    states, found = values.states(status or []), find(app, database_url=database_url)

    async def work() -> tuple[list[Job], datetime]:
        jobs = await found.jobs(states, queue=queue, task=task, key=key, before=before, limit=limit)
        return jobs, (await found.connected()).now()

    jobs, now = ask(found, work)
    if as_json:
        output.show_json([job_record(job) for job in jobs])
    elif jobs:
        _show_jobs(jobs, now, full=len(jobs) == limit)
    else:
        filtered = bool(states or queue or task or key or before)
        output.show("No job matches." if filtered else "There are no jobs yet. `oncue enqueue TASK` makes one.")


def _show_jobs(jobs: list[Job], now: datetime, *, full: bool) -> None:
    columns = ("id", "task", "arguments", "queue", "status", "prio", "tries", "created", "next or last", "took")
    table = output.table(*columns, right=("id", "prio", "tries", "took"))
    for job in jobs:
        table.add_row(
            str(job.id), escape(job.task), escape(_short(job.args)), escape(job.queue), output.styled(job.state),
            str(job.priority), str(job.attempt), output.when(job.created_at, now),
            output.when(_moment(job), now), output.took(job.duration),
        )  # fmt: skip
    output.show(table)
    if full:
        output.show(f"[dim]There may be more: --before {jobs[-1].id}[/]")


def _moment(job: Job) -> datetime:
    """What is next for a job that waits, else what was last."""
    return job.visible_at if job.state in ("scheduled", "retrying") else job.finished_at or job.updated_at


def _short(args: dict[str, Any]) -> str:
    text = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    return text if len(text) <= 40 else f"{text[:39]}…"


def show_job(ref: Ref, as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None) -> None:
    """Show one job with all its attempts."""
    wanted, found = values.reference(ref), find(app, database_url=database_url)

    seen = ask(found, lambda: _looked_at(found, wanted))
    job = seen.job
    if as_json:
        output.show_json(_detail_record(seen))
        return
    output.show(output.details(_job_lines(seen)))
    if seen.attempts:
        output.show(_attempts_table(seen))
    for title, text in (("result", _pretty(job.result)), ("error", job.error)):
        if text:
            output.show(f"[bold]{title}[/]\n{escape(text)}")


@dataclass(frozen=True)
class _Seen:
    """One job and what belongs to it."""

    job: Job
    attempts: list[Attempt]
    retries: list[Job]
    schedule: str | None
    names: dict[UUID, str]
    now: datetime

    def worker(self, node: UUID | None) -> str | None:
        """A node's name, whether it lives or not; its id if it is forgotten."""
        return None if node is None else self.names.get(node, str(node))


async def _looked_at(app: Oncue, ref: int | UUID) -> _Seen:
    connected, job = await app.connected(), await app.job(ref)
    store, attempts = connected.store, await app.attempts(job.id)
    nodes = {node for node in (job.node_id, *(attempt.node_id for attempt in attempts)) if node is not None}
    schedule = None if job.schedule_id is None else await store.schedule_by_id(job.schedule_id)
    return _Seen(
        job,
        attempts,
        await store.retries(job.id),
        None if schedule is None else schedule.name,
        await store.node_names(sorted(nodes)),
        connected.now(),
    )


def _detail_record(seen: _Seen) -> dict[str, Any]:
    return {
        **job_record(seen.job),
        "worker": seen.worker(seen.job.node_id),
        "schedule": seen.schedule,
        "retried_as": [{"id": retry.id, "status": retry.state} for retry in seen.retries],
        "attempt_list": [
            {**attempt_record(attempt), "worker": seen.worker(attempt.node_id)} for attempt in seen.attempts
        ],
    }


def _job_lines(seen: _Seen) -> list[tuple[str, Any]]:
    job, now = seen.job, seen.now
    record = job_record(job)
    return [
        ("job", f"{job.id}  ({job.uid})"),
        ("task", escape(job.task)),
        ("arguments", escape(json.dumps(job.args, ensure_ascii=False))),
        ("status", output.styled(job.state) + (f"  ({escape(job.reason)})" if job.reason else "")),
        ("queue", escape(job.queue)),
        ("priority", job.priority),
        ("slot", _slot(seen)),
        ("key", None if job.key is None else escape(job.key)),
        ("enqueued by", escape(job.enqueued_by)),
        ("created", output.full(job.created_at, now)),
        ("updated", output.full(job.updated_at, now)),
        ("visible", output.full(job.visible_at, now)),
        ("next retry", output.full(job.visible_at, now) if job.state == "retrying" else None),
        ("deadline", output.full(job.deadline_at, now)),
        ("last attempt", output.full(job.started_at or job.claimed_at, now)),
        ("finished", output.full(job.finished_at, now)),
        ("duration", None if record["duration_ms"] is None else f"{record['duration_ms']:g} ms"),
        ("attempts", job.attempt),
        ("retries", f"{job.retry_count} of {job.max_retries} used"),
        ("crashes", job.crashes or None),
        ("node", _node(seen)),
        ("cancel asked", output.full(job.cancel_requested_at, now)),
        ("retry of", job.retry_of),
        ("retried as", ", ".join(f"{retry.id} ({output.styled(retry.state)})" for retry in seen.retries)),
    ]


def _slot(seen: _Seen) -> str | None:
    slot = output.full(seen.job.scheduled_for, seen.now)
    return slot if slot is None or seen.schedule is None else f"{slot}  of {escape(seen.schedule)}"


def _node(seen: _Seen) -> str | None:
    node = seen.job.node_id
    if node is None:
        return None
    return f"{escape(seen.names[node])}  ({node})" if node in seen.names else str(node)


def _attempts_table(seen: _Seen) -> Any:
    table = output.table("attempt", "outcome", "started", "took", "node", "error", right=("attempt", "took"))
    for attempt in seen.attempts:
        record = attempt_record(attempt)
        took = None if record["duration_ms"] is None else record["duration_ms"] / 1000
        last_line = (attempt.error or "").rstrip().rsplit("\n", 1)[-1]
        table.add_row(
            str(attempt.attempt), attempt.outcome, output.when(attempt.started_at, seen.now), output.took(took),
            escape(seen.worker(attempt.node_id) or ""), escape(last_line),
        )  # fmt: skip
    return table


def _pretty(result: Any) -> str | None:
    return None if result is None else json.dumps(result, indent=2, ensure_ascii=False)


# --- changing -------------------------------------------------------------------------------------------------------


def retry_jobs(
    refs: Refs, as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None
) -> None:
    """Start finished jobs over, each with its whole budget of retries."""
    found = find(app, database_url=database_url)
    _change(found, refs, as_json, lambda ref: found.retry(ref, by=BY), _retried)


def _retried(job: Job) -> str:
    """The one run of an at-most-once slot stays as it is; its retry is a job of its own."""
    again = "again" if job.retry_of is None else f"as a retry of job {job.retry_of}"
    return f"job {job.id} is {job.state} {again}"


def cancel_jobs(
    refs: Refs, as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None
) -> None:
    """Cancel jobs that wait, and ask those that run to stop."""
    found = find(app, database_url=database_url)
    _change(found, refs, as_json, found.cancel, _cancelled)


def _cancelled(job: Job) -> str:
    return f"job {job.id} is cancelled" if job.finished else f"job {job.id} runs and was asked to stop"


def _change(
    app: Oncue,
    refs: list[str],
    as_json: bool,
    verb: Callable[[int | UUID], Awaitable[Job]],
    sentence: Callable[[Job], str],
) -> None:
    """Do something to each job, whatever becomes of the others. The exit code is that of the first that failed."""
    wanted = [values.reference(ref) for ref in refs]

    async def work() -> list[Job | OncueError]:
        return [await _tried(verb, ref) for ref in wanted]

    answers = ask(app, work)
    if len(answers) == 1 and isinstance(answers[0], OncueError):
        raise answers[0]
    if as_json:
        told = [_told(ref, answer) for ref, answer in zip(refs, answers, strict=True)]
        output.show_json(told if len(told) > 1 else told[0])
    else:
        for answer in answers:
            output.show(sentence(answer) if isinstance(answer, Job) else f"[red]{escape(str(answer))}[/]")
    codes = [failures.exit_code(answer) for answer in answers if isinstance(answer, OncueError)]
    raise typer.Exit(codes[0] if codes else 0)


async def _tried(verb: Callable[[int | UUID], Awaitable[Job]], ref: int | UUID) -> Job | OncueError:
    try:
        return await verb(ref)
    except OncueError as error:
        return error


def _told(ref: str, answer: Job | OncueError) -> dict[str, Any]:
    return job_record(answer) if isinstance(answer, Job) else {"ref": ref, "refused": str(answer)}


def set_priority(
    ref: Ref,
    priority: Annotated[int, typer.Argument(help="From 0 to 100.", show_default=False)],
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Set the priority of an unfinished job."""
    found = find(app, database_url=database_url)
    _reprioritize(found, ref, as_json, lambda job_id: found.prioritize(job_id, priority))


def boost_job(
    ref: Ref,
    by: Annotated[int, typer.Argument(help="How much to add; 100 is the highest.")] = 10,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
) -> None:
    """Raise the priority of an unfinished job."""
    found = find(app, database_url=database_url)
    _reprioritize(found, ref, as_json, lambda job_id: found.boost(job_id, by))


def _reprioritize(app: Oncue, ref: str, as_json: bool, verb: Callable[[int], Awaitable[int]]) -> None:
    wanted = values.reference(ref)

    async def work() -> tuple[int, int]:
        job = await app.job(wanted)
        return job.id, await verb(job.id)

    job_id, priority = ask(app, work)
    if as_json:
        output.show_json({"id": job_id, "priority": priority})
    else:
        output.show(f"job {job_id} has priority {priority}")


def register(cli: typer.Typer) -> None:
    cli.command("jobs")(list_jobs)
    cli.command("job")(show_job)
    cli.command("retry")(retry_jobs)
    cli.command("cancel")(cancel_jobs)
    cli.command("priority")(set_priority)
    cli.command("boost")(boost_job)
