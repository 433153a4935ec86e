"""One line that says what an error was, for logs, listings and explanations."""

from __future__ import annotations

import re

# Of a group of exceptions every line is behind a bar.
_BAR = re.compile(r"^ *(?:\| |\+ |\+-)", re.M)


def error_summary(error: str | None) -> str:
    """The first line of what an exception says. Its last line may be a link, or a part of a statement.

    The text is a traceback or the words of an outcome. Of a traceback, the line is the first one after the last frame.
    """
    lines = _BAR.sub("", error or "").rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    said = lines[frames[-1] + 1 :] if frames else lines
    otherwise = lines[-1] if lines else ""
    return next((line for line in said if line and not line.startswith(" ")), otherwise).strip()
