"""An application with a daily window, for the shell's tests."""

from __future__ import annotations

from datetime import date

from oncue import Oncue, daily

app = Oncue()


@app.task(schedule=daily(window="60m", retry="10m"))
async def digest(user: str, day: date, language: str = "en") -> None: ...
