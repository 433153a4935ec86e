"""The tasks of the application that is measured: those of its web process, and of the process that fills its tables."""

from __future__ import annotations

from datetime import date

from oncue import Oncue, daily


def declare(app: Oncue) -> None:
    @app.task
    async def noop() -> None: ...

    @app.task(schedule=daily())
    async def digest(user: str, day: date) -> None: ...
