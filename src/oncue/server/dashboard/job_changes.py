"""Changes of many jobs: of those that are ticked, and of all that match a filter.

All that match are changed in parts: each request changes at most some hundreds, tells how far it came and hands the
page a form that goes on from there by itself. After 10,000 it stops and asks. So no request takes long, a tab that is
closed stops the change, and what was done is told at any time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from oncue.model import MAX_PRIORITY, JobFilter
from oncue.policy.checks import checked_priority
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.job_filters import AskedJobs, asked_jobs
from oncue.server.dashboard.rendering import shell
from oncue.verbs.base import LARGEST_ID
from oncue.verbs.jobs import MOST_AT_ONCE, Handled, Jobs, Matched

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

PART = 400
"""How many jobs one request changes at most."""
MOST_IN_A_GO = 10_000
MOST_REFUSALS = 20
LONGEST_REFUSAL = 300

Some: TypeAlias = Callable[[Jobs, Sequence[int], Deed], Awaitable[list[Handled]]]
All: TypeAlias = Callable[[Jobs, JobFilter, Deed], Awaitable[Matched]]


class BulkVerb(NamedTuple):
    """What can be done to many jobs at once."""

    name: str
    word: str
    done: str
    """What a job is afterwards."""
    only: Callable[[AskedJobs], AskedJobs | None]
    """The filter for the jobs that it can be done to."""
    some: Some
    all: All


VERBS = {
    verb.name: verb
    for verb in (
        BulkVerb(
            "retry", "Retry", "retried", AskedJobs.ended,
            lambda jobs, ids, deed: jobs.retry_many(ids, by=deed.by),
            lambda jobs, wanted, deed: jobs.retry_matching(wanted, most=PART, by=deed.by),
        ),
        BulkVerb(
            "cancel", "Cancel", "cancelled or asked to stop", AskedJobs.unfinished,
            lambda jobs, ids, deed: jobs.cancel_many(ids, by=deed.by),
            lambda jobs, wanted, deed: jobs.cancel_matching(wanted, most=PART, by=deed.by),
        ),
        BulkVerb(
            "priority", "Set the priority of", "given the priority", AskedJobs.unfinished,
            lambda jobs, ids, deed: jobs.prioritize_many(ids, _priority(deed), by=deed.by),
            lambda jobs, wanted, deed: jobs.prioritize_matching(wanted, _priority(deed), most=PART, by=deed.by),
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BulkTally:
    """How far a change of all that match has come, over its requests."""

    done: Matched
    refusals: list[str]

    @property
    def stops(self) -> bool:
        """Whether it goes on only if it is told to."""
        return self.done.next is not None and self.done.handled % MOST_IN_A_GO < PART <= self.done.handled


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/jobs/all", "jobs_all.html", title="Change all that match", room="jobs", every=3.0)
    async def all_that_match(view: View) -> dict[str, Any]:
        now = (await view.app.internals.connected()).now()
        asked = asked_jobs(view.query.multi_items(), now)
        return {"asked": asked, "choices": [await _choice(view, asked, verb) for verb in VERBS.values()],
                "most_in_a_go": MOST_IN_A_GO, "most_priority": MAX_PRIORITY}  # fmt: skip

    for verb in VERBS.values():
        _add(dashboard, verb)


def _add(dashboard: Dashboard, verb: BulkVerb) -> None:
    @dashboard.action(f"/jobs/ticked/{verb.name}", needs="operate")
    async def change_ticked(deed: Deed) -> Done:
        ids = [_id(text) for text in deed.many("id")]
        if not ids or len(ids) > MOST_AT_ONCE:
            raise invalid("id", f"expected 1 to {MOST_AT_ONCE:,} ticked jobs, not {len(ids):,}")
        answers = await verb.some(deed.app.jobs, ids, deed)
        refused = [each for each in answers if each.outcome in ("conflict", "not_found")]
        changed = sum(each.outcome == "changed" for each in answers)
        html = dashboard.renderer.part("jobs_refused.html", {"refused": refused, "verb": verb}) if refused else ""
        return Done(f"{_jobs(changed)} of {len(answers):,} {verb.done}.", html=html)

    @dashboard.action(f"/jobs/all/{verb.name}", needs="operate")
    async def change_all(deed: Deed) -> Done:
        now = (await deed.app.internals.connected()).now()
        asked = asked_jobs(deed.fields, now)
        before = deed.maybe_number("before")
        if before is not None and not 0 < before <= LARGEST_ID:
            raise invalid("before", "expected the id of a job to go on from")
        done = await verb.all(deed.app.jobs, replace(asked.jobs, before=before), deed)
        tally = _tally(deed, done)
        priority = _priority(deed) if verb.name == "priority" else None
        told = {"tally": tally, "verb": verb, "asked": asked, "priority": priority, "base": deed.base}
        return Done("", html=dashboard.renderer.part("jobs_progress.html", told), is_change=False)


async def _choice(view: View, asked: AskedJobs, verb: BulkVerb) -> dict[str, Any]:
    """One change that is offered, with how many jobs it is about."""
    only = verb.only(asked)
    if only is None:
        return {"verb": verb, "only": None}
    counted = await view.app.jobs.count(only.jobs)
    what = "job" if counted.is_exact and counted.number == 1 else "jobs"
    is_unknown = not counted.number and not counted.is_exact
    sentence = f"{verb.word} {'all matching' if is_unknown else counted} {what}"
    command = shell(f"oncue {verb.name}", **only.options) + (" PRIORITY" if verb.name == "priority" else "")
    return {"verb": verb, "only": only, "counted": counted, "what": what, "sentence": sentence, "command": command}


def _tally(deed: Deed, done: Matched) -> BulkTally:
    """What this request came to, and those before it, as the page tells."""
    handled, changed, refused = (max(deed.maybe_number(name) or 0, 0) for name in ("handled", "changed", "refused"))
    refusals = [text[:LONGEST_REFUSAL] for text in deed.many("refusal")]
    refusals += [each.message[:LONGEST_REFUSAL] for each in done.refusals]
    return BulkTally(Matched(handled, changed, refused) + done, refusals[:MOST_REFUSALS])


def _priority(deed: Deed) -> int:
    return checked_priority(deed.number("priority"))


def _id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise invalid("id", f"expected the ids of jobs, not {text!r:.60}")
    return int(text)


def _jobs(count: int) -> str:
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"
