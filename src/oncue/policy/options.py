"""What a job carries with it from enqueue to settle, resolved once and stored as text on its row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from oncue.model import Delivery, NewParts
from oncue.policy.remembering import remembering
from oncue.policy.retry import DEFAULT_POLICY, Policy, from_stored

FEWEST_CRASHES = 3
"""The least that `max_crashes` can be: two deaths alone, and one before that to be suspected at all."""


@dataclass(frozen=True, slots=True)
class CutoffHook:
    """The job that follows from the cutoff of a window's day, and the parameters that get its subject and its date."""

    task: str
    queue: str
    priority: int
    options: str
    max_retries: int
    max_runtime: float | None
    subject: str | None
    day: str | None


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """What the jobs of a window carry: how far apart their attempts are, and what its cutoff leads to."""

    retry: float
    subject: str
    """The parameter of the task that gets the subject."""
    day: str | None = None
    """The parameter that gets the date."""
    hook: CutoffHook | None = None
    cutoff_at: datetime | None = None
    """Of a job: until when a success counts. A schedule has none."""
    missed_at: datetime | None = None
    """Of a job: from when on its day was missed, if it has no outcome by then."""
    max_concurrency: int | None = None
    """Of a schedule: how many of its jobs the code wants to run at once, on all nodes. A job has none."""

    def stored(self) -> dict[str, Any]:
        told: dict[str, Any] = {"retry": self.retry, "subject": self.subject, "day": self.day}
        if self.hook is not None:
            told["hook"] = {name: getattr(self.hook, name) for name in CutoffHook.__slots__}
        if self.cutoff_at is not None:
            told["cutoff_at"] = self.cutoff_at.isoformat()
        if self.missed_at is not None:
            told["missed_at"] = self.missed_at.isoformat()
        if self.max_concurrency is not None:
            told["max_concurrency"] = self.max_concurrency
        return told


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a cluster job carries: what its parts are, and how the leader decides."""

    parts: NewParts
    has_action: bool = False
    """Whether the leader acts after the parts."""
    leader_only: bool = False
    """Whether the leader action is all there is."""
    quorum_timeout: float = 10.0
    on_no_quorum: Literal["proceed", "fail"] = "proceed"
    on_node_restart: Literal["count", "fail"] = "count"
    """What becomes of the job if a node is restarted in the middle of its part: that part has failed, or all has."""

    def stored(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ClusterOptions.__slots__ if name != "parts"}
        return {**own, "parts": self.parts._asdict()}


@dataclass(frozen=True, slots=True)
class Options:
    delivery: Delivery = "at_least_once"
    timeout: float | None = None
    max_runtime: float | None = 3600.0
    retry: Policy = DEFAULT_POLICY
    max_crashes: int | None = 5
    """With how many deaths of its process a job is poison; None for never."""
    window: WindowOptions | None = None
    """Of a window and its jobs."""
    of_cutoff: bool = False
    """Whether the cutoff of a user's day has led to the job: there are as many of these as users."""
    cluster: ClusterOptions | None = None
    """Of a cluster job; its parts have none."""
    of_cluster: bool = False
    """Whether the job is one node's part of a cluster job."""

    def stored(self) -> str:
        """Only what differs from the defaults above, which never change: most rows store nothing but braces."""
        values: dict[str, Any] = {
            "delivery": self.delivery,
            "timeout": self.timeout,
            "max_runtime": self.max_runtime,
            "max_crashes": self.max_crashes,
            "of_cutoff": self.of_cutoff,
            "of_cluster": self.of_cluster,
        }
        told = {name: value for name, value in values.items() if value != getattr(DEFAULTS, name)}
        if self.retry != DEFAULTS.retry:
            told["retry"] = self.retry.stored()
        if self.window is not None:
            told["window"] = self.window.stored()
        if self.cluster is not None:
            told["cluster"] = self.cluster.stored()
        return json.dumps(told, separators=(",", ":"))


DEFAULTS = Options()


@remembering(4096)
def read(text: str) -> Options:
    """The options of a job. Jobs of one task share one text, so that this is a look-up on the hot path.

    Another version of oncue may have written them: what this one does not understand takes its default, except that
    a job is never run twice because its delivery could not be read.
    """
    told = _told(text)
    if told is None:
        return Options(delivery="at_most_once")
    limits = _seconds(told, "timeout"), _seconds(told, "max_runtime")
    return Options(
        _delivery(told), *limits, _retry(told.get("retry")), _crashes(told), _window(told.get("window")),
        told.get("of_cutoff") is True, _cluster(told.get("cluster")),
        told.get("of_cluster") is True,
    )  # fmt: skip


def _told(text: str) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _delivery(told: dict[str, Any]) -> Delivery:
    return "at_least_once" if told.get("delivery", "at_least_once") == "at_least_once" else "at_most_once"


def _seconds(told: dict[str, Any], name: str) -> float | None:
    default: float | None = getattr(DEFAULTS, name)
    value = told.get(name, default)
    return value if value is None or (isinstance(value, int | float) and value >= 0) else default


def _crashes(told: dict[str, Any]) -> int | None:
    value = told.get("max_crashes", DEFAULTS.max_crashes)
    is_limit = isinstance(value, int) and not isinstance(value, bool) and value >= FEWEST_CRASHES
    return value if value is None or is_limit else DEFAULTS.max_crashes


def _retry(told: Any) -> Policy:
    try:
        return DEFAULTS.retry if told is None else from_stored(told)
    except (ValueError, KeyError, TypeError):
        return DEFAULTS.retry


def _window(told: Any) -> WindowOptions | None:
    if not isinstance(told, dict):
        return None
    hook, cutoff_at, missed_at = told.get("hook"), told.get("cutoff_at"), told.get("missed_at")
    return WindowOptions(
        retry=told["retry"],
        subject=told["subject"],
        day=told.get("day"),
        hook=None if hook is None else CutoffHook(**hook),
        cutoff_at=None if cutoff_at is None else datetime.fromisoformat(cutoff_at),
        missed_at=None if missed_at is None else datetime.fromisoformat(missed_at),
        max_concurrency=told.get("max_concurrency"),
    )


def _cluster(told: Any) -> ClusterOptions | None:
    if not isinstance(told, dict):
        return None
    parts = {name: value for name, value in told["parts"].items() if name in NewParts._fields}
    if parts.get("nodes") is not None:
        parts["nodes"] = tuple(parts["nodes"])
    own = {name: value for name, value in told.items() if name in ClusterOptions.__slots__ and name != "parts"}
    return ClusterOptions(parts=NewParts(**parts), **own)


@remembering(4096)
def max_runtime(text: str) -> float | None:
    return read(text).max_runtime


@remembering(4096)
def longest(text: str) -> float | None:
    """After how many seconds an attempt with these options is cut off, if ever."""
    found = read(text)
    return min((limit for limit in (found.timeout, found.max_runtime) if limit is not None), default=None)
