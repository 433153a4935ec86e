"""`oncue jobs` and `oncue job`: looking at jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from oncue.app import Oncue
from oncue.cli import output, values
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import STATES, Attempt, ClusterJob, Job
from oncue.policy import options, quorum, suspicion
from oncue.policy.error_summary import error_summary
from oncue.policy.statuses import ALIASES
from oncue.records.jobs import attempt_record, job_record
from oncue.verbs.jobs import LARGEST_OFFSET
from oncue.verbs.jobs.reading import cluster_job_of

Ref = Annotated[str, typer.Argument(metavar="ID", help="The job's id or uid.", show_default=False)]


def complete_status(incomplete: str) -> list[str]:
    return [word for word in (*STATES, *ALIASES) if word.startswith(incomplete)]


Statuses = Annotated[
    list[str] | None,
    typer.Option(
        "--status", "-s", metavar="STATUS", help="Only these; repeat it, or use commas. queued is all that waits.",
        autocompletion=complete_status, show_default=False,
    ),
]  # fmt: skip


SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="INSTANT", help=f"Made then or later: {values.INSTANT}.")
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="INSTANT", help="Made before that.")]


def list_jobs(
    status: Statuses = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue.")] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this key.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only this group of its queue.")] = None,
    address: Annotated[str | None, typer.Option("--address", help="Only for this address, such as node:NAME.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 50,
    before: Annotated[int | None, typer.Option("--before", metavar="ID", help="Older than this job.")] = None,
    offset: Annotated[int, typer.Option("--offset", min=0, max=LARGEST_OFFSET, help="Leave out so many.")] = 0,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --json: arguments, results and errors of over 2 KB too.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List jobs, newest first."""
    if whole and not as_json:
        raise typer.BadParameter("expected --json too: a table has no room for large fields", param_hint="--whole")
    states, found = values.states(status or []), find(app, database_url=database_url, schema=schema)
    made = values.maybe_moment(since, "--since"), values.maybe_moment(until, "--until")

    async def work() -> tuple[list[Job], datetime]:
        now = await found.now()
        jobs = await found.jobs.list(
            states, queue=queue, task=task, key=key, group=group, address=address, before=before,
            since=made[0] and made[0].at(now), until=made[1] and made[1].at(now), limit=limit, offset=offset,
            whole=whole,
        )  # fmt: skip
        return jobs, now

    jobs, now = ask(found, work)
    if as_json:
        output.show_json([job_record(job) for job in jobs])
    elif jobs:
        _show_jobs(jobs, now, full=len(jobs) == limit)
    else:
        filtered = bool(states or queue or task or key or group or address or since or until or before or offset)
        output.show("No job matches." if filtered else "There are no jobs yet. `oncue enqueue TASK` makes one.")


def _show_jobs(jobs: list[Job], now: datetime, *, full: bool) -> None:
    for_whom = ("for",) if any(job.group or job.address for job in jobs) else ()
    columns = ("status", "prio", "tries", "created", "next or last", "took")
    table = output.table("id", "task", "arguments", "queue", *for_whom, *columns, right=("id", "prio", "tries", "took"))
    for job in jobs:
        groups = [escape(job.group or job.address or "") for _ in for_whom]
        table.add_row(
            str(job.id), escape(job.task), escape(_arguments(job)), escape(job.queue), *groups, _status(job),
            str(job.priority), str(job.attempt), output.when(job.created_at, now),
            output.when(_moment(job), now), output.took(job.duration),
        )  # fmt: skip
    output.show(table)
    if full:
        output.show(f"[dim]There may be more: --before {jobs[-1].id}[/]")


def _status(job: Job) -> str:
    """A running job says how far it has come, if its handler does."""
    told = job.state == "running" and job.progress is not None
    return output.styled(job.state) + (f" {job.progress:.0%}" if told else "")


def _moment(job: Job) -> datetime:
    """What is next for a job that waits, else what was last."""
    return job.visible_at if job.state in ("scheduled", "retrying") else job.finished_at or job.updated_at


def _arguments(job: Job) -> str:
    size = (job.shortened or {}).get("args")
    return _short(job.args) if size is None else f"({size:,} bytes)"


def _short(args: dict[str, Any]) -> str:
    text = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    return text if len(text) <= 40 else f"{text[:39]}…"


