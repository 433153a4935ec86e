"""What a filter of jobs says, for questions before a change and for the command line that does the same."""

from __future__ import annotations

from datetime import UTC, datetime

from oncue.model import JobFilter


def in_words(wanted: JobFilter) -> str:
    """`status failed or cancelled, task send_invoice`."""
    parts = [f"status {' or '.join(wanted.states)}" if wanted.states else None]
    for name in ("queue", "task", "key", "group", "address"):
        value = getattr(wanted, name)
        parts.append(None if value is None else f"{name} {value}")
    parts.append(None if wanted.since is None else f"made since {_instant(wanted.since)}")
    parts.append(None if wanted.until is None else f"made until {_instant(wanted.until)}")
    return ", ".join(part for part in parts if part) or "all jobs"


def as_options(wanted: JobFilter) -> dict[str, str | None]:
    """The same as options of `oncue jobs`, `oncue retry` and `oncue cancel`, by name."""
    status = ",".join(wanted.states) or None
    return {
        "status": status, "queue": wanted.queue, "task": wanted.task, "key": wanted.key, "group": wanted.group,
        "address": wanted.address, "since": _typed(wanted.since), "until": _typed(wanted.until),
    }  # fmt: skip


def _instant(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _typed(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
