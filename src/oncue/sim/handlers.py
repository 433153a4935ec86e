"""The executor of production on a virtual loop: real handlers run in simulated processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from oncue.application.builtin import builtin_tasks
from oncue.application.connecting import Connection
from oncue.clock import Clock
from oncue.engine.attempt import Handler, HandlerAttempt
from oncue.engine.executor import Executor
from oncue.engine.outcomes import SizeLimits
from oncue.engine.pending_starts import PendingStarts
from oncue.model import Outcome
from oncue.policy.lifecycle import Ended
from oncue.sim.executor import note_stop, noting
from oncue.sim.history import History
from oncue.sim.loop import VirtualLoop
from oncue.sim.network import Network
from oncue.store.contract import Store
from oncue.task import Task
from oncue.telemetry import Telemetry
from oncue.webhooks.delivery import Deliveries
from oncue.webhooks.slow_endpoints import SlowEndpoints
from oncue.webhooks.transport import Transport

ROOM_ASIDE = 6
"""Deliveries that wait aside in one process: few, so that some are held back."""


class HandlersExecutor(Executor):
    def __init__(
        self,
        loop: VirtualLoop,
        handlers: Mapping[str, Handler],
        clock: Clock,
        history: History,
        label: str,
        telemetry: Telemetry,
        concurrency: int,
        ended: Callable[[Ended], None],
        *,
        may_start: Callable[[], bool],
        starts: PendingStarts,
    ) -> None:
        told = noting(history, label, ended)
        super().__init__(
            handlers, clock, telemetry, concurrency, SizeLimits(), told, may_start=may_start, starts=starts
        )
        self._loop = loop
        self._history = history
        self._label = label

    def cancel(self, job_id: int, claim_no: int) -> None:
        note_stop(self, self._history, self._label, job_id, claim_no)
        super().cancel(job_id, claim_no)

    def _failed(self, attempt: HandlerAttempt, handler: Handler, error: BaseException) -> Outcome:
        if isinstance(error, GeneratorExit):
            raise error  # what a dead process ran is thrown away: it does nothing any more
        return super()._failed(attempt, handler, error)

    def _open_seats(self, count: int) -> None:
        with self._loop.entered():  # the services are driven outside of it
            super()._open_seats(count)


def delivery_handlers(
    store: Store, clock: Clock, transport: Transport, telemetry: Telemetry, network: Network
) -> dict[str, Task[Any, Any]]:
    """The tasks that oncue brings itself, in one process."""
    connection = Connection(store, clock)

    async def connected() -> Connection:
        return connection

    deliveries = Deliveries(
        connected, lambda: transport, {}, telemetry, lambda: network.threshold, lambda: network.share,
        SlowEndpoints(ROOM_ASIDE),
    )  # fmt: skip
    return builtin_tasks(cast(Any, SimpleNamespace(internals=SimpleNamespace(deliveries=deliveries))))
