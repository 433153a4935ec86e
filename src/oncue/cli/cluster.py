"""`oncue cluster`: cluster jobs, node by node, and who leads."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from oncue.app import Oncue
from oncue.cli import arguments, cluster_tables, failures, output, values
from oncue.cli.actor import actor
from oncue.cli.arguments import ArgsOption, Pairs
from oncue.cli.cluster_tables import ClusterSnapshot
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import ClusterJob
from oncue.policy import quorum
from oncue.policy.durations import seconds
from oncue.records.cluster import cluster_job_detail, cluster_job_record, cluster_leader_record
from oncue.verbs.cluster import Leader

LOOK_SECONDS = 0.2
PARTS_SECONDS = 2.0
"""How long a command that does not wait for the end waits for the parts to be written."""

Ref = Annotated[str, typer.Argument(metavar="ID", help="The cluster job's id or uid.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")]
Before = Annotated[int | None, typer.Option("--before", metavar="ID", help="Older than this job.")]

commands = typer.Typer()


@commands.callback(invoke_without_command=True)
def list_recent(
    context: typer.Context,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the cluster jobs; `run` one, `show` one node by node, or say which node is the `leader`."""
    if context.invoked_subcommand is None:
        list_cluster_jobs(as_json=as_json, app=app, database_url=database_url, schema=schema)


