"""An application with a schedule, for the shell's tests. It is imported anew by every command."""

from __future__ import annotations

from datetime import datetime

from oncue import Oncue, cron

app = Oncue()


@app.task(schedule=cron("30 2 * * *", tz="Europe/Berlin"))
def nightly(slot: datetime) -> str:
    """Write the day up."""
    return slot.isoformat()


@app.task
def note(text: str, copies: int = 1) -> int:
    return len(text) * copies


@app.task(max_retries=0)
def forget(slot: datetime) -> None:
    raise ValueError("what was it?")
