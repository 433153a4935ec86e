"""All that this check knows about oncue."""

from __future__ import annotations

from dst.compare import Trigger
from dst.examine import Question
from oncue.policy.triggers import cron, trigger


def build(asked: Question) -> Trigger:
    return trigger(cron(asked.expression, tz=asked.zone, dst=asked.policy), asked.anchor)
