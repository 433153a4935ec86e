"""Cluster tasks: code that every node runs, and one action of the leader's afterwards.

A cluster task is two tasks. The one of its own name is the cluster job: its handler is the leader action. The other
one, `NAME.part`, is a node's part: its handler is the function that was declared.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from oncue.engine.context import current
from oncue.errors import ConfigError, InvalidJob, Postpone, StoreError
from oncue.model import (
    CLUSTER_ADDRESS,
    CLUSTER_QUEUE,
    Failed,
    NewParts,
    Node,
    NodeResult,
    Receipt,
)
from oncue.policy import quorum
from oncue.policy.checks import checked_retries
from oncue.policy.durations import Duration, seconds
from oncue.policy.names import checked_name_of_a_node
from oncue.policy.options import ClusterOptions, Options
from oncue.policy.retry import DEFAULT_MAX_RETRIES
from oncue.task import Call, Task
from oncue.tasks.arguments import Arguments

if TYPE_CHECKING:
    from oncue.app import Oncue

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound=Callable[..., Any])

PART = ".part"
"""What the name of a part's task ends with."""
DEFAULT_QUORUM_TIMEOUT = 10.0
ASK_AGAIN_SECONDS = 1.0

MOST_NAMED = 1000
"""How many nodes one cluster job may name."""

NODE, RESULTS, QUORUM = "node", "results", "quorum"
"""The parameters that the worker gives: the node that runs it; what the parts came to; whether a quorum was reached."""


class PartTask(Task[Any, Any]):
    """One node's part. What it raises ends it for good, but for `Retry`, unless its task declares a retry policy."""

    given = frozenset({NODE})

    def __init__(self, app: Oncue, function: Callable[..., Any], *, is_repeated: bool, **options: Any) -> None:
        super().__init__(app, function, **options)
        self._is_repeated = is_repeated
        self._wants_node = NODE in inspect.signature(function).parameters
        self.bind = self._bind

    def options(self, default_max_runtime: float | None) -> Options:
        return dataclasses.replace(super().options(default_max_runtime), of_cluster=True)

    def on_error(self, error: Exception, retry_count: int) -> Failed | None:
        return super().on_error(error, retry_count) if self._is_repeated else Failed("", final=True)

    def _bind(self, args: str, slot: datetime | None = None) -> dict[str, Any]:
        bound = self.arguments.bind(args, slot)
        return {**bound, NODE: self.app.internals.working_node()} if self._wants_node else bound


