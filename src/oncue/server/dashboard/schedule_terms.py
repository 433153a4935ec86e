"""What a schedule is, as the pages say it: its rule in words, what it runs, and who says what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oncue.errors import InvalidSchedule
from oncue.model import CLUSTER_ADDRESS, DELIVER, Schedule
from oncue.policy.cron_words import in_words
from oncue.policy.schedules import UNDECLARED

if TYPE_CHECKING:
    from oncue.server.dashboard.view import View


class ScheduleTarget(NamedTuple):
    """What a schedule runs."""

    kind: str
    name: str
    link: str


def target_of(view: View, one: Schedule) -> ScheduleTarget:
    if delivers(one):
        return ScheduleTarget("webhook", str(one.group), view.link("/webhooks", one.group))
    kind = "cluster task" if one.address == CLUSTER_ADDRESS else "task"
    return ScheduleTarget(kind, one.task, view.link("/jobs", task=one.task))


def delivers(one: Schedule) -> bool:
    return one.task == DELIVER and one.group is not None


def words_of(expression: str) -> str:
    """A rule in words. One that this host cannot read, of another version, has none."""
    try:
        return in_words(expression)
    except InvalidSchedule:
        return ""


def is_in_code(one: Schedule) -> bool:
    """Whether code declares it now: then it can be enabled and disabled here, and nothing else."""
    return one.declared_by is not None and one.reason != UNDECLARED and one.deleted_at is None
