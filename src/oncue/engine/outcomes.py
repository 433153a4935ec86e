"""From what a handler returned or raised to an `Outcome`, bounded in size."""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from oncue import errors
from oncue.engine.texts import bounded
from oncue.model import Cancelled, Claim, Failed, Outcome, Skipped, Snoozed, Succeeded
from oncue.policy.durations import seconds
from oncue.policy.error_classes import ErrorClasses, error_class
from oncue.policy.retry import retry_after

SUCCESS = Succeeded()


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """How much of a job the database keeps, in bytes."""

    args: int = 256 * 1024
    result: int = 64 * 1024
    error: int = 8 * 1024


class Decides(Protocol):
    error_classes: ErrorClasses

    def on_error(self, error: Exception, retry_count: int) -> Failed | None: ...


def kept(result: object, limits: SizeLimits) -> Succeeded:
    """The result as stored. The work is done, so one that cannot be kept does not fail the job."""
    try:
        text = to_json(result, inf_nan_mode="null")
        refuse_nan(result, text)
    except (PydanticSerializationError, ValueError, RecursionError):
        return Succeeded(reason="result_not_json")
    if len(text) > limits.result:
        return Succeeded(reason="result_too_large")
    return Succeeded(text.decode())


def refuse_nan(value: object, text: bytes) -> None:
    """Raise ValueError if a value that pydantic wrote as this JSON has a NaN or an infinity: it writes them as null."""
    if b"null" in text:
        try:
            json.dumps(to_jsonable_python(value, inf_nan_mode="constants", serialize_unknown=True), allow_nan=False)
        except ValueError:
            raise ValueError("JSON has no NaN and no infinity") from None


def failure(error: BaseException, handler: Decides, claim: Claim, cut: Outcome | None, limits: SizeLimits) -> Outcome:
    """What a handler's exception means. One raised while it was being cut off means what the cut meant."""
    if cut is not None:
        return cut
    found = _failure(error, handler, claim, limits)
    classed = error_class(error, handler.error_classes)
    return replace(found, error_class=classed) if classed is not None and isinstance(found, Failed) else found


def _failure(error: BaseException, handler: Decides, claim: Claim, limits: SizeLimits) -> Outcome:
    if isinstance(error, errors.HandlerDecision):
        try:
            return _decided(error, limits)
        except Exception as wrong:
            return Failed(_both(error, "what it asks for cannot be done", wrong, limits))
    text = described(error, limits)
    if isinstance(error, Exception):
        try:
            decided = handler.on_error(error, claim.retry_count)
        except Exception as policy_error:
            return Failed(_both(error, "its retry policy failed", policy_error, limits))
        if decided is not None:
            return Failed(text, decided.delay, decided.final)
    return Failed(text)


def _both(error: BaseException, link: str, second: Exception, limits: SizeLimits) -> str:
    return bounded(f"{described(error, limits)}\nand {link}: {described(second, limits)}", limits.error)


def _decided(decision: errors.HandlerDecision, limits: SizeLimits) -> Outcome:
    if isinstance(decision, errors.Retry):
        return _retried(decision, bounded(decision.reason or "retry requested", limits.error))
    if isinstance(decision, errors.Fail):
        return Failed(bounded(decision.reason, limits.error), final=True)
    if isinstance(decision, errors.Snooze):
        begun = not isinstance(decision, errors.Postpone)
        return Snoozed(seconds(decision.after, "after"), bounded(decision.reason, limits.error), begun)
    if isinstance(decision, errors.Skip):
        return Skipped(bounded(decision.reason, 200))
    if isinstance(decision, errors.Cancel):
        return Cancelled(bounded(decision.reason, 200))
    return Failed(described(decision, limits))


def _retried(decision: errors.Retry, error: str) -> Failed:
    after = None if decision.after is None else retry_after(decision.after)
    if isinstance(after, datetime):
        return Failed(error, until=after, at_least=decision.at_least)
    return Failed(error, after, at_least=decision.at_least)


def described(error: BaseException, limits: SizeLimits) -> str:
    """The traceback; if it is long, its end, which says what happened."""
    try:
        lines = traceback.format_exception(error)
    except Exception:
        lines = [f"{type(error).__name__} (its traceback could not be printed)"]
    return bounded("".join(lines).rstrip(), limits.error)
