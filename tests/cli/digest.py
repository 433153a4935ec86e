"""An application with a daily window, whose days are planned."""

from __future__ import annotations

from datetime import date

from oncue import Oncue, daily

app = Oncue(name="digest")


@app.task(schedule=daily(window="60m", retry="10m"), max_concurrency=2, timeout="30s")
async def digest(user: str, day: date) -> None:
    raise AssertionError("a handler was called")


@app.task(schedule=daily(), max_concurrency=1)
def plain(user: str) -> None:
    raise AssertionError("a handler was called")


@app.task
async def other() -> None: ...
