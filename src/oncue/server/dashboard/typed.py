"""What people type into the fields of forms: durations, and JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from oncue.policy.durations import seconds
from oncue.server.api.intake import check_value
from oncue.server.api.problems import invalid


def duration(field: str, text: str | None) -> float | None:
    """Seconds of `10m` and such; None if nothing was typed."""
    if text is None:
        return None
    try:
        found = seconds(text, field)
    except ValueError as error:
        raise invalid(field, str(error).removeprefix(f"{field}: ")) from None
    if not found:
        raise invalid(field, "expected a duration of more than nothing, such as 10m")
    return found


def json_value(field: str, text: str | None, example: str) -> Any:
    """A JSON value that a database keeps; None if nothing was typed."""
    if text is None:
        return None

    def refuse(name: str) -> NoReturn:
        raise invalid(field, f"expected JSON, which has no {name}")

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # also a number with thousands of digits
        raise invalid(field, f"expected JSON such as {example}; {str(error)[:100]}") from None
    check_value(value, field)
    return value


def json_object(field: str, text: str | None, example: str) -> dict[str, Any]:
    """A JSON object; an empty one if nothing was typed."""
    value = json_value(field, text, example)
    if value is not None and not isinstance(value, dict):
        raise invalid(field, f"expected a JSON object such as {example}")
    return value or {}