@commands.command("list")
def list_cluster_jobs(
    limit: Limit = 50,
    before: Before = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the cluster jobs, newest first."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[ClusterJob], datetime]:
        return await found.cluster.list(before=before, limit=limit), await found.now()

    jobs, now = ask(found, work)
    if as_json:
        output.show_json([cluster_job_record(cluster) for cluster in jobs])
    elif jobs:
        output.show(cluster_tables.listed(jobs, now))
        if len(jobs) == limit:
            output.show(f"[dim]There may be more: --before {jobs[-1].id}[/]")
    else:
        output.show("There are no cluster jobs. `oncue cluster run TASK` makes one.")


@commands.command("leader")
def show_leader(
    as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """Say which node leads, and under which epoch. Exit code 3 if none does."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Leader | None, datetime]:
        return await found.cluster.leader(), await found.now()

    leader, now = ask(found, work)
    if as_json:
        output.show_json(None if leader is None else cluster_leader_record(leader, address=leader.address))
    elif leader is not None:
        where = "" if leader.address is None else f" ({escape(leader.address)})"
        since, until = output.took((now - leader.since).total_seconds()), output.when(leader.expires_at, now)
        led = f"has led for {since}, under epoch {leader.epoch}; its lease ends {until}."
        output.show(f"{escape(leader.name)}{where} {led}")
    else:
        output.show("No node leads. Start a worker: `oncue worker`.")
    if leader is None:
        raise typer.Exit(failures.NOT_FOUND)


@commands.command("show")
def show_cluster_job(
    ref: Ref,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it until it has ended.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show a cluster job, node by node."""
    wanted, found = values.reference(ref), find(app, database_url=database_url, schema=schema)

    async def work() -> ClusterSnapshot:
        if watch:
            await _watched(found, (await found.cluster.get(wanted)).id, None, quiet=as_json)
        return await _looked_at(found, wanted)

    _show(ask(found, work), as_json, was_live=watch and sys.stdout.isatty())


@commands.command("run")
def run_cluster_job(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The cluster task's name.", show_default=False)],
    pairs: Pairs = None,
    args: ArgsOption = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="NAMES", help="Only these nodes: a,b. \\[default: all active ones]")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="At most one unfinished job of the task has it.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", "-p", help="From 0 to 100.")] = None,
    wait: Annotated[
        bool | None,
        typer.Option("--wait/--no-wait", help="Show it until it has ended. \\[default: on a terminal]"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="Wait for its end for so long at most.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let every node do its part of a cluster task, then the leader its own: `oncue cluster run compact level=2`.

    Exit code 1 if the job fails or is cancelled, 4 if it has not ended within --timeout. Ctrl-C ends the waiting only.
    """
    patience = None if timeout is None else seconds(values.duration(timeout, "--timeout"))
    waits = (sys.stdout.isatty() or timeout is not None) if wait is None else wait
    found = find(app, needs_tasks=True, may_create=True, database_url=database_url, schema=schema)
    wanted = found.cluster.task(task)
    limit = found.settings.max_args_bytes
    given = arguments.named(pairs, args)
    named = arguments.fitting(given, lambda meant: wanted.arguments.dump((), meant, limit))
    names = None if nodes is None else [name.strip() for name in nodes.split(",") if name.strip()]
    made: list[int] = []

    async def work() -> ClusterSnapshot:
        parts_within = 0.0 if waits else PARTS_SECONDS
        cluster = await found.cluster.run(
            wanted, named, nodes=names, key=key, priority=priority, by=actor(), timeout=parts_within
        )
        made.append(cluster.id)
        if waits:
            await _watched(found, cluster.id, patience, quiet=as_json)
        elif cluster.spread_at is not None and not cluster.parts:
            await _watched(found, cluster.id, PARTS_SECONDS, quiet=True)  # no node takes part: it is about to fail
        return await _looked_at(found, cluster.id)

    try:
        look = ask(found, work)
    except KeyboardInterrupt:
        if made:
            failures.say(f"cluster job {made[0]} goes on: `oncue cluster show {made[0]} --watch`")
        raise
    if waits or as_json:
        _show(look, as_json, was_live=sys.stdout.isatty())
    else:
        _tell(look)
    raise typer.Exit(_exit_code(look.cluster) if waits or look.cluster.job.finished else 0)


def _exit_code(cluster: ClusterJob) -> int:
    if not cluster.job.finished:
        failures.say(f"cluster job {cluster.id} has not ended; it goes on: `oncue explain {cluster.id}` tells how")
        return failures.CHECK
    return failures.FAILED if cluster.job.state in ("failed", "cancelled") else 0


def _tell(look: ClusterSnapshot) -> None:
    """What a command that does not wait says of the job that it made."""
    cluster = look.cluster
    job = f"cluster job {cluster.id} ({cluster.job.uid}) of {escape(cluster.job.task)}"
    if cluster.job.finished:
        why = cluster.job.error or cluster.job.reason
        told = f": {escape(why)}" if why else f": `oncue cluster show {cluster.id}`"
        output.show(f"{job} is {quorum.job_status(cluster)}{told}")
    elif cluster.spread_at is None:
        waits_for = cluster_tables.NOT_YET if look.is_led else cluster_tables.NO_LEADER
        output.show(f"{job} waits for {waits_for}: `oncue explain {cluster.id}`")
    else:
        parts = output.plural(len(cluster.parts), "node")
        output.show(f"{job} has a part for each of {parts}: `oncue cluster show {cluster.id} --watch`")


async def _watched(app: Oncue, job_id: int, patience: float | None, *, quiet: bool) -> None:
    """Look at a cluster job again and again until it has ended, and show it meanwhile."""
    until = None if patience is None else asyncio.get_running_loop().time() + patience
    with cluster_tables.screen(quiet=quiet) as shown:
        while True:
            look = await _looked_at(app, job_id)
            shown(look)
            if look.cluster.job.finished or (until is not None and asyncio.get_running_loop().time() >= until):
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _looked_at(app: Oncue, ref: int | UUID) -> ClusterSnapshot:
    cluster = await app.cluster.get(ref)
    is_led = cluster.spread_at is not None or await app.cluster.leader() is not None
    return ClusterSnapshot(cluster, await app.now(), is_led)


def _show(look: ClusterSnapshot, as_json: bool, *, was_live: bool) -> None:
    """A cluster job as it is now. A live table has shown all but the whole texts."""
    if as_json:
        output.show_json(cluster_job_detail(look.cluster))
        return
    if not was_live:
        output.show(output.details(cluster_tables.lines(look)))
        if look.cluster.parts:
            output.show(cluster_tables.parts(look))
    for title, text in _texts(look.cluster):
        if text:
            output.show(f"[bold]{title}[/]\n{output.paragraph(text)}")


def _texts(cluster: ClusterJob) -> list[tuple[str, Any]]:
    return [("result", cluster_tables.pretty(cluster.job.result)), ("error", cluster.job.error)]


def register(cli: typer.Typer) -> None:
    cli.add_typer(commands, name="cluster")
