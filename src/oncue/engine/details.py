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
MOST_NAMES = LARGEST_DETAILS // 5
"""More of them do not fit, whatever is cut: `"":0,` is the shortest."""

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def merged(told: str | None, more: Mapping[str, Any]) -> str:
    """What was told before and what is told now, as JSON. Too much of it is cut, and says so.

    Raises ValueError for a value that JSON does not have. Size depends on the data, so it is no reason to fail.
    """
    details = json.loads(told) if told is not None else {}
    for name, value in more.items():
        details[name] = _checked(name, value)
    return _fitted(details)


def _checked(name: str, value: Any) -> Any:
    if type(value) is int or type(value) is bool:
        return value
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return value
        return value.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    try:
        text = to_json(value, inf_nan_mode="null")
        refuse_nan(value, text)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"details: expected {name!r} to be a value that JSON has: {error}") from None
    return json.loads(text)


def _fitted(details: dict[str, Any]) -> str:
    """The largest values are cut or left out until the rest fits.

    Each is measured once: there may be thousands of them, and the worker stands still meanwhile.
    """
    whole = _dumped(details)
    size = left = len(whole.encode())
    if size <= LARGEST_DETAILS:
        return whole
    sizes = {name: _size(value) for name, value in details.items()} if len(details) <= MOST_NAMES else {}
    while left > LARGEST_DETAILS:
        name = max(sizes, key=sizes.__getitem__, default="")
        own = sizes.get(name, 0)
        room, mark = LARGEST_DETAILS - (left - own), f"… ({own} bytes)"
        if own <= _size(mark):
            return _dumped({"left_out": f"{size} bytes, more than the {LARGEST_DETAILS} that are kept"})
        text = details[name]
        cut = _cut(text, room - _size(mark)) if isinstance(text, str) and room >= SHORTEST_CUT else ""
        details[name] = cut + mark
        sizes[name] = _size(details[name])
        left += sizes[name] - own
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
    return _COMPACT.encode(value)