def show_job(
    ref: Ref,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show one job with all its attempts."""
    wanted, found = values.reference(ref), find(app, database_url=database_url, schema=schema)

    seen = ask(found, lambda: _looked_at(found, wanted))
    job = seen.job
    if as_json:
        output.show_json(_detail_record(seen))
        return
    output.show(output.details(_job_lines(seen)))
    if seen.attempts:
        output.show(_attempts_table(seen))
    for title, text in (("result", _pretty(job.result)), ("details", _pretty(job.details)), ("error", job.error)):
        if text:
            output.show(f"[bold]{title}[/]\n{output.paragraph(text)}")


@dataclass(frozen=True)
class _Seen:
    """One job and what belongs to it. `whole`: the cluster job that it is, or of which it is a part."""

    job: Job
    attempts: list[Attempt]
    retries: list[Job]
    schedule: str | None
    whole: ClusterJob | None
    names: dict[UUID, str]
    now: datetime

    def worker(self, node: UUID | None) -> str | None:
        """A node's name, whether it lives or not; its id if it is forgotten."""
        return None if node is None else self.names.get(node, str(node))


async def _looked_at(app: Oncue, ref: int | UUID) -> _Seen:
    connected, job = await app.internals.connected(), await app.jobs.get(ref)
    store, attempts = connected.store, await app.jobs.attempts(job.id)
    nodes = {node for node in (job.node_id, *(attempt.node_id for attempt in attempts)) if node is not None}
    schedule = None if job.schedule_id is None else await store.schedules.by_id(job.schedule_id)
    return _Seen(
        job,
        attempts,
        await store.jobs.retries_of(job.id),
        None if schedule is None else schedule.name,
        await cluster_job_of(store, job, connected.now()),
        await store.nodes.names(sorted(nodes)),
        connected.now(),
    )


def _detail_record(seen: _Seen) -> dict[str, Any]:
    return {
        **job_record(seen.job),
        "worker": seen.worker(seen.job.node_id),
        "schedule": seen.schedule,
        "part_of": seen.whole.id if seen.whole is not None and seen.whole.id != seen.job.id else None,
        "retried_as": [{"id": retry.id, "status": retry.state} for retry in seen.retries],
        "attempt_list": [attempt_record(attempt, seen.worker(attempt.node_id)) for attempt in seen.attempts],
    }


def _job_lines(seen: _Seen) -> list[tuple[str, Any]]:
    job, now = seen.job, seen.now
    record = job_record(job)
    return [
        ("job", f"{job.id}  ({job.uid})"),
        ("task", escape(job.task)),
        ("arguments", escape(json.dumps(job.args, ensure_ascii=False))),
        ("status", output.styled(job.state) + (f"  ({escape(job.reason)})" if job.reason else "")),
        ("progress", _progress(job)),
        ("queue", escape(job.queue)),
        ("group", None if job.group is None else escape(job.group)),
        ("address", None if job.address is None else escape(job.address)),
        ("part of", _part_of(seen)),
        ("parts", _parts(seen)),
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
        ("crashes", _crashes(job)),
        ("node", _node(seen)),
        ("cancel asked", output.full(job.cancel_requested_at, now)),
        ("retry of", job.retry_of),
        ("retried as", ", ".join(f"{retry.id} ({output.styled(retry.state)})" for retry in seen.retries)),
    ]


def _part_of(seen: _Seen) -> str | None:
    """Of which cluster job a job is one node's part."""
    whole, job = seen.whole, seen.job
    part = None if whole is None else next((part for part in whole.parts if part.job_id == job.id), None)
    if whole is None or part is None:
        return None
    return f"cluster job {whole.id} ({escape(whole.job.task)}), on {escape(part.node_name)}"


def _parts(seen: _Seen) -> str | None:
    """How many parts a cluster job has, by what became of them."""
    whole = seen.whole
    if whole is None or whole.id != seen.job.id:
        return None
    statuses = quorum.statuses_of(whole)
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    return f"{len(statuses)}{f' ({counts})' if counts else ''}: oncue cluster show {whole.id}"


def _progress(job: Job) -> str | None:
    if job.progress is None:
        return None
    return f"{output.bar(job.progress)} {job.progress:.0%}  {escape(job.progress_note or '')}".rstrip()


def _crashes(job: Job) -> str | None:
    if not job.crashes:
        return None
    apart = {suspicion.IN_COHORT: "  (runs in a small cohort)", suspicion.ALONE: "  (runs alone on its node)"}
    most = options.read(job.options).max_crashes
    return f"{job.crashes} of {most}{'' if job.finished else apart.get(suspicion.isolation_of(job), '')}"


def _slot(seen: _Seen) -> str | None:
    slot = output.full(seen.job.scheduled_for, seen.now)
    return slot if slot is None or seen.schedule is None else f"{slot}  of {escape(seen.schedule)}"


def _node(seen: _Seen) -> str | None:
    node = seen.job.node_id
    if node is None:
        return None
    return f"{escape(seen.names[node])}  ({node})" if node in seen.names else str(node)


def _attempts_table(seen: _Seen) -> Any:
    """Details have a column of their own if a handler told any."""
    told = ["details"] if any(attempt.details for attempt in seen.attempts) else []
    table = output.table("attempt", "outcome", "started", "took", "node", *told, "error", right=("attempt", "took"))
    for attempt in seen.attempts:
        details = [escape(_short(attempt.details or {}))] if told else []
        table.add_row(
            str(attempt.attempt), attempt.outcome, output.when(attempt.started_at, seen.now),
            output.took(attempt.duration),
            escape(seen.worker(attempt.node_id) or ""), *details, escape(error_summary(attempt.error)),
        )  # fmt: skip
    return table


def _pretty(result: Any) -> str | None:
    return None if result is None else json.dumps(result, indent=2, ensure_ascii=False)


def register(cli: typer.Typer) -> None:
    cli.command("jobs")(list_jobs)
    cli.command("job")(show_job)
