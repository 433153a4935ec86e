"""All jobs that match a filter: how many there are, a page of them, and one change for each of them.

No index has the keys, groups and addresses of jobs that have ended, nor when jobs were made. So a search by these reads
a bounded number of jobs for each page and says where it stopped; and a count of them says how many it looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from oncue.errors import InvalidJob
from oncue.model import STATES, TERMINAL, UNFINISHED, Job, JobFilter, State
from oncue.policy.checks import LATEST, checked_name, checked_priority
from oncue.policy.statuses import listed
from oncue.verbs.base import checked_before, checked_limit
from oncue.verbs.jobs.changing import RETRY
from oncue.verbs.jobs.many import Handled, Many, changed
from oncue.verbs.jobs.reading import checked_states

MOST_COUNTED = 10_000
"""Where a count ends: what there is beyond is `more than 10,000`."""
LOOKS_OF_A_PAGE = 1_000
LOOKS_AMONG_KINDS = 400
"""The same where a status, a queue or a task is named: so many of each kind are read, and the newest of them taken."""
LOOKS_OF_A_COUNT = 5_000
MOST_LOOKS = 10
"""After so many pages without enough jobs, a change of all that match says how far it came."""
BATCH = 200
SKEW = timedelta(minutes=10)
"""By how much the clocks of those that make jobs may differ: a number that is given later may be of an earlier job."""
MOST_REFUSALS_TOLD = 20


@dataclass(frozen=True, slots=True)
class Counted:
    """How many jobs match a filter."""

    number: int
    most: int = MOST_COUNTED
    looked_at: int | None = None
    """If not all jobs were looked at: how many were."""

    @property
    def is_exact(self) -> bool:
        return self.number <= self.most and self.looked_at is None

    def __str__(self) -> str:
        if self.number > self.most:
            return f"more than {self.most:,}"
        return f"{self.number:,}" if self.looked_at is None else f"at least {self.number:,}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page of jobs, newest first. `next` is the id to go on from; there may be more, or there may be none."""

    jobs: list[Job]
    next: int | None


@dataclass(frozen=True, slots=True)
class Matched:
    """What a change of all jobs that match came to. It is not over until `next` is None."""

    handled: int = 0
    changed: int = 0
    refused: int = 0
    refusals: tuple[Handled, ...] = field(default=())
    """The first of those that were refused, with the reasons."""
    next: int | None = None

    def __add__(self, more: Matched) -> Matched:
        return Matched(
            self.handled + more.handled,
            self.changed + more.changed,
            self.refused + more.refused,
            (*self.refusals, *more.refusals)[:MOST_REFUSALS_TOLD],
            more.next,
        )


