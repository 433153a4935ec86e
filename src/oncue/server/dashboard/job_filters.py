"""Which jobs a page or an action is about: a filter, as it stands in an address or in the hidden fields of a form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from oncue.model import STATES, TERMINAL, UNFINISHED, JobFilter, Queue, State
from oncue.policy.filters import as_options, in_words
from oncue.policy.statuses import listed, state_named
from oncue.server.api.moments import moment
from oncue.server.api.problems import invalid

NAMES = ("queue", "task", "key", "group", "address")
MOMENTS = ("since", "until")
FIELDS = ("status", *NAMES, *MOMENTS)
LONGEST = 1000


@dataclass(frozen=True, slots=True)
class AskedJobs:
    """A filter, and how it was written."""

    jobs: JobFilter
    fields: dict[str, str]
    """As they were typed: `since=-2h` goes with the time."""

    @property
    def words(self) -> str:
        return in_words(self.jobs)

    @property
    def options(self) -> dict[str, str | None]:
        """As options of a command line."""
        return {**as_options(self.jobs), **{name: self.fields.get(name) for name in MOMENTS}}

    def within(self, states: frozenset[State]) -> AskedJobs | None:
        """The filter for these states alone; None if it leaves all of them out."""
        asked = listed(self.jobs.states)
        if asked and set(asked) <= states:
            return self
        kept = tuple(state for state in asked or STATES if state in states)
        if not kept:
            return None
        return AskedJobs(replace(self.jobs, states=kept), {**self.fields, "status": ",".join(kept)})

    def ended(self) -> AskedJobs | None:
        """For a retry: which ended jobs it shall be must be said."""
        return self.within(TERMINAL) if self.jobs.states else None

    def unfinished(self) -> AskedJobs | None:
        return self.within(UNFINISHED)


def asked_jobs(pairs: Iterable[tuple[str, str]], now: datetime) -> AskedJobs:
    """The filter of a query or a form. A complaint names the field."""
    texts: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in FIELDS and value.strip():
            if len(value) > LONGEST:
                raise invalid(name, f"expected at most {LONGEST:,} characters")
            texts.setdefault(name, []).append(value.strip())
    states = _states(texts.pop("status", []))
    fields = {"status": ",".join(states)} if states else {}
    fields |= {name: values[-1] for name, values in texts.items()}
    named: dict[str, Any] = {name: fields.get(name) for name in NAMES}
    made: dict[str, Any] = {name: moment(fields[name], name, now) for name in MOMENTS if name in fields}
    return AskedJobs(JobFilter(states, **named, **made), fields)


def _states(texts: Sequence[str]) -> tuple[State, ...]:
    try:
        words = [word for text in texts for word in text.split(",") if word.strip()]
        return tuple(dict.fromkeys(state_named(word) for word in words))
    except ValueError as error:
        raise invalid("status", str(error)) from None


# --- tabs -----------------------------------------------------------------------------------------------------------


class Tab(NamedTuple):
    """A common choice of statuses."""

    word: str
    states: tuple[State, ...]
    jobs: int | None = None
    """How many there are, if that is known."""
    is_current: bool = False


TABS = (
    Tab("All", ()),
    Tab("Waiting", ("queued",)),
    Tab("Later", ("scheduled", "retrying")),
    Tab("Running", ("running",)),
    Tab("Failed", ("failed",)),
    Tab("Succeeded", ("succeeded",)),
    Tab("Cancelled", ("cancelled",)),
    Tab("Skipped", ("skipped",)),
)


def tabs(asked: AskedJobs, queues: Sequence[Queue]) -> list[Tab]:
    """With counts of what is unfinished, where the queues know them. What has ended is not counted: it is pruned."""
    wanted, counts = asked.jobs, {}
    if not (wanted.task or wanted.reads_rows):
        some = [queue for queue in queues if wanted.queue in (None, queue.name)]
        later = sum(queue.later for queue in some)
        counts = {
            "Waiting": sum(queue.queued for queue in some) + later, "Later": later,
            "Running": sum(queue.running for queue in some),
        }  # fmt: skip
    return [
        tab._replace(jobs=counts.get(tab.word), is_current=set(tab.states) == set(asked.jobs.states)) for tab in TABS
    ]
