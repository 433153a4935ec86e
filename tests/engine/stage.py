"""A real executor on a virtual clock, with handlers that are plain functions: what the engine's tests play on."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from oncue.clock import VirtualClock
from oncue.engine.executor import Executor
from oncue.engine.messages import Setup
from oncue.engine.outcomes import SizeLimits
from oncue.model import Claim, Failed, Outcome
from oncue.policy.lifecycle import Ended
from oncue.policy.options import Options
from oncue.task import Task
from oncue.telemetry import Telemetry


@dataclass
class PlainHandler:
    """A function as the executor sees a task."""

    name: str
    function: Callable[..., Any]
    rule: Callable[[int, Exception], float | None] | None = None
    process = False
    place = None
    error_classes = MappingProxyType[type[BaseException], str]({})

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def bind(self, args: str, slot: datetime | None = None) -> dict[str, Any]:
        bound: dict[str, Any] = json.loads(args)
        return bound

    def on_error(self, error: Exception, retry_count: int) -> Failed | None:
        if self.rule is None:
            return None
        delay = self.rule(retry_count, error)
        return Failed("", final=True) if delay is None else Failed("", delay=delay)


class Stage:
    """An executor and what came of the jobs that it was given."""

    def __init__(
        self,
        *functions: Callable[..., Any],
        concurrency: int = 4,
        limits: SizeLimits | None = None,
        processes: int = 2,
        setup: Setup | None = None,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self.clock = VirtualClock()
        self.telemetry = Telemetry()
        self.ended: dict[int, Ended] = {}
        self.order: list[int] = []
        self.handlers = {handler.name: handler for handler in map(_handler, functions)}
        self.executor = Executor(
            self.handlers, self.clock, self.telemetry, concurrency, limits or SizeLimits(), self._take,
            processes=processes, setup=setup, may_start=may_start,
        )  # fmt: skip
        self._numbers = iter(range(1, 10_000))

    def _take(self, ended: Ended) -> None:
        assert ended.claim.id not in self.ended, "an attempt was told twice"
        self.ended[ended.claim.id] = ended
        self.order.append(ended.claim.id)

    def claim(
        self,
        task: str,
        *,
        options: Options | None = None,
        deadline: float | None = None,
        **fields: Any,
    ) -> Claim:
        number, now = next(self._numbers), self.clock.now()
        values: dict[str, Any] = {
            "id": number, "task": task, "queue": "default", "priority": 0,
            "args": json.dumps(fields.pop("args", {})), "options": (options or Options()).stored(),
            "created_at": now, "visible_at": now,
            "deadline_at": None if deadline is None else now + timedelta(seconds=deadline),
            "claimed_at": now, "started_at": None, "claim_no": 1, "attempt": 0, "retry_count": 0, "max_retries": 3,
            "crashes": 0, "cancel_requested": False,
        }  # fmt: skip
        return Claim(**{**values, **fields})

    def submit(self, *claims: Claim) -> None:
        self.executor.submit(list(claims))

    async def play(self, task: str, **fields: Any) -> Ended:
        """Run one job to its end."""
        claim = self.claim(task, **fields)
        self.submit(claim)
        await self.quiet()
        return self.ended[claim.id]

    async def outcome(self, task: str, **fields: Any) -> Outcome:
        return (await self.play(task, **fields)).outcome

    async def quiet(self) -> None:
        async with asyncio.timeout(60):
            await self.executor.idle()

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock and let the executor look at it."""
        self.clock.advance(timedelta(seconds=seconds))
        await self.executor.tick(self.clock.now())
        await settle()

    @property
    def now(self) -> datetime:
        return self.clock.now()


def _handler(function: Callable[..., Any]) -> Any:
    return function if isinstance(function, Task) else PlainHandler(function.__name__, function)


async def settle(turns: int = 20) -> None:
    """Let the event loop come round a few times."""
    for _ in range(turns):
        await asyncio.sleep(0)
