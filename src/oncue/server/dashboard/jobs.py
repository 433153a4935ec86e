"""Jobs: the listing with its filters, and a search that goes to a job. One job is in `job.py`, changes of many are in
`job_changes.py`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from oncue.model import DELIVER, PARKED, Job
from oncue.policy.error_summary import error_summary
from oncue.server.api.problems import invalid
from oncue.server.dashboard import job, job_changes
from oncue.server.dashboard.job_filters import AskedJobs, asked_jobs, tabs
from oncue.server.dashboard.pages import check_scope
from oncue.verbs.base import LARGEST_ID

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

PAGE = 50
MOST_NAMES = 500
LONGEST_ARGUMENTS = 100


class Row(NamedTuple):
    """A job of the listing."""

    job: Job
    arguments: str
    error: str
    note: str
    tries: int
    waited: float | None
    """Seconds from when it was due until its first attempt began."""
    when: str
    """What its instant means: due, waits, started, ended."""
    at: Any


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/jobs", "jobs.html", title="Jobs", room="jobs")
    async def jobs(view: View) -> dict[str, Any]:
        connected = await view.app.internals.connected()
        asked = asked_jobs(view.query.multi_items(), connected.now())
        before = view.number("before", most=LARGEST_ID)
        found = await view.app.jobs.search(replace(asked.jobs, before=before, limit=PAGE, short=True))
        queues, nodes = await view.app.queues.list(), await view.app.nodes.list()
        tasks = {*view.app.tasks, DELIVER, *(task for node in nodes for task in node.tasks)}
        return {
            "asked": asked, "rows": [_row(each) for each in found.jobs], "next": found.next, "before": before,
            "tabs": tabs(asked, queues), "link_to": lambda **fields: _link(view, asked, fields),
            "queue_names": [queue.name for queue in queues][:MOST_NAMES], "task_names": sorted(tasks)[:MOST_NAMES],
        }  # fmt: skip

    async def find(request: Request) -> Response:
        """What is typed into the search: the number or uid of a job, else the name of a task or queue, else a key."""
        visitor = await dashboard.entrance.visitor(request.scope)
        check_scope(visitor, "read")
        view = dashboard.view_of(request, visitor.identity.scopes)
        return RedirectResponse(await _found(view, request.query_params.get("q", "").strip()), 303)

    dashboard.specials["GET", "/jobs/find"] = find
    job_changes.add(dashboard)  # before `/jobs/{id}`, which would take `all` for an id
    job.add(dashboard)


async def _found(view: View, text: str) -> str:
    if not text:
        return view.link("/jobs")
    if text.isascii() and text.isdecimal() and len(text) < 20:
        return view.link("/jobs", text)
    try:
        return view.link("/jobs", str(UUID(text)))
    except ValueError:
        pass
    if len(text) > 1000:
        raise invalid("q", "expected the id or uid of a job, or the name of a task, a queue or a key")
    nodes = await view.app.nodes.list()
    if text in {*view.app.tasks, DELIVER} or any(text in node.tasks for node in nodes):
        return view.link("/jobs", task=text)
    if any(queue.name == text for queue in await view.app.queues.list()):
        return view.link("/jobs", queue=text)
    return view.link("/jobs", key=text)


def _link(view: View, asked: AskedJobs, fields: dict[str, Any]) -> str:
    """The listing with some fields of its filter changed, from its beginning; None takes one out."""
    kept = {**asked.fields, **fields}
    query = urlencode([(name, value) for name, value in kept.items() if value])
    return f"{view.base}/jobs" + (f"?{query}" if query else "")


def _row(job: Job) -> Row:
    size = (job.shortened or {}).get("args")
    arguments = f"({size:,} bytes)" if size is not None else _short(job.args)
    error = error_summary(job.error) if job.error and (job.finished or job.state == "retrying") else ""
    note = job.reason if not error and job.finished and job.reason not in (None, job.state) else ""
    tries = job.attempt + (job.state == "running")
    return Row(job, arguments, error, note or "", tries, _waited(job), *_moment(job))


def _short(args: dict[str, Any]) -> str:
    text = " ".join(f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in args.items())
    return text if len(text) <= LONGEST_ARGUMENTS else f"{text[: LONGEST_ARGUMENTS - 1]}…"


def _waited(job: Job) -> float | None:
    """Of first attempts alone: later ones waited for their retry on purpose."""
    if job.started_at is None or job.attempt != 1 or job.state not in ("running", "succeeded", "failed", "cancelled"):
        return None
    return max((job.started_at - max(job.created_at, job.visible_at)).total_seconds(), 0.0)


def _moment(job: Job) -> tuple[str, Any]:
    match job.state:
        case "scheduled" | "retrying" if job.visible_at == PARKED:
            return "waits for its turn", None
        case "scheduled" | "retrying":
            return "due", job.visible_at
        case "queued":
            return "waits since", max(job.created_at, job.visible_at)
        case "running":
            return "runs since", job.started_at or job.claimed_at
        case _:
            return "ended", job.finished_at or job.updated_at
