"""The program's next release: it knows one more task."""

from __future__ import annotations

from tests.process.program import app, mark

__all__ = ["app", "novelty"]


@app.task
async def novelty() -> None:
    mark("start")
    mark("end")
