"""What a filter of jobs says, for questions before a change and for the command line that does the same."""

from __future__ import annotations

from oncue.model import JobFilter


def in_words(wanted: JobFilter) -> str:
    """`status failed or cancelled, task send_invoice`."""
    parts = [f"status {' or '.join(wanted.states)}" if wanted.states else None]
    for name in ("queue", "task", "key", "group"):
        value = getattr(wanted, name)
        parts.append(None if value is None else f"{name} {value}")
    return ", ".join(part for part in parts if part) or "all jobs"


def as_options(wanted: JobFilter) -> dict[str, str | None]:
    """The same as options of `oncue jobs`, `oncue retry` and `oncue cancel`, by name."""
    status = ",".join(wanted.states) or None
    return {"status": status, "queue": wanted.queue, "task": wanted.task, "key": wanted.key, "group": wanted.group}
