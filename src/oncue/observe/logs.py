"""Log lines as text or as JSON, with timestamps in UTC.

A line that is about a job carries its fields. Inside a handler they come from the job that runs there. The engine's
own lines name them in their templates (`job %d started task=%s …`), so the values are taken from the arguments of the
log call, typed and whatever their text contains, and not from the finished sentence.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, TextIO

from oncue.engine.context import JobContext, current_job
from oncue.model import STATES
from oncue.observe.visible import INDENT, visible_json, visible_lines

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

LONGEST_NUMBER = 18

_chosen: tuple[str, Literal["text", "json"]] | None = None

_PLACEHOLDER = re.compile(r"(?:\b(\w+)=|\b(job|node) )?%[-+ #0]*\d*(?:\.\d+)?[sdrfg]")
_FRAGMENT = re.compile(r" (\w+)=(.*)", re.DOTALL)


def configure(level: str, style: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process to `stream`, by default the standard error."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    # uvicorn tells of every start and stop, which the worker tells itself; and it warns of every request that is no
    # HTTP, so that a stranger without a token could fill the disk.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    global _chosen
    _chosen = (level, style)


def chosen() -> tuple[str, Literal["text", "json"]] | None:
    """What this process was last configured to, if it was: its children are, too."""
    return _chosen


def timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{timestamp(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        context = _context()
        if context is not None and not _ours(record):
            line += f" [job {context.id} task={context.task}]"
        trace = _trace(self, record)
        # A line at the left edge is a line of ours: what follows from a text is set off from it.
        return visible_lines(f"{line}\n{trace}" if trace else line, INDENT)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if trace := _trace(self, record):
            line["exception"] = trace
        return visible_json(line)


def _context() -> JobContext | None:
    try:
        return current_job()
    except LookupError:
        return None


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == "oncue"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    if _ours(record):
        return _named_arguments(record)
    context = _context()
    if context is None:
        return {}
    return {"job": context.id, "task": context.task, "queue": context.queue, "attempt": context.attempt}


def _named_arguments(record: logging.LogRecord) -> dict[str, Any]:
    arguments = record.args
    if not isinstance(arguments, tuple) or not arguments:
        return {}
    fields: dict[str, Any] = {}
    for name, value in zip(_names(str(record.msg)), arguments, strict=False):
        if name is not None:
            fields[name] = value
        elif value in STATES:
            fields.setdefault("state", value)
        elif isinstance(value, str) and (fragment := _FRAGMENT.fullmatch(value)):
            fields[fragment[1]] = _value(fragment[2])
    return fields


def _value(text: str) -> int | str:
    """A number if it is one. An error may end in thousands of digits, of which Python makes none."""
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else text


@lru_cache(maxsize=1024)
def _names(template: str) -> tuple[str | None, ...]:
    """What each placeholder of a message stands for, if the message says so."""
    return tuple(match[1] or match[2] for match in _PLACEHOLDER.finditer(template.replace("%%", "")))
