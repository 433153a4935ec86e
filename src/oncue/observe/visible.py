"""Text that others wrote, on its way to a terminal or a log: what would act on the reader's screen is shown instead.

A key, an error or an argument may hold an escape sequence that clears a terminal, a carriage return that overwrites a
line, or a bidi override that turns one around. Such a character is written as Python writes it (`\\x1b`). Text goes
through this where it leaves: in `cli/output.py`, `cli/failures.py` and `observe/logs.py`.
"""

from __future__ import annotations

import json
import re
from typing import Any

# The controls (C0, DEL, C1), soft hyphen, the invisible format characters (bidi, zero width, tags), both separators of
# lines, and halves of surrogate pairs. Spelled out: to ask `unicodedata` for each of a million takes too long at start.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
INDENT = "    "


def visible(text: str) -> str:
    """A text as one line in which every control and every invisible format character is seen."""
    return text if text.isprintable() else _UNSAFE.sub(_shown, text)


def visible_lines(text: str, indent: str = "") -> str:
    """The same, with its lines (and its tabs) kept; those after the first are indented."""
    lines = text.expandtabs(4).replace("\r\n", "\n").split("\n")
    return f"\n{indent}".join(visible(line) for line in lines)


def visible_json(document: Any, indent: int | None = None) -> str:
    """A JSON text for pipes and screens: the same data, with all that is unsafe written as JSON's own escapes."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=str)
    return "\n".join(
        line if line.isprintable() else _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], line)
        for line in text.split("\n")
    )


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    if number < 0x100:
        return _SHORT.get(character, f"\\x{number:02x}")
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
