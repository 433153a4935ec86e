"""An application that enqueues over a wire: when the reply is lost, it asks again under the same ids."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from oncue.clock import VirtualClock
from oncue.errors import StoreUnavailable
from oncue.model import Batch, Receipt
from oncue.sim.driver import Driver
from oncue.sim.history import History, Operation, ok_fields
from oncue.sim.timeline import Timeline
from oncue.sim.wire import Wire

CLIENT = "client"
PATIENCE = timedelta(seconds=5)
ASK_AGAIN = timedelta(seconds=0.2)


class SimulatedClient:
    """`written` is called when jobs are there."""

    def __init__(
        self,
        wire: Wire,
        clock: VirtualClock,
        timeline: Timeline,
        driver: Driver,
        history: History,
        written: Callable[[], None],
    ) -> None:
        self.wire = wire
        self._clock = clock
        self._timeline = timeline
        self._driver = driver
        self._history = history
        self._written = written

    def submit(self, batch: Batch) -> None:
        operation = self._history.invoke(CLIENT, "enqueue", ids=batch.ids)
        self._ask(batch, operation, self._clock.now() + PATIENCE, in_doubt=False)

    def _ask(self, batch: Batch, operation: Operation, give_up: datetime, *, in_doubt: bool) -> None:
        def answered(receipts: list[Receipt]) -> None:
            self._history.answer(operation, "ok", **ok_fields(batch, receipts))
            self._written()

        def failed(error: Exception) -> None:
            now = self._clock.now()
            if not isinstance(error, StoreUnavailable):
                self._history.answer(operation, "fail", ids=batch.ids)
            elif now < give_up:
                self._timeline.at(now + ASK_AGAIN, lambda: self._ask(batch, operation, give_up, in_doubt=True))
            else:
                self._history.answer(operation, "unknown", ids=batch.ids)

        self.wire.operation = operation
        self._driver.go_on(self.wire.as_store().jobs.enqueue([batch], in_doubt=in_doubt), answered, failed)