class ClusterTask(Task[P, R]):
    """A function that every node runs. Calling it runs it here and now, as if it were not a task."""

    given = frozenset({NODE})
    address = CLUSTER_ADDRESS

    def __init__(
        self,
        app: Oncue,
        function: Callable[P, R],
        *,
        name: str | None = None,
        queue: str | None = None,
        leader_only: bool = False,
        quorum_timeout: Duration | None = None,
        on_no_quorum: Literal["proceed", "fail"] = "proceed",
        on_node_restart: Literal["count", "fail"] = "count",
        max_retries: int | None = None,
        **options: Any,
    ) -> None:
        for unknown in sorted(
            options.keys() & {"delivery", "process", "max_concurrency", "on_cutoff", "error_classes"}
        ):
            raise ValueError(f"{unknown}: a cluster task has none")
        is_repeated = options.get("retry") is not None
        retries = DEFAULT_MAX_RETRIES if max_retries is None and not is_repeated else max_retries
        if retries is not None:
            options["max_retries"] = checked_retries(retries)
        super().__init__(app, function, name=name, queue=CLUSTER_QUEUE, **options)
        if self.window is not None:
            raise ValueError("schedule: a cluster task has no daily window: there is one job for all nodes")
        self._is_repeated = is_repeated
        self._leader_only = leader_only
        self._quorum_timeout = quorum_timeout
        self._on_no_quorum = _one_of("on_no_quorum", on_no_quorum, ("proceed", "fail"))
        self._on_node_restart = _one_of("on_node_restart", on_node_restart, ("count", "fail"))
        if quorum_timeout is not None:
            seconds(quorum_timeout, "quorum_timeout")
        self.local = function
        self.action: Callable[..., Any] | None = None
        self._action_arguments: Arguments | None = None
        self.part: PartTask | None = None
        if leader_only:
            self._take_action(function, frozenset({NODE}))
        else:
            of_part = {
                name: options[name] for name in ("timeout", "max_runtime", "retry", "max_retries") if name in options
            }
            self.part = PartTask(
                app, function, is_repeated=is_repeated, name=f"{self.name}{PART}", queue=queue or CLUSTER_QUEUE,
                priority=self.priority, delivery="at_most_once", **of_part,
            )  # fmt: skip
        self.is_async, self.function, self.bind = True, self._act, _unbound  # type: ignore[assignment]

    # --- what it consists of ------------------------------------------------------------------------------------

    @property
    def has_local_work(self) -> bool:
        """Whether every node has something to do."""
        return self.part is not None

    @property
    def has_leader_actions(self) -> bool:
        """Whether the leader has something to do after that."""
        return self.action is not None

    @property
    def is_leader_only(self) -> bool:
        """Whether the leader alone has something to do."""
        return self._leader_only

    def leader_action(self, action: A) -> A:
        """Declare what the leader does once a quorum of the nodes has done its part.

        It is told what it asks for by the names of its parameters: `results` (what the parts came to), `quorum`
        (False if the time was over first), `node`, and any argument of the task itself.
        """
        if self.action is not None:
            taken = "it runs on the leader alone" if self._leader_only else "it has one already"
            raise ValueError(f"leader_action: the task {self.name!r} can have no other: {taken}")
        self._take_action(action, frozenset({NODE, RESULTS, QUORUM}))
        return action

    def _take_action(self, action: Callable[..., Any], given: frozenset[str]) -> None:
        asked = Arguments(action, f"{self.name}, leader_action", given, optional=self._defaults())
        known = {*self.arguments.signature.parameters, "slot"}
        for parameter in asked.signature.parameters.values():
            if parameter.name not in known and parameter.default is parameter.empty:
                raise ValueError(
                    f"leader_action: {parameter.name} is no argument of {self.name!r}, and none of what the leader is "
                    f"told: {RESULTS}, {QUORUM}, {NODE}"
                )
        self.action, self._action_arguments = action, asked

    # --- what its jobs carry ------------------------------------------------------------------------------------

    def options(self, default_max_runtime: float | None) -> Options:
        return self.options_for(None, default_max_runtime)

    def options_for(self, nodes: Sequence[str] | None, default_max_runtime: float | None) -> Options:
        """What a cluster job carries: for these nodes, or for all."""
        timeout = self._quorum_timeout
        told = ClusterOptions(
            self._new_parts(nodes, default_max_runtime), self.has_leader_actions, self._leader_only,
            self.app.settings.cluster_quorum_timeout if timeout is None else seconds(timeout, "quorum_timeout"),
            self._on_no_quorum, self._on_node_restart,
        )  # fmt: skip
        return dataclasses.replace(super().options(default_max_runtime), cluster=told)

    def _new_parts(self, nodes: Sequence[str] | None, default_max_runtime: float | None) -> NewParts:
        names = None if nodes is None else tuple(dict.fromkeys(nodes))
        if self.part is None:
            return NewParts(self.name, CLUSTER_QUEUE, "{}", 0, None, names, leader_only=True)
        own, part = self.part.options(default_max_runtime), self.part
        return NewParts(part.name, part.queue, own.stored(), part.max_retries, own.max_runtime, names)

    def on_error(self, error: Exception, retry_count: int) -> Failed | None:
        return super().on_error(error, retry_count) if self._is_repeated else Failed("", final=True)

    # --- creating -----------------------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.local(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Create a cluster job. Raises Conflict if an unfinished one has its key, and NotLeader in a process that is a
        node and does not lead. In async code use `aenqueue`."""
        return self.using().enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return await self.using().aenqueue(*args, **kwargs)

    def enqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return self.using().enqueue_many(rows)

    async def aenqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return await self.using().aenqueue_many(rows)

    def using(self, *, nodes: Sequence[str] | None = None, **options: Any) -> ClusterCall[P]:
        """The same task with other options for the jobs created through it. `nodes` are the names of those that take
        part; without them all active nodes do that know the task and serve its queue."""
        for name in ("queue", "group", "address"):
            if options.pop(name, None) is not None:
                raise InvalidJob(name, "expected none: a cluster job is for the nodes of the whole cluster")
        if nodes is not None and self._leader_only:
            raise InvalidJob("nodes", f"expected none: {self.name!r} runs on the leader alone")
        plain = super().using(**options)
        call: ClusterCall[P] = ClusterCall(self)
        call.__dict__.update(plain.__dict__)
        if nodes is not None:
            call.nodes = _checked_nodes(nodes)
            told = self.options_for(call.nodes, self.app.settings.max_runtime)
            call.carried = (told.stored(), told.max_runtime)
        return call

    # --- acting -------------------------------------------------------------------------------------------------

    async def _act(self, args: str, slot: datetime | None) -> Any:
        """The leader action, on the leader."""
        if self.action is None or self._action_arguments is None:
            raise ConfigError(
                f"{self.name}: its job has a leader action, and the code of the node that leads declares none; once it "
                "does, try the job again"
            )
        internals, claim = self.app.internals, current.get().claim
        try:
            connection = await internals.connected()
            (cluster,) = await connection.store.cluster.get([claim.id], connection.now())
        except StoreError as error:
            raise Postpone(ASK_AGAIN_SECONDS, f"the database was asked for the parts: {error}") from error
        wanted = inspect.signature(self.action).parameters
        told: dict[str, Any] = {RESULTS: quorum.results_of(cluster), QUORUM: cluster.quorum is not False}
        if NODE in wanted:
            told[NODE] = internals.working_node()
        arguments = {**self._defaults(), **self._action_arguments.bind_known(args, slot), **told}
        named = {name: value for name, value in arguments.items() if name in wanted}
        if inspect.iscoroutinefunction(self.action):
            return await self.action(**named)
        return await _in_thread(self.action, named)

    def _defaults(self) -> dict[str, Any]:
        """What the arguments of the task are that a job may leave out."""
        parameters = self.arguments.signature.parameters.values()
        return {one.name: one.default for one in parameters if one.default is not one.empty}


class ClusterCall(Call[P], Generic[P]):
    """A cluster task together with the options of one creation."""

    nodes: tuple[str, ...] | None = None
    hands_over = False
    """Whether a node that does not lead hands the job to the leader. Else it refuses, and says who leads."""

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return await self.task.app.internals.clustering.create(self, (args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        if self.on is not None:
            return self.task.app.internals.clustering.create_here(self, (args, kwargs))
        return self.task.app.wait(self.aenqueue(*args, **kwargs))

    def enqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        raise InvalidJob("task", f"{self.task.name!r} is a cluster task: its jobs are created one by one")

    async def aenqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return self.enqueue_many(rows)


def _unbound(args: str, slot: datetime | None = None) -> dict[str, Any]:
    """The leader action is bound once it is known what the parts came to."""
    return {"args": args, "slot": slot}


async def _in_thread(function: Callable[..., Any], named: dict[str, Any]) -> Any:
    """Call a plain function. Its attempt keeps its seat until the function has returned, cut off or not."""
    from oncue.engine.executor import called  # a process that runs no jobs does without the engine

    context = contextvars.copy_context()
    done = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(called, function, named))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise


def _checked_nodes(nodes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(nodes, str) or not nodes or not all(isinstance(name, str) for name in nodes):
        raise InvalidJob("nodes", f"expected the names of one node or more, not {nodes!r:.100}")
    if len(nodes) > MOST_NAMED:
        raise InvalidJob("nodes", f"expected at most {MOST_NAMED:,} names, not {len(nodes):,}")
    try:
        return tuple(dict.fromkeys(map(checked_name_of_a_node, nodes)))
    except ValueError as error:
        raise InvalidJob("nodes", str(error)) from None


def _one_of(field: str, value: Any, expected: tuple[str, ...]) -> Any:
    if value not in expected:
        raise ValueError(f"{field}: expected {' or '.join(map(repr, expected))}, not {value!r}")
    return value


__all__ = ["ClusterCall", "ClusterTask", "Node", "NodeResult"]
