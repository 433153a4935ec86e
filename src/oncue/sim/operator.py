"""An operator of a simulated cluster: the real verbs, for tasks that follow a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from oncue.application.builtin import builtin_tasks
from oncue.application.webhooks import DeclaredWebhook
from oncue.policy.aging import Rules
from oncue.policy.options import Options
from oncue.policy.retry import Exponential
from oncue.settings import Settings
from oncue.sim.wire import Delay
from oncue.store.contract import Store
from oncue.task import Task
from oncue.telemetry import Telemetry
from oncue.verbs.jobs import Jobs
from oncue.verbs.queues import Queues
from oncue.verbs.schedules import Schedules
from oncue.verbs.subjects import SubjectTables
from oncue.verbs.webhooks import Webhooks
from oncue.verbs.windows import Windows

OPTIONS = Options(timeout=6.0, max_runtime=20.0, retry=Exponential("1s", cap="8s"))
TASK = "scripted"


class Operator:
    name = "sim"

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self.store = store
        self.now = now
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.webhooks: dict[str, DeclaredWebhook] = {}
        self.builtin: Mapping[str, Task[Any, Any]] = builtin_tasks(cast(Any, self))
        self.scheduled: list[str] = []
        self.settings = Settings()
        self.telemetry = Telemetry()
        self.aging = Rules()
        self.jobs, self.queues, self.schedules = Jobs(self), Queues(self), Schedules(self)
        self.hooks, self.windows = Webhooks(self), Windows(self)

    async def connected(self) -> Operator:
        return self

    async def check_owner(self) -> None:
        """A simulated cluster has one application."""

    async def subjects_on(self, on: object) -> SubjectTables:
        raise NotImplementedError("in a simulation no caller has a connection of its own")

    async def pause_before_retry(self, seconds: float) -> None:
        await Delay(seconds)

    async def ids(self, count: int) -> list[int]:
        return await self.store.jobs.reserve(count)

    def find(self, name: str) -> Task[Any, Any]:
        return self.builtin.get(name) or self.task()

    def task(self, options: Options = OPTIONS, max_retries: int = 3) -> Task[Any, Any]:
        """The scripted task, with these options."""

        def scripted(acts: list[dict[str, Any]]) -> None: ...

        return Task(
            self, scripted, name=TASK, delivery=options.delivery, timeout=options.timeout,  # type: ignore[arg-type]
            max_runtime=options.max_runtime, retry=options.retry, max_retries=max_retries,
        )  # fmt: skip

    def carried(self, task: Task[Any, Any]) -> dict[str, Any]:
        options = task.options(None)
        return {"options": options.stored(), "max_runtime": options.max_runtime, "max_args": 100_000}
