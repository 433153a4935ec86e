"""One process of a simulated cluster: its services, when they are due, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from oncue.clock import Clock
from oncue.engine.node import WorkerNode
from oncue.engine.service import Service, foretells
from oncue.sim.executor import ScriptedExecutor
from oncue.sim.operator import TASK
from oncue.sim.wire import Wire
from oncue.store.contract import Store
from oncue.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Crew:
    """What every node of a cluster works on."""

    queues: tuple[str, ...] = ("default",)
    tasks: tuple[str, ...] = (TASK,)
    in_processes: frozenset[str] = frozenset()
    """The tasks that run in processes, of which so many run on a node at once."""
    processes: int = 1


CREW = Crew()

QuietUntil: TypeAlias = Callable[[datetime, Store], Coroutine[Any, Any, datetime | None]]


class TimedService:
    """A service of a member, and when it is due."""

    def __init__(self, member: Member, service: Service) -> None:
        self.member = member
        self.service = service
        self.quiet_until: QuietUntil | None = getattr(service, "quiet_until", None)
        self.due: datetime | None = None
        """In true time less what was skipped until now."""
        self.plan = 0
        """Which of the plans for it counts: the latest."""
        self.failures = 0
        self.ticking = False


class Member:
    def __init__(
        self,
        label: str,
        wire: Wire,
        store: Store,
        worker: WorkerNode,
        clock: Clock,
        telemetry: Telemetry,
        more: Sequence[Service] = (),
    ) -> None:
        self.label = label
        self.wire = wire
        self.store = store
        """The database without the wire in between."""
        self.worker = worker
        self.clock = clock
        self.telemetry = telemetry
        self.id = str(worker.node.id)
        self.alive = True
        self.paused = False
        self.restarts_after: float | None = None
        """When it dies between two calls, it is started again so many seconds later."""
        self.restless = 0
        """How many of its services are in the middle of a step, or failed at their last."""
        self.frozen: frozenset[str] = frozenset()
        self.missed: list[Callable[[], None]] = []
        self.timed = [
            TimedService(self, service) for service in (*more, *worker.heartbeat, *worker.hot_path, *worker.upkeep)
        ]
        self.asked = [timed for timed in self.timed if foretells(timed.service)]
        """Those that may end a quiet time."""
        self.named = {timed.service.name: timed for timed in self.timed}

    def freeze_all_but(self, *names: str) -> None:
        """The loop is stuck, as under a handler that never suspends; the heartbeat has a thread of its own."""
        self.frozen = frozenset(timed.service.name for timed in self.timed) - set(names)

    @property
    def name(self) -> str:
        return self.label.rpartition(".")[0]

    @property
    def leads(self) -> bool:
        return self.alive and self.worker.leadership.epoch is not None

    @property
    def executor(self) -> ScriptedExecutor:
        executor = self.worker.executor
        assert isinstance(executor, ScriptedExecutor)
        return executor
