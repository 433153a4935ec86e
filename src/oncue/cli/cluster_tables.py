"""How a cluster job looks: its lines, a table of its parts, and both live on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from oncue.cli import output
from oncue.cli.output import escape
from oncue.model import ClusterJob, Job, Part
from oncue.policy import quorum
from oncue.policy.error_summary import error_summary

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

STYLES = {
    "new": "cyan", "queued": "blue", "running": "bright_blue", "retrying": "yellow", "completed": "green",
    "failed": "red", "cancelled": "magenta", "skipped": "dim", "lost": "bold red",
}  # fmt: skip
LONGEST_RESULT = 60
NO_LEADER = "a leader: no node leads, and the leader writes its parts"
NOT_YET = "the leader, which writes its parts"


class ClusterSnapshot(NamedTuple):
    """A cluster job as it was at an instant."""

    cluster: ClusterJob
    now: datetime
    is_led: bool
    """Whether a node led, if its parts were not written."""


Shown: TypeAlias = Callable[[ClusterSnapshot], None]


def styled(status: str) -> str:
    return f"[{STYLES[status]}]{status}[/]"


def listed(jobs: Sequence[ClusterJob], now: datetime) -> Table:
    columns = ("id", "task", "status", "nodes", "completed", "quorum", "key", "created", "took")
    table = output.table(*columns, "what came of it", right=("id", "nodes", "completed", "quorum", "took"))
    for cluster in jobs:
        job, nodes = cluster.job, len(cluster.parts)
        table.add_row(
            str(job.id), escape(job.task), styled(quorum.job_status(cluster)), str(nodes),
            str(quorum.statuses_of(cluster).count("completed")), str(quorum.needed(nodes)) if nodes else "",
            escape(job.key or ""), output.when(job.created_at, now), _took(job.created_at, job.finished_at),
            escape(error_summary(job.error) or job.reason or ""),
        )  # fmt: skip
    return table


def lines(look: ClusterSnapshot) -> list[tuple[str, Any]]:
    """A cluster job without its parts, name by name."""
    cluster, now = look.cluster, look.now
    job = cluster.job
    return [
        ("cluster job", f"{job.id}  ({job.uid})"),
        ("task", escape(job.task)),
        ("arguments", escape(json.dumps(job.args, ensure_ascii=False))),
        ("status", styled(quorum.job_status(cluster)) + (f"  ({escape(job.reason)})" if job.reason else "")),
        ("quorum", _quorum(cluster)),
        ("waits for", _waits_for(look)),
        ("key", None if job.key is None else escape(job.key)),
        ("created", output.full(job.created_at, now)),
        ("enqueued by", escape(job.enqueued_by)),
        ("parts written", _under(output.full(cluster.spread_at, now), cluster.epoch)),
        ("decided", _under(output.full(cluster.decided_at, now), cluster.decided_epoch)),
        ("finished", output.full(job.finished_at, now)),
        ("took", _took(job.created_at, job.finished_at)),
        ("retry of", job.retry_of),
        ("cancel asked", output.full(job.cancel_requested_at, now)),
    ]


def _quorum(cluster: ClusterJob) -> str | None:
    nodes = len(cluster.parts)
    if not nodes or quorum.terms_of(cluster).leader_only:
        return None
    reached = {None: "", True: ", reached", False: ", [yellow]not reached: the leader went on without it[/]"}
    done = quorum.done(cluster)
    return (
        f"{quorum.needed(nodes)} of {nodes} parts, {done} {'is' if done == 1 else 'are'} done{reached[cluster.quorum]}"
    )


def _waits_for(look: ClusterSnapshot) -> str | None:
    cluster = look.cluster
    if cluster.job.finished or cluster.decided_at is not None:
        return None
    if cluster.spread_at is None:
        return NOT_YET if look.is_led else f"[yellow]{NO_LEADER}[/]"
    return escape(quorum.lacking(cluster))


def _under(when: str | None, epoch: int | None) -> str | None:
    return when if when is None or epoch is None else f"{when}  under epoch {epoch}"


def parts(look: ClusterSnapshot) -> Table:
    """A line for each node."""
    cluster, now = look.cluster, look.now
    columns = ("node", "status", "job", "tries", "started", "took")
    table = output.table(*columns, "what came of it", right=("job", "tries", "took"))
    for part in sorted(cluster.parts, key=lambda part: (part.node_name, part.node_id)):
        table.add_row(
            escape(part.node_name), styled(quorum.status_of(part, cluster.job)), str(part.job_id or ""),
            str(part.attempt + (part.state == "running")) if part.job_id is not None else "",
            *_times(part, cluster.job, now), escape(_came_of(part)),
        )  # fmt: skip
    return table


def _times(part: Part, job: Job, now: datetime) -> tuple[str, str]:
    """When a part began, and how long it took so far. All there is of a leader-only job is the job itself. `started_at`
    is written with the outcome of an attempt: until then its claim says when it began."""
    own: Part | Job = job if part.job_id is None else part
    is_running = own.state == "running"
    began = own.claimed_at if is_running else own.started_at
    return output.when(began, now), _took(began, now if is_running else own.finished_at)


def _took(began: datetime | None, ended: datetime | None) -> str:
    return "" if began is None or ended is None else output.took(max((ended - began).total_seconds(), 0.0))


def _came_of(part: Part) -> str:
    told = error_summary(part.error) or part.reason or ""
    if part.state == "succeeded" and part.result is not None:
        told = _short(part.result)
    return f"late: {told}".rstrip(": ") if quorum.is_late(part) else told


def _short(result: Any) -> str:
    text = json.dumps(result, ensure_ascii=False)
    return text if len(text) <= LONGEST_RESULT else f"{text[: LONGEST_RESULT - 1]}…"


def pretty(result: Any) -> str | None:
    return None if result is None else json.dumps(result, indent=2, ensure_ascii=False)


# --- until it has ended ---------------------------------------------------------------------------------------------


@contextmanager
def screen(*, quiet: bool) -> Iterator[Shown]:
    """A live table on a terminal; a line for each change elsewhere; nothing if JSON is to follow."""
    if quiet:
        yield lambda look: None
    elif not sys.stdout.isatty():
        yield Changes().show
    else:
        from rich.live import Live

        with Live(console=output.console(), auto_refresh=False) as live:
            yield lambda look: live.update(_view(look), refresh=True)


def _view(look: ClusterSnapshot) -> Group:
    from rich.console import Group

    table = [parts(look)] if look.cluster.parts else []
    return Group(output.details(lines(look)), *table)


class Changes:
    """Tells what has changed since the last look, line by line."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def show(self, look: ClusterSnapshot) -> None:
        cluster, now, led = look
        for part in cluster.parts:
            self._tell(part.node_name, quorum.status_of(part, cluster.job), now)
        status = quorum.job_status(cluster)
        waits = f", waits for {NO_LEADER}" if status == "new" and not led else ""
        self._tell(f"cluster job {cluster.id} ({cluster.job.task})", f"{status}{waits}", now)

    def _tell(self, what: str, status: str, now: datetime) -> None:
        if self._known.get(what) != status:
            self._known[what] = status
            output.show_plain(f"{now:%H:%M:%S}  {what}: {status}")
            sys.stdout.flush()
