"""What a handler tells of its attempt: a small JSON object, bounded in size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from oncue.engine.outcomes import refuse_nan

LARGEST_DETAILS = 4096
"""So many bytes of JSON are kept of one attempt."""
SHORTEST_CUT = 64
"""A text of fewer bytes is left out rather than cut."""


def merged(told: str | None, more: Mapping[str, Any]) -> str:
    """What was told before and what is told now, as JSON. Too much of it is cut, and says so.

    Raises ValueError for a value that JSON does not have. Size depends on the data, so it is no reason to fail.
    """
    details = json.loads(told) if told is not None else {}
    for name, value in more.items():
        details[name] = _checked(name, value)
    return _fitted(details)


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    try:
        text = to_json(value, inf_nan_mode="null")
        refuse_nan(value, text)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"details: expected {name!r} to be a value that JSON has: {error}") from None
    return json.loads(text)


def _fitted(details: dict[str, Any]) -> str:
    """The largest values are cut or left out until the rest fits."""
    while (size := _size(details)) > LARGEST_DETAILS:
        name = max(details, key=lambda name: _size(details[name]))
        own = _size(details[name])
        room, mark = LARGEST_DETAILS - (size - own), f"… ({own} bytes)"
        if own <= _size(mark):
            return _dumped({"left_out": f"{size} bytes, more than the {LARGEST_DETAILS} that are kept"})
        text = details[name]
        cut = _cut(text, room - _size(mark)) if isinstance(text, str) and room >= SHORTEST_CUT else ""
        details[name] = cut + mark
    return _dumped(details)


def _cut(text: str, room: int) -> str:
    """The beginning of a text that takes so many bytes as JSON. Some characters take more than one."""
    kept = text[: max(room, 0)]
    while kept and _size(kept) > room:
        kept = kept[: len(kept) - max((_size(kept) - room) // 6, 1)]
    return kept


def _size(value: Any) -> int:
    return len(_dumped(value).encode())


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
