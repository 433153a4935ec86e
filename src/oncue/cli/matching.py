"""A change of all jobs that match a filter: `oncue retry --status failed --task send_invoice`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import typer

from oncue.app import Oncue
from oncue.cli import output, values
from oncue.cli.finding import ask
from oncue.cli.output import escape
from oncue.model import STATES, TERMINAL, UNFINISHED, JobFilter, State
from oncue.policy.filters import in_words
from oncue.policy.moments import Moment
from oncue.policy.statuses import listed
from oncue.records.jobs import handled_record
from oncue.verbs.jobs import Matched

QueueOption = Annotated[str | None, typer.Option("--queue", "-q", help="All that match: of this queue.")]
TaskOption = Annotated[str | None, typer.Option("--task", "-t", help="All that match: of this task.")]
KeyOption = Annotated[str | None, typer.Option("--key", help="All that match: with this key.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="All that match: of this group of its queue.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before all that match are changed.")]

Verb = Callable[[JobFilter], Awaitable[Matched]]


AddressOption = Annotated[str | None, typer.Option("--address", help="All that match: only for this address.")]


class Wanted(NamedTuple):
    """A filter, as it was typed."""

    jobs: JobFilter
    since: Moment | None
    until: Moment | None

    def at(self, now: datetime) -> JobFilter:
        since, until = self.since and self.since.at(now), self.until and self.until.at(now)
        return replace(self.jobs, since=since, until=until)

    def ended(self) -> Wanted:
        """For a retry: which ended jobs it shall be must be said."""
        return self._replace(jobs=_within(self.jobs, TERMINAL, "ended", must=True))

    def unfinished(self) -> Wanted:
        return self._replace(jobs=_within(self.jobs, UNFINISHED, "unfinished"))


def wanted(
    refs: Sequence[str],
    status: list[str] | None,
    *,
    since: str | None,
    until: str | None,
    **names: Any,
) -> Wanted | None:
    """The filter, if jobs are named by one and not by their ids."""
    filtered = bool(status or since or until or any(names.values()))
    if filtered == bool(refs):
        what = "not both" if filtered else "neither is there"
        raise typer.BadParameter(
            f"expected ids of jobs, or a filter such as --status, --task or --queue: {what}", param_hint="ID"
        )
    if not filtered:
        return None
    jobs = JobFilter(listed(values.states(status or [])), **names)
    return Wanted(jobs, values.maybe_moment(since, "--since"), values.maybe_moment(until, "--until"))


def _within(found: JobFilter, states: frozenset[State], word: str, *, must: bool = False) -> JobFilter:
    known = tuple(state for state in STATES if state in states)
    if not set(found.states) <= states or (must and not found.states):
        raise typer.BadParameter(f"expected statuses of {word} jobs: {', '.join(known)}", param_hint="--status")
    return replace(found, states=found.states or known)


def change(app: Oncue, asked: Wanted, verb: Verb, word: str, *, yes: bool, as_json: bool) -> None:
    """Ask with the count, then change them in batches. What was refused is told; the exit code is 1 then."""

    async def work() -> tuple[Matched, JobFilter]:
        found = asked.at(await app.now())
        if not yes:
            _confirm(str(await app.jobs.count(found)), found, word)
        done = Matched()
        with output.progress(known=False) as bar:
            line = bar.add_task(word, total=None)
            while True:
                done += await verb(replace(found, before=done.next))
                bar.update(line, completed=done.handled)
                if done.next is None:
                    return done, found

    done, found = ask(app, work)
    if as_json:
        told = {"matched": done.handled, "changed": done.changed, "refused": done.refused}
        output.show_json({**told, "refusals": [handled_record(each) for each in done.refusals]})
    else:
        _show(done, found)
    raise typer.Exit(1 if done.refused else 0)


def _confirm(count: str, found: JobFilter, word: str) -> None:
    asked = f"{count} {'job matches' if count == '1' else 'jobs match'} ({in_words(found)})."
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"{asked} There is no terminal to ask at: say --yes to change them without a question", param_hint="--yes"
        )
    typer.confirm(f"{asked} {word}?", abort=True)


def _show(done: Matched, found: JobFilter) -> None:
    if not done.handled:
        output.show(f"No job matches ({escape(in_words(found))}).")
        return
    output.show(f"{done.changed:,} of {output.plural(done.handled, 'job')} changed, {done.refused:,} refused.")
    for each in done.refusals:
        output.show(f"[red]{escape(each.message)}[/]")
    if done.refused > len(done.refusals):
        output.show(f"[dim]… and {done.refused - len(done.refusals):,} more[/]")
