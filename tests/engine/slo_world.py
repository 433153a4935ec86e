"""A simulated cluster with a daily window and the SLO watcher: real nodes, scripted jobs, a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from oncue import Oncue, daily
from oncue.application.connecting import Connection
from oncue.engine.node import Pace
from oncue.model import EVERY_DAY, AlertState, Subject
from oncue.policy import windows
from oncue.policy.slo import SloRules
from oncue.sim import script
from oncue.sim.driver import finish
from oncue.sim.member import Crew, Member
from oncue.sim.operator import TASK
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.verbs.schedules.declaring import Declaring

CALM = Pace(poll=5.0, lease=60.0, beat=20.0, reconcile=5.0, windows=60.0)
CREW = Crew(queues=("default", "windows"), tasks=(TASK,))
QUICK = Act("ok", 0.05)


class SloWorld:
    """Nodes with a watcher, and what it told: the events of all nodes, in their order."""

    def __init__(self, *, seats: int = 100, concurrency: int = 200, window: str = "60m", **fields: Any) -> None:
        rules = fields.pop("rules", SloRules())
        self.world = World(1, pace=replace(CALM, slo=rules), crew=CREW, concurrency=concurrency, **fields)
        self.told: list[tuple[str, str, str]] = []
        self.heard: dict[str, list[tuple[dict[str, float], dict[str, Any]]]] = {}
        app = Oncue("sqlite:///:memory:", name="sim")

        @app.task(name=TASK, schedule=daily(window=window, retry="10m"), max_concurrency=seats)
        def digest(user: str, day: date, acts: list[dict[str, Any]]) -> None: ...

        self.app = app
        finish(Declaring(app.internals).synchronise(Connection(self.world.store, self.world.clock)))
        (self.window,) = finish(self.world.store.windows.all())

    def boot(self, name: str = "alpha") -> Member:
        member = self.world.boot(name)
        for event in ("slo.breach", "slo.over"):
            member.telemetry.subscribe(
                lambda event, _, told: self.told.append((event, told["alert"], told["of"])), event
            )
        return member

    def hear(self, member: Member, *events: str) -> None:
        """Keep what a node tells of these."""
        for event in events:
            heard = self.heard.setdefault(event, [])
            member.telemetry.subscribe(lambda _, numbers, told, heard=heard: heard.append((dict(numbers), dict(told))),
                                       event)  # fmt: skip

    def add(self, count: int, *acts: Act, due: int = 60, first: int = 0) -> None:
        """So many users whose day ends at this minute."""
        now = self.world.clock.now()
        told = json.dumps({"acts": [script.described(act) for act in acts or (QUICK,)]})
        blank = Subject(
            schedule_id=self.window.id, name="", due=due, tz=None, weekdays=EVERY_DAY, days_off=(), args=told,
            version=0, since=now, day=now.date(), opens_at=now, cutoff_at=now, next_at=now, job_id=None, last_date=None,
            status=None, reason=None, last_run_at=None, created_at=now, updated_at=now, removed_at=None,
        )  # fmt: skip
        terms = windows.terms_of(blank, windows.rule_of(self.window.expression), self.window.tz)
        day = windows.first_day(terms, None, now)
        users = [
            replace(
                blank, name=f"user{due}-{first + number}", day=day.date, opens_at=day.opens_at, cutoff_at=day.cutoff_at,
                next_at=max(day.opens_at, now),
            )
            for number in range(count)
        ]  # fmt: skip
        assert all(finish(self.world.store.windows.put(users, now)))
        self.world.hint()

    def run(self, minutes: float) -> None:
        self.world.run(minutes * 60)

    @property
    def states(self) -> Sequence[AlertState]:
        return finish(self.world.store.alerts.book()).alerts

    def state(self, alert: str) -> AlertState:
        return next(state for state in self.states if state.alert == alert)

    @property
    def warned(self) -> set[str]:
        return {alert for event, alert, _ in self.told if event == "slo.breach"}

    def go_on(self, alert: str, limit: float = 40) -> AlertState:
        """Let time pass until the watcher warns of this."""
        until = self.world.clock.now() + timedelta(minutes=limit)
        while alert not in self.warned:
            assert self.world.clock.now() < until, f"no warning of {alert} within {limit:g} minutes: {self.states}"
            self.run(1)
        return self.state(alert)

    def close(self) -> None:
        self.world.close()