class Matching(Many):
    async def count(self, wanted: JobFilter, *, most: int = MOST_COUNTED) -> Counted:
        """How many jobs match: exactly up to `most`. No count reads a table that grows to its end."""
        checked_limit(most, "most")
        wanted = await self._between(_checked(wanted))
        look = LOOKS_OF_A_COUNT if wanted.reads_rows else most + 1
        found = await (await self._connected()).store.jobs.count(wanted, look)
        is_cut = wanted.reads_rows and found.looked_at >= look
        return Counted(found.matching, most, found.looked_at if is_cut else None)

    async def search(self, wanted: JobFilter) -> SearchResult:
        """A page of a listing, with where to go on. Of a key or a group it may be empty and yet not be the last."""
        checked_limit(wanted.limit)
        checked_before(wanted.before, "a job")
        wanted = await self._between(_checked(wanted))
        jobs = (await self._connected()).store.jobs
        more = replace(wanted, limit=wanted.limit + 1)
        if not wanted.reads_rows:
            found = await jobs.find(more)
            return SearchResult(
                found[: wanted.limit], found[wanted.limit - 1].id if len(found) > wanted.limit else None
            )
        look = LOOKS_AMONG_KINDS if wanted.states or wanted.queue or wanted.task else LOOKS_OF_A_PAGE
        ids = await jobs.newest(replace(wanted, limit=look))
        found = await jobs.among(ids, more)
        if len(found) > wanted.limit:
            return SearchResult(found[: wanted.limit], found[wanted.limit - 1].id)
        is_last = len(ids) < look or await self._is_before(ids[-1], wanted.since)
        return SearchResult(found, None if is_last else ids[-1])

    async def retry_matching(self, wanted: JobFilter, *, most: int = 1_000, by: str = "system") -> Matched:
        """`retry` of the ended jobs that match, newest first: of `most` of them. `before` goes on.

        The filter names the statuses: that what succeeded runs again must be said.
        """
        by = checked_name(by, "by")
        if not wanted.states:
            raise InvalidJob("status", f"expected which ended jobs: {_words(TERMINAL)}")

        async def one(ref: int | UUID) -> Handled:
            return changed(ref, await self._again(ref, by, RETRY))

        return await self._all(_among(wanted, TERMINAL, "ended"), one, most)

    async def cancel_matching(self, wanted: JobFilter, *, most: int = 1_000, by: str = "system") -> Matched:
        """`cancel` of the unfinished jobs that match, newest first: of `most` of them. `before` goes on."""
        return await self._all(_among(wanted, UNFINISHED, "unfinished"), self._cancelling(checked_name(by, "by")), most)

    async def prioritize_matching(
        self, wanted: JobFilter, priority: int, *, most: int = 1_000, by: str = "system"
    ) -> Matched:
        """`prioritize` of the unfinished jobs that match, newest first: of `most` of them. `before` goes on."""
        verb = self._prioritizing(checked_priority(priority), checked_name(by, "by"))
        return await self._all(_among(wanted, UNFINISHED, "unfinished"), verb, most)

    async def _between(self, wanted: JobFilter) -> JobFilter:
        """The filter, that begins at its `until`: ids grow with time, but for what clocks differ."""
        if wanted.until is None:
            return wanted
        jobs, until = (await self._connected()).store.jobs, min(wanted.until, LATEST) + SKEW
        newest = await jobs.newest(JobFilter(before=wanted.before, limit=1))
        low, high = 0, newest[0] if newest else 0
        while low < high:  # the last id that was made before then
            middle = (low + high + 1) // 2
            known = await jobs.newest(JobFilter(before=middle + 1, limit=1))
            made = await jobs.among(known, JobFilter(limit=1, short=True))
            if made and made[0].created_at >= until:
                high = min(middle - 1, made[0].id - 1)
            else:
                low = middle
        return replace(wanted, before=low + 1)

    async def _is_before(self, job_id: int, since: datetime | None) -> bool:
        """Whether what is older than this job was made before an instant."""
        if since is None:
            return False
        known = await (await self._connected()).store.jobs.among([job_id], JobFilter(limit=1, short=True))
        return bool(known) and known[0].created_at + SKEW < since

    async def _all(self, wanted: JobFilter, verb: Callable[[int | UUID], Awaitable[Handled]], most: int) -> Matched:
        """Downwards from the newest: so each job comes once, whatever becomes of it, and a new one not at all."""
        checked_limit(most, "most")
        done = Matched(next=wanted.before)
        for _ in range(MOST_LOOKS + most // BATCH):
            size = min(BATCH, most - done.handled)
            found = await self.search(replace(wanted, before=done.next, limit=size, offset=0, short=True))
            done += _told(await self._each([job.id for job in found.jobs], verb), found.next)
            if done.next is None or done.handled >= most:
                break
        return done


def _told(answers: list[Handled], then: int | None) -> Matched:
    refused = [answer for answer in answers if answer.outcome == "conflict"]
    changed = sum(answer.outcome == "changed" for answer in answers)
    return Matched(len(answers), changed, len(refused), tuple(refused[:MOST_REFUSALS_TOLD]), then)


def _checked(wanted: JobFilter) -> JobFilter:
    return replace(wanted, states=listed(checked_states(wanted.states)))


def _among(wanted: JobFilter, states: frozenset[State], word: str) -> JobFilter:
    """The filter for these states alone. One that names others is refused: they would be passed over in silence."""
    asked = listed(checked_states(wanted.states))
    if not set(asked) <= states:
        raise InvalidJob("status", f"expected statuses of {word} jobs: {_words(states)}")
    return replace(wanted, states=asked or tuple(state for state in STATES if state in states))


def _words(states: frozenset[State]) -> str:
    return ", ".join(state for state in STATES if state in states)
