"""One job: why it is as it is, its attempts, what it was given, what came of it, and what an operator can do to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from oncue.errors import Conflict, JobNotFound
from oncue.model import DELIVER, MAX_PRIORITY, PARKED, Attempt, ClusterJob, Job, Schedule, State
from oncue.policy import lifecycle, quorum
from oncue.policy.error_summary import error_summary
from oncue.server.api.problems import NOT_FOUND, Problem, invalid
from oncue.server.api.references import job_ref
from oncue.server.dashboard import job_timeline
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.slot_strip import slot_link
from oncue.server.dashboard.subjects import subject_link
from oncue.verbs.jobs.reading import cluster_job_of

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

LARGEST_SHOWN = 16 * 1024
LARGEST_INDENTED = 64 * 1024
MOST_LINES_OF_AUDIT = 20
MOST_PARTS = 200


class Document(NamedTuple):
    """Arguments, a result or details, as text. A large one is cut."""

    text: str
    size: int
    is_cut: bool


class Relative(NamedTuple):
    """Something that the job follows from, or that followed from it."""

    relation: str
    text: str
    href: str | None
    note: str = ""


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/jobs/{id}", "job.html", title="Job", room="jobs")
    async def show(view: View) -> dict[str, Any]:
        try:
            return await _looked_at(view, await view.app.jobs.get(job_ref(view.parameters["id"])))
        except JobNotFound as error:
            said = str(error)
            raise Problem(NOT_FOUND, f"{said[:1].upper()}{said[1:]}. {ADVICE}") from None

    for path, do in (("retry", _retry), ("cancel", _cancel), ("status", _set_status), ("priority", _prioritize),
                     ("boost", _boost)):  # fmt: skip
        dashboard.action(f"/jobs/one/{path}", needs="operate")(do)


ADVICE = (
    "Jobs that have ended are deleted after a while (`oncue prune`, and the setting for how long they are kept): the "
    "ledger of its schedule still has what became of a slot's job. Look for it among the jobs, by its key or its task."
)


# --- reading --------------------------------------------------------------------------------------------------------


async def _looked_at(view: View, job: Job) -> dict[str, Any]:
    app, connected = view.app, await view.app.internals.connected()
    store, now = connected.store, connected.now()
    attempts, retries = await app.jobs.attempts(job.id), await store.jobs.retries_of(job.id)
    shown = attempts[-job_timeline.MOST_ATTEMPTS :]
    if (running := job_timeline.running_attempt(job)) is not None:
        shown = [*shown, running]
    names = await store.nodes.names(sorted({node for node in (job.node_id, *(a.node_id for a in shown)) if node}))
    schedule = None if job.schedule_id is None else await store.schedules.by_id(job.schedule_id)
    whole = await cluster_job_of(store, job, now)

    def named(node: UUID | None) -> str | None:
        """A node's name, whether it lives or not; its id if it is forgotten."""
        return None if node is None else names.get(node, str(node))

    is_cut = len(attempts) > job_timeline.MOST_ATTEMPTS
    return {
        "title": f"Job {job.id}", "job": job, "explanation": await app.jobs.explain(job.id), "node": named(job.node_id),
        "attempts": [(each, named(each.node_id), _summary(each), document(each.details)) for each in reversed(shown)],
        "earlier": len(attempts) - job_timeline.MOST_ATTEMPTS if is_cut else 0,
        "stretches": job_timeline.stretches(job, shown, now),
        "events": job_timeline.events(job, shown, named, is_cut=is_cut),
        "arguments": document(job.args), "result": document(job.result), "details": document(job.details),
        "from": _follows_from(view, job, schedule, whole), "followed": _followed(view, job, retries, whole),
        "parts": _parts(job, whole), "options": _options(job), "most_priority": MAX_PRIORITY,
        "statuses": _statuses(job, now), "may_be_retried": job.finished and not lifecycle.is_part(job),
        "audit": await app.audit_log.list(subject=f"job:{job.id}", limit=MOST_LINES_OF_AUDIT),
        "is_parked": job.visible_at == PARKED,
    }  # fmt: skip


def _summary(attempt: Attempt) -> str:
    return error_summary(attempt.error)


def document(value: Any) -> Document | None:
    """JSON for people. What is large is not indented, which takes long, and cut."""
    if value is None or value == {}:
        return None
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= LARGEST_INDENTED:
        text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return Document(text[:LARGEST_SHOWN], len(text), len(text) > LARGEST_SHOWN)


def _options(job: Job) -> str | None:
    """What its task says of how it is run, where that is not the default."""
    found = json.loads(job.options)
    return json.dumps(found, ensure_ascii=False) if found else None


