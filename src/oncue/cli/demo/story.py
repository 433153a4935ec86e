"""What happens in the demo, and when: jobs arrive, a worker is killed, its jobs are done by the others."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from oncue.app import Oncue
from oncue.cli.demo.facts import Account, DemoCounts, Facts
from oncue.cli.demo.workers import Worker, Workers
from oncue.cli.output import plural
from oncue.errors import OncueError
from oncue.model import STATES
from oncue.policy.durations import seconds

RATE = 200
STEP_SECONDS = 0.2
CLOSING_SECONDS = 3.0
PATIENCE_SECONDS = 30.0
KILL_AT = 0.4
# Of a hundred jobs, by task.
MIX = {"send_email": 48, "resize_image": 30, "charge_card": 16, "build_report": 6}


class DemoFailed(OncueError):
    """The demo could not be shown; this says nothing about its jobs."""


class Story:
    def __init__(self, app: Oncue, workers: Workers, facts: Facts, duration: str, path: Path) -> None:
        self.app = app
        self.workers = workers
        self.path = path
        self.moment = DemoCounts()
        self.events: list[tuple[float, str]] = []
        self.acknowledged: list[int] = []
        self._looked_for = 0
        self.rates: deque[float] = deque(maxlen=48)
        self._facts = facts
        self._duration = seconds(duration, "--for")
        self._feed_until = max(self._duration - CLOSING_SECONDS, self._duration * 0.4)
        self._began = time.monotonic()
        self._victim: Worker | None = None
        self._in_its_hands: list[int] = []
        self._put_back = self._made_up = False
        self._greeted = False
        self._measured = (0.0, 0)
        self.began_at: datetime | None = None
        """By the database's clock."""
        self.account: Account | None = None
        """What became of every job, once the story is over."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def feeding(self) -> bool:
        """Jobs keep coming until their time is over and a worker was killed."""
        return self.elapsed < self._feed_until or self._victim is None

    @property
    def over(self) -> bool:
        return not self.feeding and self._made_up and self.moment.done >= len(self.acknowledged)

    async def run(self, show: Callable[[Story], None]) -> None:
        """Play it to its end; `show` is called many times a second."""
        self.began_at, self._began = await self.app.now(), time.monotonic()
        self.tell("three workers start, each a process of its own")
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(self._feed())
            while not self.over and self.elapsed < self._duration + PATIENCE_SECONDS:
                self._look()
                show(self)
                await asyncio.sleep(STEP_SECONDS / 2)
            feeding.cancel()
        self._look()
        self.account = self._facts.account(self.acknowledged)
        self.tell("the work is done: the workers drain and stop" if self.over else "[red]time is over[/]")
        show(self)

    @property
    def settled_twice(self) -> int:
        return self._facts.settled_twice() if self.account is None else len(self.account.settled_twice)

    @property
    def lost(self) -> int:
        """How many enqueues were acknowledged of which nothing is there; at the end, or that have not ended."""
        if self.account is not None:
            return len(self.account.lost)
        return max(self._looked_for - self.moment.total(STATES), 0)

    def tell(self, text: str) -> None:
        self.events.append((self.elapsed, text))

    # --- jobs arrive --------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        number = 0
        while self.feeding:
            for task, share in MIX.items():
                count = round(RATE * STEP_SECONDS * share / 100)
                rows: list[Any] = [{"number": number + n} for n in range(count)]
                number += count
                receipts = await self.app.find(task).aenqueue_many(rows)
                self.acknowledged += [receipt.id for receipt in receipts]
            await asyncio.sleep(STEP_SECONDS)
        self.tell(f"no more jobs arrive: {len(self.acknowledged):,} were enqueued")

    # --- things happen ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._looked_for = len(self.acknowledged)  # before the look: what is acknowledged later need not be in it
        self.moment = self._facts.moment()
        self._measure()
        failed = self.workers.failed()
        if failed is not None:
            raise DemoFailed(f"{failed.name} ended by itself: {failed.last_words()}")
        if not self._greeted and len(self.moment.nodes) == len(self.workers.all):
            self._greeted = True
            self.tell(f"{len(self.moment.nodes)} workers are alive")
        if self._victim is None:
            self._kill_when_it_hurts()
        else:
            self._watch_recovery(self._victim)

    def _measure(self) -> None:
        since, done = self._measured
        if self.elapsed - since >= 0.5:
            self.rates.append((self.moment.done - done) / (self.elapsed - since))
            self._measured = (self.elapsed, self.moment.done)

    def _kill_when_it_hurts(self) -> None:
        """Kill a worker that has something in hand."""
        worker = self.workers.all[1]
        if not self._greeted or self.elapsed < self._feed_until * KILL_AT or not self.moment.held.get(worker.name):
            return
        self.workers.kill(worker)
        self._in_its_hands = self._facts.held_by(worker.name)
        if not self._in_its_hands:
            # Its last outcomes were written in this very moment: nothing was cut short, and nothing needs rescue.
            self._put_back = self._made_up = True
        self._victim = worker
        self.tell(f"[red]{worker.name} is killed (SIGKILL)[/] with {plural(len(self._in_its_hands), 'job')} in hand")

    def _watch_recovery(self, victim: Worker) -> None:
        if not self._put_back and not self._facts.held_by(victim.name):
            self._put_back = True
            self.tell(f"its lease is over: [yellow]{plural(len(self._in_its_hands), 'job')} put back in the queue[/]")
        if self._put_back and not self._made_up and not self._facts.unfinished(self._in_its_hands):
            self._made_up = True
            self.tell("[green]the other workers have done them all[/]")
