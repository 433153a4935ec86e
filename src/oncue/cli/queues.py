"""`oncue queues`: what waits where; pausing, resuming and limiting queues and their groups."""

from __future__ import annotations

from datetime import datetime
from shlex import quote
from typing import Annotated, Any

import typer

from oncue.app import Oncue
from oncue.cli import failures, output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import Group, Limits, Queue
from oncue.policy import rates
from oncue.records.jobs import explanation_record
from oncue.records.queues import group_record, queue_record
from oncue.task import UNSET

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.", show_default=False)]
GroupOption = Annotated[str | None, typer.Option("--group", help="Only this group of the queue, such as tenant:7.")]

COLUMNS = ("queue", "queued", "running", "later", "succeeded", "failed", "cancelled", "skipped")
GROUP_COLUMNS = ("group", "queued", "running", "limit", "rate", "state")
MOST_SCHEDULES = 1000
MOST_COUNTED = 1000
"""So many jobs of a group are counted."""

commands = typer.Typer()


@commands.callback(invoke_without_command=True)
def list_queues(
    context: typer.Context,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the queues; `pause`, `resume` or `limit` one, or list its `groups`."""
    if context.invoked_subcommand is not None:
        return
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Queue], datetime]:
        return await found.queues.list(), await found.now()

    queues, now = ask(found, work)
    if as_json:
        output.show_json([queue_record(queue) for queue in queues])
    elif queues:
        _show(queues, now)
    else:
        output.show("There are no queues yet: a queue begins with its first job.")


def _show(queues: list[Queue], now: datetime) -> None:
    table = output.table(*COLUMNS, "limit", "state", right=COLUMNS[1:])
    for queue in queues:
        paused = queue.paused_at
        state = "[green]open[/]" if paused is None else f"[yellow]paused {output.when(paused, now)}[/]"
        counts = (getattr(queue, name) for name in COLUMNS[1:])
        table.add_row(escape(queue.name), *(f"{count:,}" for count in counts), _described(_limits_of(queue)), state)
    output.show(table)
    counted = [queue.counted_at for queue in queues if queue.counted_at is not None]
    if counted:
        output.show(f"[dim]There is so much that what waits was counted {output.when(min(counted), now)}.[/]")


def _limits_of(queue: Queue) -> Limits:
    texts = {"rate": queue.rate, "rate_per_group": queue.group_rate}
    known = {field: None if text is None else rates.parsed(text, field) for field, text in texts.items()}
    return Limits(queue.global_limit, queue.node_limit, queue.group_limit, **known)


def _described(limits: Limits) -> str:
    """What the limits say: how many may run at once, in all, on each node and of each group, and how many may start."""
    parts = [
        _part(limits.globally, "in all"),
        _part(limits.per_node, "per node"),
        _part(limits.per_group, "per group"),
        None if limits.rate is None else str(limits.rate),
        None if limits.rate_per_group is None else f"{limits.rate_per_group} per group",
    ]
    return ", ".join(part for part in parts if part is not None)


def _described_group(limits: Limits, name: str) -> str:
    """What is set for one group alone."""
    rate = None if limits.rate_per_group is None else str(limits.rate_per_group)
    parts = [part for part in (_part(limits.per_group, "at once"), rate) if part is not None]
    return ", ".join(parts) or f"no limit of its own; queue {escape(name)} says what holds for each group"


def _part(limit: int | None, what: str) -> str | None:
    return None if limit is None else f"{limit:,} {what}"


@commands.command("groups")
def list_groups(
    name: Name,
    after: Annotated[str | None, typer.Option("--after", metavar="GROUP", help="Only groups after this name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 100,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the groups of a queue of which something waits or runs, or for which something is set."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Group], bool, datetime]:
        groups = await found.queues.groups(name, after=after, limit=limit + 1)
        paused = any(queue.name == name and queue.paused_at for queue in await found.queues.list())
        return groups, paused, await found.now()

    groups, is_paused, now = ask(found, work)
    shown = groups[:limit]
    if as_json:
        output.show_json([group_record(known) for known in shown])
        return
    if shown:
        _show_groups(shown, now)
    else:
        further = "" if after is None else f" after {escape(after)}"
        output.show(f"No job of a group{further} waits or runs in queue {escape(name)}, and nothing is set for one.")
    if len(groups) > limit:
        output.show(f"[dim]There are more: --after {escape(quote(shown[-1].name))}[/]")
    if is_paused:
        output.show(f"[yellow]The queue is paused: nothing of any group starts until[/] {_resuming(name, None)}")


def _show_groups(groups: list[Group], now: datetime) -> None:
    table = output.table(*GROUP_COLUMNS, right=GROUP_COLUMNS[1:4])
    for known in groups:
        queued = f"{known.queued:,}" + ("+" if known.queued >= MOST_COUNTED else "")
        limit = "" if known.limit is None else f"{known.limit:,}"
        table.add_row(escape(known.name), queued, f"{known.running:,}", limit, known.rate or "", _state(known, now))
    output.show(table)


def _state(known: Group, now: datetime) -> str:
    if held_back := output.held_back(known, now):
        return held_back
    if known.limit is not None and known.running >= known.limit:
        return "[yellow]full[/]"
    if known.queued and known.rate is not None and known.rated_until is not None and known.rated_until > now:
        return f"[yellow]rate: next start {output.when(known.rated_until, now)}[/]"
    return "[green]open[/]"


@commands.command("explain")
def explain_queue(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Say why jobs of this queue start, or wait: a pause, no worker, a limit, a rate, no free seat."""
    found = find(app, database_url=database_url, schema=schema)
    explanation = ask(found, lambda: found.queues.explain(name))
    if as_json:
        output.show_json(explanation_record(explanation))
    else:
        from oncue.cli.explain import show_explanation  # the other commands do without

        show_explanation(explanation)


@commands.command("pause")
def pause_queue(
    name: Name,
    group: GroupOption = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Of a group: for so long, such as 10m.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="INSTANT", help="Of a group: until then.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """No more jobs of this queue, or of one group of it, start, on any node. Those that run go on."""
    end = _end_of_pause(group, for_, until)
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> bool:
        used = await _is_used(found, name)
        await found.queues.pause(name, group=group, **end, by=actor())
        return used

    used = ask(found, work)
    if as_json:
        output.show_json({**_named(name, group), "paused": True})
    else:
        output.show(f"{_called(name, group)} is paused{_ending(name, group, for_, until)}")
    _warn_unused(name, used)


def _end_of_pause(group: str | None, for_: str | None, until: str | None) -> dict[str, Any]:
    """What the options say of the end of a pause."""
    for option, text in (("--for", for_), ("--until", until)):
        if text is not None and group is None:
            raise typer.BadParameter(
                "expected only with --group: a queue is paused until it is resumed", param_hint=option
            )
    if for_ is not None and until is not None:
        raise typer.BadParameter("give either --for or --until, not both", param_hint="--until")
    if for_ is not None:
        return {"for_": values.duration(for_, "--for")}
    return {} if until is None else {"until": values.instant(until, "--until")}


def _ending(name: str, group: str | None, for_: str | None, until: str | None) -> str:
    """How a pause ends: by a command alone, or by itself and before that by the command."""
    if for_ is None and until is None:
        return f": nothing of it starts until {_resuming(name, group)}"
    ends = f"until {until}" if for_ is None else f"for {for_}"
    return f" {escape(ends)}: nothing of it starts before, unless you run {_resuming(name, group)}"


def _named(name: str, group: str | None) -> dict[str, str]:
    return {"name": name} if group is None else {"name": name, "group": group}


def _called(name: str, group: str | None) -> str:
    return f"queue {escape(name)}" if group is None else f"group {escape(group)} of queue {escape(name)}"


def _resuming(name: str, group: str | None) -> str:
    option = "" if group is None else f" --group {escape(quote(group))}"
    return f"`oncue queues resume {escape(quote(name))}{option}`"


@commands.command("resume")
def resume_queue(
    name: Name,
    group: GroupOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let jobs of this queue, or of one group of it, start again."""
    found = find(app, database_url=database_url, schema=schema)
    ask(found, lambda: found.queues.resume(name, group=group, by=actor()))
    if as_json:
        output.show_json({**_named(name, group), "paused": False})
    else:
        output.show(f"{_called(name, group)} is open")


@commands.command("limit")
def limit_queue(
    name: Name,
    globally: Annotated[
        str | None, typer.Option("--global", metavar="N|none", help="So many at once on all nodes together.")
    ] = None,
    per_node: Annotated[str | None, typer.Option("--node", metavar="N|none", help="So many at once on each.")] = None,
    per_group: Annotated[
        str | None, typer.Option("--per-group", metavar="N|none", help="So many at once of each group, on all nodes.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="RATE|none", help="So many start, on all nodes, such as 100/s.")
    ] = None,
    rate_per_group: Annotated[
        str | None, typer.Option("--rate-per-group", metavar="RATE|none", help="So many of each group start.")
    ] = None,
    group: GroupOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Limit how many jobs of a queue run at once, and how many start: `oncue queues limit mail --global 50 --rate 9/s`.

    With --group, --per-group and --rate-per-group hold for this group alone. What is not given stays as it is; `none`
    lifts a limit. Without options the limits are shown.
    """
    for option, text in (("--global", globally), ("--node", per_node), ("--rate", rate)):
        if text is not None and group is not None:
            raise typer.BadParameter(
                "expected only without --group: it is a limit of the whole queue", param_hint=option
            )
    wanted: dict[str, Any] = {
        "globally": values.limit(globally, "--global"),
        "per_node": values.limit(per_node, "--node"),
        "per_group": values.limit(per_group, "--per-group"),
        "rate": values.rate(rate, "--rate"),
        "rate_per_group": values.rate(rate_per_group, "--rate-per-group"),
    }
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Limits, bool]:
        limits = await found.queues.limit(name, group=group, **wanted, by=actor())
        return limits, await _is_used(found, name)

    limits, used = ask(found, work)
    if as_json:
        output.show_json({**_named(name, group), **_limits_record(limits, group)})
    else:
        said = (_described(limits) or "no limit") if group is None else _described_group(limits, name)
        output.show(f"{_called(name, group)}: {said}")
    if any(value is not UNSET for value in wanted.values()):
        _warn_unused(name, used)


def _limits_record(limits: Limits, group: str | None) -> dict[str, int | str | None]:
    """As the listing of queues names them, or that of groups."""
    rate, of_group = (None if known is None else str(known) for known in (limits.rate, limits.rate_per_group))
    if group is not None:
        return {"limit": limits.per_group, "rate": of_group}
    return {
        "global_limit": limits.globally,
        "node_limit": limits.per_node,
        "group_limit": limits.per_group,
        "rate": rate,
        "group_rate": of_group,
    }


async def _is_used(app: Oncue, name: str) -> bool:
    """Whether the queue is in use: it had jobs, a node serves it, or a task or schedule names it."""
    queues = [queue for queue in await app.queues.list() if queue.name == name]
    if any(getattr(queue, count) for queue in queues for count in COLUMNS[1:]):
        return True
    if any(name in node.queues for node in await app.nodes.list()) or any(t.queue == name for t in app.tasks.values()):
        return True
    return any(schedule.queue == name for schedule in await app.schedules.list(limit=MOST_SCHEDULES))


def _warn_unused(name: str, used: bool) -> None:
    if not used:
        failures.say(f"queue {name!r} is not used so far: no job, node, task or schedule names it")


def register(cli: typer.Typer) -> None:
    cli.add_typer(commands, name="queues")
