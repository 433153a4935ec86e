"""All that this check knows about oncue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from dst.compare import Trigger
from dst.examine import Question
from dst.windows import Answers, Asked, Opened
from oncue.model import EVERY_DAY
from oncue.policy.triggers import cron, trigger
from oncue.policy.windows import DayTerms, day_of, days_from
from oncue.policy.zones import local_date


def build(asked: Question) -> Trigger:
    return trigger(cron(asked.expression, tz=asked.zone, dst=asked.policy), asked.anchor)


def _terms(asked: Asked) -> DayTerms:
    due = asked.due.hour * 60 + asked.due.minute
    return DayTerms(due, asked.zone, EVERY_DAY, (), asked.length.total_seconds())


def _window(asked: Asked, day: date) -> Opened | None:
    found = day_of(_terms(asked), day)
    return None if found is None else Opened(*found)


def _following(asked: Asked, first: date) -> Iterator[Opened]:
    return (Opened(*day) for day in days_from(_terms(asked), first))


WINDOWS = Answers(_window, _following, local_date)
