"""`oncue retry`, `cancel`, `set-status`, `priority` and `boost`: changing the fate of jobs by ids or by a filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from oncue.app import Oncue
from oncue.cli import failures, matching, output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.jobs import Ref, SinceOption, Statuses, UntilOption, complete_status
from oncue.cli.matching import AddressOption, GroupOption, KeyOption, QueueOption, TaskOption, YesOption
from oncue.cli.output import JsonOption, escape
from oncue.errors import OncueError
from oncue.model import Job
from oncue.policy.checks import checked_priority
from oncue.records.jobs import job_record

Refs = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids or uids of jobs.", show_default=False)]
MaybeRefs = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="Ids or uids of jobs; or a filter.", show_default=False)
]


def retry_jobs(
    refs: MaybeRefs = None,
    status: Statuses = None,
    queue: QueueOption = None,
    task: TaskOption = None,
    key: KeyOption = None,
    group: GroupOption = None,
    address: AddressOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Start finished jobs over, each with its whole budget of retries.

    By their ids, or all that match: `oncue retry --status failed --task NAME`.
    """
    some = matching.wanted(
        refs or (), status, queue=queue, task=task, key=key, group=group, address=address, since=since, until=until
    )
    wanted, found = some and some.ended(), find(app, database_url=database_url, schema=schema)
    if wanted is None:
        _change(found, refs or [], as_json, lambda ref: found.jobs.retry(ref, by=actor()), _retried)
    else:
        verb = partial(found.jobs.retry_matching, by=actor())
        matching.change(found, wanted, verb, "Retry them", yes=yes, as_json=as_json)


def _retried(job: Job) -> str:
    """The one run of an at-most-once slot stays as it is; its retry is a job of its own."""
    again = "again" if job.retry_of is None else f"as a retry of job {job.retry_of}"
    return f"job {job.id} is {job.state} {again}"


def cancel_jobs(
    refs: MaybeRefs = None,
    status: Statuses = None,
    queue: QueueOption = None,
    task: TaskOption = None,
    key: KeyOption = None,
    group: GroupOption = None,
    address: AddressOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Cancel jobs that wait, and ask those that run to stop.

    By their ids, or all that match: `oncue cancel --queue NAME`.
    """
    some = matching.wanted(
        refs or (), status, queue=queue, task=task, key=key, group=group, address=address, since=since, until=until
    )
    wanted, found = some and some.unfinished(), find(app, database_url=database_url, schema=schema)
    if wanted is None:
        _change(found, refs or [], as_json, lambda ref: found.jobs.cancel(ref, by=actor()), _cancelled)
    else:
        verb = partial(found.jobs.cancel_matching, by=actor())
        matching.change(found, wanted, verb, "Cancel them", yes=yes, as_json=as_json)


def _cancelled(job: Job) -> str:
    return f"job {job.id} is cancelled" if job.finished else f"job {job.id} runs and was asked to stop"


def set_status(
    refs: Refs,
    status: Annotated[
        str, typer.Argument(help="queued, succeeded or failed.", autocompletion=complete_status, show_default=False)
    ],
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set the status of jobs by hand: `oncue set-status 17 failed`.

    A waiting job becomes succeeded or failed; a running one queued, succeeded
    or failed, and what its attempt comes to is rejected; a finished one is
    queued again, as `oncue retry` does it.
    """
    wanted, found = values.state(status, "STATUS"), find(app, database_url=database_url, schema=schema)
    _change(found, refs, as_json, lambda ref: found.jobs.set_status(ref, wanted, by=actor()), _stands)


def _stands(job: Job) -> str:
    return _retried(job) if job.retry_of is not None and job.state == "queued" else f"job {job.id} is {job.state}"


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
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[ID...] PRIORITY", help="Ids or uids of jobs, or a filter; then 0 to 100.", show_default=False
        ),
    ],
    status: Statuses = None,
    queue: QueueOption = None,
    task: TaskOption = None,
    key: KeyOption = None,
    group: GroupOption = None,
    address: AddressOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set the priority of unfinished jobs.

    By their ids, `oncue priority 17 80`, or of all that match: `oncue priority --task NAME 80`.
    """
    *refs, last = words
    some = matching.wanted(
        refs, status, queue=queue, task=task, key=key, group=group, address=address, since=since, until=until
    )
    priority = _priority(last)
    wanted, found = some and some.unfinished(), find(app, database_url=database_url, schema=schema)
    if wanted is not None:
        verb = partial(found.jobs.prioritize_matching, priority=priority, by=actor())
        matching.change(found, wanted, verb, f"Set their priority to {priority}", yes=yes, as_json=as_json)
    elif len(refs) == 1:
        _reprioritize(found, refs[0], as_json, lambda job_id: found.jobs.prioritize(job_id, priority, by=actor()))
    else:

        async def prioritize(ref: int | UUID) -> Job:
            job = await found.jobs.get(ref)
            await found.jobs.prioritize(job.id, priority, by=actor())
            return await found.jobs.get(ref)

        _change(found, refs, as_json, prioritize, lambda job: f"job {job.id} has priority {job.priority}")


def _priority(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise typer.BadParameter(f"expected a whole number from 0 to 100, not {text!r:.40}", param_hint="PRIORITY")
    return checked_priority(int(text))


def boost_job(
    ref: Ref,
    amount: Annotated[int, typer.Argument(metavar="BY", help="How much to add; 100 is the highest.")] = 10,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Raise the priority of an unfinished job."""
    found = find(app, database_url=database_url, schema=schema)
    _reprioritize(found, ref, as_json, lambda job_id: found.jobs.boost(job_id, amount, by=actor()))


def _reprioritize(app: Oncue, ref: str, as_json: bool, verb: Callable[[int], Awaitable[int]]) -> None:
    wanted = values.reference(ref)

    async def work() -> tuple[int, int]:
        job = await app.jobs.get(wanted)
        return job.id, await verb(job.id)

    job_id, priority = ask(app, work)
    if as_json:
        output.show_json({"id": job_id, "priority": priority})
    else:
        output.show(f"job {job_id} has priority {priority}")


def register(cli: typer.Typer) -> None:
    cli.command("retry")(retry_jobs)
    cli.command("cancel")(cancel_jobs)
    cli.command("set-status")(set_status)
    cli.command("priority")(set_priority)
    cli.command("boost")(boost_job)
