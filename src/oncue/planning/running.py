"""Runs a scenario: the application's own schedules and tasks on real nodes in virtual time. No handler is called.

Schedules come in as a worker declares them, jobs carry their tasks' own options, and everything else is the engine's:
leadership, claims, retries, what becomes of slots that were missed. Only the work itself is
drawn from the scenario's random numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count, islice

from oncue.app import Oncue
from oncue.application.connecting import Connection
from oncue.model import UNFINISHED, Batch, Claim, Decided, Job, JobFilter
from oncue.planning.recorder import ARRIVAL, Recorder, Run, identity
from oncue.planning.scenario import Scenario
from oncue.policy.triggers import TICK, Rule, trigger
from oncue.sim.driver import finish
from oncue.sim.member import Crew
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.verbs.schedules.declaring import Declaring

WARM_UP = timedelta(minutes=1)
"""Nodes start, and schedules are made, so long before the simulated time begins. Its first instant may be a slot."""
STEP = 3600.0
PAGE = 10_000


def run(app: Oncue, scenario: Scenario, told: Callable[[float], None] = lambda share: None) -> Run:
    """Simulate it all. `told` hears how much of it is done."""
    return Simulation(app, scenario).run(told)


class Simulation:
    def __init__(self, app: Oncue, scenario: Scenario) -> None:
        self._app = app
        self._scenario = scenario
        self._names = [f"node-{number}" for number in range(1, scenario.nodes + 1)]
        self._world = World(
            scenario.seed, pace=app.settings.pace, concurrency=scenario.concurrency, script=self._act,
            elide=True, start=scenario.start - WARM_UP, crew=_crew(app, scenario),
        )  # fmt: skip
        self._connection = Connection(self._world.store, self._world.clock)
        self._in_threads = frozenset(name for name, task in app.tasks.items() if not (task.is_async or task.process))
        self._recorder = Recorder(scenario, self._world.clock, self._in_threads)
        self._fired = 0

    def run(self, told: Callable[[float], None]) -> Run:
        try:
            return self._run(told)
        finally:
            self._world.close()

    def _run(self, told: Callable[[float], None]) -> Run:
        scenario, world = self._scenario, self._world
        for queue, limits in scenario.limits.items():
            finish(world.operator.queues.limit(queue, globally=limits.globally, per_node=limits.per_node))
        finish(
            Declaring(self._app.internals).synchronise(self._connection, only=lambda rule: not _counts_from_now(rule))
        )
        self._start_nodes()
        world.run(WARM_UP.total_seconds())
        finish(Declaring(self._app.internals).synchronise(self._connection))
        world.hint()
        for number, stream in enumerate(scenario.arrivals):
            batches = stream.batches(scenario.start, scenario.length, scenario.rng("arrivals", number, stream.task))
            self._await(stream.task, batches, _numbered(number))
        for outage in scenario.outages:
            world.after(outage.start, self._stop_nodes)
            world.after(outage.end, self._start_nodes)
        self._pass(told)
        self._note_undecided()
        return self._recorder.conclude(self._unfinished())

    def _pass(self, told: Callable[[float], None]) -> None:
        """Let the time go by, an hour at a step. What comes due in the last instant is not of this time any more."""
        left = self._scenario.length - TICK.total_seconds()
        while left > 0:
            self._world.run(min(left, STEP))
            self._world.history.events.clear()  # it is not read, and would grow with every job
            left -= STEP
            told(min(1 - left / self._scenario.length, 1.0))

    # --- nodes --------------------------------------------------------------------------------------------------

    def _start_nodes(self) -> None:
        for name in self._names:
            telemetry = self._world.boot(name).telemetry
            self._recorder.subscribe(telemetry)
            telemetry.subscribe(lambda *event: self._fire(event[2]["decided"]), "slot")

    def _stop_nodes(self) -> None:
        """As a power cut does."""
        for name in self._names:
            self._world.crash(name)
        self._recorder.lose_all()

    # --- work ---------------------------------------------------------------------------------------------------

    def _act(self, claim: Claim) -> Act:
        job = identity(claim.scheduled_for, json.loads(claim.args))
        seconds, fails = self._scenario.draw(claim.task, job, claim.attempt)
        return Act("fail" if fails else "ok", seconds, stubborn=claim.task in self._in_threads)

    def _await(self, task: str, batches: Iterator[tuple[float, int]], names: Iterator[str]) -> None:
        """Put the next jobs of a stream on the heap of instants, and then those after them."""
        following = next(batches, None)
        if following is None:
            return
        seconds, jobs = following

        def arrive() -> None:
            self._enqueue(task, list(islice(names, jobs)))
            self._await(task, batches, names)

        self._world.at(self._scenario.start + timedelta(seconds=seconds), arrive)

    def _enqueue(self, name: str, jobs: list[str]) -> None:
        task, world = self._app.tasks[name], self._world
        carried, now = self._app.internals.carried(task), world.clock.now()
        batch = Batch(
            task=name, queue=task.queue, priority=task.priority, state="queued", options=carried["options"],
            max_retries=task.max_retries, max_runtime=carried["max_runtime"], created_at=now, visible_at=now,
            deadline_at=None if task.deadline is None else now + timedelta(seconds=task.deadline),
            enqueued_by="simulation", retry_of=None, ids=finish(world.store.jobs.reserve(len(jobs))),
            args=[json.dumps({ARRIVAL: job}) for job in jobs],
        )  # fmt: skip
        finish(world.store.jobs.enqueue([batch]))
        self._recorder.made(name, len(jobs))
        self._hint(len(jobs))

    def _fire(self, decided: Decided) -> None:
        """A slot has become a job. Nodes with seats hear of it once all jobs of this instant are there."""
        if decided.verdict == "fired":
            if not self._fired:
                self._world.after(0.0, self._hint_fired)
            self._fired += 1

    def _hint_fired(self) -> None:
        jobs, self._fired = self._fired, 0
        self._hint(jobs)

    def _hint(self, jobs: int) -> None:
        """Wake the nodes that have seats for new jobs, the emptiest first. All others would find no job left.

        Where a node may take fewer jobs than it has seats, all nodes are woken.
        """
        alive = [member for member in self._world.members.values() if member.alive]
        narrow = self._scenario.limits or self._world.crew.in_processes
        for member in sorted(alive, key=lambda member: member.executor.busy):
            if jobs > 0 or narrow:
                (member.worker.wake if self._scenario.limits else member.worker.claimer.signal.set)()
                jobs -= max(member.executor.concurrency - member.executor.busy, 0)

    def _note_undecided(self) -> None:
        """Slots that no leader has decided: an outage was not over at the end."""
        end = self._world.clock.now()
        for name, rule in _rules(self._app):
            schedule = finish(self._world.store.schedules.get(name))
            if schedule is not None and schedule.next_run_at is not None and schedule.next_run_at <= end:
                since = schedule.next_run_at
                slots = trigger(rule, schedule.created_at).count(since - TICK, end)
                self._recorder.undecided(name, slots)

    def _unfinished(self) -> Iterator[Job]:
        states, before = tuple(sorted(UNFINISHED)), None
        while page := finish(self._world.store.jobs.find(JobFilter(states, before=before, limit=PAGE))):
            yield from page
            before = page[-1].id


def _crew(app: Oncue, scenario: Scenario) -> Crew:
    apart = frozenset(name for name, task in app.tasks.items() if task.process)
    return Crew(scenario.queues, tuple(sorted(app.tasks)), apart, scenario.processes)


def _rules(app: Oncue) -> list[tuple[str, Rule]]:
    return [(name, task.schedule.rule) for name, task in sorted(app.tasks.items()) if task.schedule is not None]


def _counts_from_now(rule: Rule) -> bool:
    """Whether its slots depend on when its schedule is made: then that is the first instant of the simulated time."""
    return rule.expression.startswith("@every")


def _numbered(stream: int) -> Iterator[str]:
    """Names for the jobs of a stream."""
    return (f"{stream}.{number}" for number in count(1))
