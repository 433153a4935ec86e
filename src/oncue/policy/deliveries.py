"""What a delivery carries from its enqueue on, whatever becomes of its webhook: its ladder and its request's form."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from oncue.errors import InvalidWebhook
from oncue.model import STATES, WAITING, State
from oncue.policy.content_types import JSON_TYPE
from oncue.policy.options import Options
from oncue.policy.remembering import remembering
from oncue.policy.retry import Ladder, from_stored

ExecutionStatus: TypeAlias = Literal["emitted", "delivered", "failed"]
EXECUTION_STATUSES: tuple[ExecutionStatus, ...] = get_args(ExecutionStatus)
LONGEST_ATTEMPT = 75.0
"""Seconds after which an attempt is cut off. Its own time-out is at most 60; the rest is for what comes before the
request: to be held back for a slow endpoint (5) and to ask the database (8), and to write a breaker after it (2)."""


class Form(NamedTuple):
    """How the request of a delivery is made."""

    method: str = "POST"
    content_type: str = JSON_TYPE
    body: str | None = None
    """The template of its body."""


class Carried(NamedTuple):
    """What the jobs of deliveries have in common, as it is stored."""

    options: str
    max_retries: int
    max_runtime: float


def carried(form: Form, ladder: Ladder) -> Carried:
    options = Options(timeout=LONGEST_ATTEMPT, max_runtime=LONGEST_ATTEMPT, retry=ladder)
    told: dict[str, Any] = json.loads(options.stored())
    differs = {name: value for name, value in form._asdict().items() if value != getattr(DEFAULT_FORM, name)}
    if differs:
        told["webhook"] = differs
    return Carried(json.dumps(told, separators=(",", ":")), len(ladder.steps), LONGEST_ATTEMPT)


@remembering(4096)
def form_of(options: str) -> Form:
    """The form that a delivery was enqueued with."""
    return Form(**json.loads(options).get("webhook", {}))


@remembering(1024)
def ladder_of(stored: str) -> Ladder:
    """The ladder of a webhook, from its row."""
    found = from_stored(json.loads(stored))
    assert isinstance(found, Ladder)
    return found


DEFAULT_FORM = Form()


def execution_status(state: State) -> ExecutionStatus:
    """In the words of the contract: whatever ended without a 2xx has failed."""
    if state in WAITING or state == "running":
        return "emitted"
    return "delivered" if state == "succeeded" else "failed"


def states_of(status: object) -> tuple[State, ...]:
    """The states of the jobs whose executions have this status; None: of all. Raises InvalidWebhook."""
    if status is not None and status not in EXECUTION_STATUSES:
        raise InvalidWebhook("status", f"expected one of {', '.join(EXECUTION_STATUSES)}, not {status!r:.100}")
    return tuple(state for state in STATES if execution_status(state) == status)
