"""Waits for jobs by what telemetry tells, never by looking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from oncue import Job, Oncue
from oncue.model import TERMINAL


class Watcher:
    """Hears of every attempt that begins and of every job that ends on the workers of an application.

    What is past its time is ended by whoever comes first: the one that claims it, or the leader that looks for such.
    """

    def __init__(self, app: Oncue) -> None:
        self._app = app
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._news = asyncio.Event()
        app.internals.telemetry.subscribe(self._hear, "job.start", "job.stop", "expire")

    def _hear(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        if event == "job.start":
            self._begun.add(metadata["claim"].id)
        elif metadata["change"].state in TERMINAL:
            self._ended.add(metadata["change"].id)
        self._news.set()

    async def begun(self, *ids: int) -> None:
        await self._until(lambda: set(ids) <= self._begun)

    async def ended(self, ids: Iterable[int]) -> list[Job]:
        """The jobs, once all of them are finished."""
        wanted = list(ids)
        await self._until(lambda: set(wanted) <= self._ended)
        return [await self._app.jobs.get(job_id) for job_id in wanted]

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._news.clear()
                await self._news.wait()