def _statuses(job: Job, now: datetime) -> list[State]:
    """The statuses that it can be given by hand. A finished one is queued again by a retry."""
    return [] if job.finished else [status for status in lifecycle.HAND_MADE if _can_become(job, status, now)]


def _can_become(job: Job, status: State, now: datetime) -> bool:
    try:
        return lifecycle.by_hand(job, status, now) is not None
    except Conflict:
        return False


# --- what belongs to it ---------------------------------------------------------------------------------------------


def _follows_from(view: View, job: Job, schedule: Schedule | None, whole: ClusterJob | None) -> list[Relative]:
    found = []
    if job.subject is not None:
        day = "" if job.scheduled_for is None else job.scheduled_for.date().isoformat()
        name = "a window that is gone" if schedule is None else schedule.name
        href = None if schedule is None else subject_link(view, schedule.name, job.subject, day=day or None)
        found.append(Relative("Day of a window", f"{name}: {job.subject}, {day}", href))
    elif job.schedule_id is not None:
        name = "a schedule that is gone" if schedule is None else schedule.name
        href = None if schedule is None else _slot_link(view, schedule, job)
        slot = "" if job.scheduled_for is None else f"{job.scheduled_for:%Y-%m-%d %H:%M:%S} UTC"
        found.append(Relative("Slot of a schedule", f"{name}, {slot}" if slot else name, href))
    if whole is not None and whole.id != job.id:
        text = f"cluster job {whole.id} ({whole.job.task})"
        found.append(Relative("Part of", text, view.link("/cluster", whole.id)))
    if job.retry_of is not None:
        found.append(Relative("Repeats", f"job {job.retry_of}", view.link("/jobs", job.retry_of)))
    if job.task == DELIVER and job.group is not None:
        href = None if "://" in job.group else view.link("/webhooks", job.group)
        found.append(Relative("Delivery to", job.group, href))
        found.append(Relative("Delivery", f"execution {job.id}", view.link("/executions", job.id)))
    return found


def _followed(view: View, job: Job, retries: Sequence[Job], whole: ClusterJob | None) -> list[Relative]:
    found = [Relative("Repeated as", f"job {each.id}", view.link("/jobs", each.id), each.state) for each in retries]
    if whole is not None and whole.id == job.id:
        statuses = quorum.statuses_of(whole)
        counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
        found.append(
            Relative("Parts", f"{len(statuses)}{f': {counts}' if counts else ''}", view.link("/cluster", job.id))
        )
    return found


def _slot_link(view: View, schedule: Schedule, job: Job) -> str:
    if job.scheduled_for is None:
        return view.link("/schedules", schedule.name)
    return slot_link(view, schedule.name, job.scheduled_for)


def _parts(job: Job, whole: ClusterJob | None) -> list[tuple[str, str, int | None]]:
    """The parts of a cluster job: on which node, how it stands, and its job."""
    if whole is None or whole.id != job.id:
        return []
    found = zip(whole.parts[:MOST_PARTS], quorum.statuses_of(whole), strict=False)
    return [(part.node_name, status, part.job_id) for part, status in found]


# --- changing -------------------------------------------------------------------------------------------------------


async def _retry(deed: Deed) -> Done:
    job = await deed.app.jobs.retry(_id(deed), by=deed.by)
    if job.id != _id(deed):
        return Done("", go=f"/jobs/{job.id}")
    return Done(f"Job {job.id} is {job.state} again.")


async def _cancel(deed: Deed) -> Done:
    job = await deed.app.jobs.cancel(_id(deed), by=deed.by)
    return Done(f"Job {job.id} is cancelled." if job.finished else f"Job {job.id} runs and was asked to stop.")


async def _set_status(deed: Deed) -> Done:
    job = await deed.app.jobs.set_status(_id(deed), deed.text("status"), by=deed.by)
    return Done(f"Job {job.id} is {job.state}.")


async def _prioritize(deed: Deed) -> Done:
    priority = await deed.app.jobs.prioritize(_id(deed), deed.number("priority"), by=deed.by)
    return Done(f"Job {_id(deed)} has priority {priority}.")


async def _boost(deed: Deed) -> Done:
    priority = await deed.app.jobs.boost(_id(deed), deed.maybe_number("by") or 10, by=deed.by)
    return Done(f"Job {_id(deed)} has priority {priority}.")


def _id(deed: Deed) -> int:
    found = deed.number("id")
    if found < 1:
        raise invalid("id", "expected the id of a job")
    return found
