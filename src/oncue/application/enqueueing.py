"""How calls become jobs: on the application's own connection, patiently, or inside a caller's transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from oncue import store
from oncue.application import slots_only
from oncue.application.connecting import Connection, Connector
from oncue.application.ownership import refuse
from oncue.application.portal import at_once
from oncue.errors import FileGone, IdTaken, InvalidJob, RowLocked, StoreUnavailable
from oncue.model import Batch, Declaration, FollowUp, Owner, Receipt
from oncue.policy.lifecycle import entry_state
from oncue.policy.ownership import ApplicationName
from oncue.settings import Settings
from oncue.store.callers import Callers, Home, is_asynchronous
from oncue.store.statements import DEFAULT_SCHEMA
from oncue.task import Call, Task
from oncue.telemetry import Telemetry

if TYPE_CHECKING:
    from oncue.verbs.subjects import SubjectTables

T = TypeVar("T")
Row: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]

ENQUEUE_PATIENCE_SECONDS = 5.0
ASK_AGAIN_SECONDS = 0.2
MOST_RESERVATIONS = 10
FURTHEST = timedelta(days=36525)
ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""When jobs are made that are to follow, until it is known when."""

NOTHING_WRITTEN = "nothing was written"

_log = logging.getLogger("oncue")


class Reservation(NamedTuple):
    """What a request has reserved for its job before it was begun."""

    id: int
    since: datetime
    in_doubt: bool
    """Whether an earlier try may have written the job."""


class EnqueueingApplication(Protocol):
    """What is needed of the application whose jobs are written."""

    telemetry: Telemetry
    connector: Connector

    @property
    def settings(self) -> Settings: ...

    @property
    def identity(self) -> ApplicationName: ...

    async def connected(self) -> Connection: ...

    def resolved(self, task: Task[Any, Any]) -> tuple[str, float | None]: ...


class Enqueueing:
    """What tasks and calls ask of their application. Users say `task.enqueue(…)`."""

    def __init__(self, app: EnqueueingApplication) -> None:
        self._app = app
        self._callers = Callers()

    async def refuse_bypass(self, task: Task[Any, Any]) -> None:
        """Raise InvalidJob if this task runs in the slots of its schedule alone."""
        slots_only.refuse_declared(task)
        await self._refuse_stored(await self._app.connected(), task.name)

    async def _refuse_stored(self, connection: Connection, task: str) -> None:
        if not connection.remembers(task):
            await self._patiently(connection, lambda _: connection.read_declaration(task), NOTHING_WRITTEN)
        slots_only.refuse_stored(task, connection.declarations[task].stored)

    async def check_owner(self) -> None:
        """Raise WrongApplication if this application has a name, and the tables belong to one of another name."""
        if self._app.identity.given:
            await self._check_owner(await self._app.connected())

    async def _check_owner(self, connection: Connection) -> None:
        """Without a name it is not asked: a web process may have another place than the workers of its application."""
        if self._app.settings.name is not None:
            owner = await self._patiently(connection, lambda _: connection.owner(), NOTHING_WRITTEN)
            refuse(owner, self._app.identity, connection.store.dialect)

    async def write(self, call: Call[Any], rows: Sequence[Row], *, outside_slots: bool = False) -> list[Receipt]:
        """Write jobs for these arguments, all or none.

        Only the test kit may run a task `outside_slots` that keeps to those of its schedule.
        """
        if not rows:
            return []
        if not outside_slots:
            slots_only.refuse_declared(call.task)
        limit = self._app.settings.max_args_bytes
        args = [_dumped(call.task, row, number, limit) for number, row in enumerate(rows, 1)]
        keys = [call.key_of(*row, text) for row, text in zip(rows, args, strict=True)] if call.has_key else None
        if call.on is not None and self._app.connector.works:
            batch, receipts = await self._written_by_caller(call, args, keys)
        else:
            connection = self._app.connector.ready() or await self._app.connected()
            if self._app.settings.name is not None:
                await self._check_owner(connection)
            if not outside_slots and not connection.is_undeclared(call.task.name):
                await self._refuse_stored(connection, call.task.name)
            batch, receipts = await self._written_under_new_ids(connection, call, args, keys)
            if call.on is not None:
                await self._app.connector.follow(call.on, [receipt.id for receipt in receipts if receipt.created])
        if self._app.telemetry.wants("enqueue"):
            self._tell(batch, receipts)
        return receipts

    async def planned(self, call: Call[Any], row: Row, reserved: Reservation | None = None) -> Batch:
        """The one job for these arguments, as it would be written. Nothing is written yet."""
        slots_only.refuse_declared(call.task)
        args = _dumped(call.task, row, 1, self._app.settings.max_args_bytes)
        keys = [call.key_of(*row, args)] if call.has_key else None
        connection = await self._app.connected()
        await self._check_owner(connection)
        if reserved is not None:
            return self._batch(call, [reserved.id], [args], keys, reserved.since)
        ids = await self._patiently(connection, lambda _: connection.ids(1), NOTHING_WRITTEN)
        return self._batch(call, ids, [args], keys, connection.now())

    def prepared(self, call: Call[Any], row: Row) -> FollowUp:
        """A job for these arguments that is to follow from another one. Nothing is written yet."""
        if call.on is not None:
            raise InvalidJob("on", "expected none: a job that follows is written in the transaction that ends this one")
        slots_only.refuse_declared(call.task)
        args = _dumped(call.task, row, 1, self._app.settings.max_args_bytes)
        keys = [call.key_of(*row, args)] if call.has_key else None
        return FollowUp(self._batch(call, [], [args], keys, ORIGIN), call.at)

    async def write_all(
        self,
        wanted: Sequence[tuple[Call[Any], Row]],
        *,
        ids: Sequence[int] = (),
        since: datetime | None = None,
        in_doubt: bool = False,
    ) -> list[Receipt]:
        """Write the jobs of several calls, all or none. The caller has asked `refuse_bypass` about their tasks.

        A caller that has reserved `ids` for them, and remembers since when, may repeat this `in_doubt`: each job is
        written once.
        """
        connection = await self._app.connected()
        await self._check_owner(connection)
        for _ in range(MOST_RESERVATIONS):
            numbers = list(ids) or await connection.ids(len(wanted))
            now = connection.now() if since is None else since
            batches = self._batches(wanted, numbers, now)
            try:
                receipts = await self._written_together(connection, batches, in_doubt=in_doubt)
            except IdTaken as error:
                if ids and in_doubt:
                    raise
                if ids:
                    in_doubt = True  # the same may be asked elsewhere at the same time
                else:
                    _log.warning("%s: reserving others", error)
                    connection.forget_ids()
            else:
                self.tell(batches, receipts)
                return receipts
        raise IdTaken("the database hands out ids that are taken: has its sequence oncue_job_ids been set back?")

    def _batches(self, wanted: Sequence[tuple[Call[Any], Row]], numbers: Sequence[int], now: datetime) -> list[Batch]:
        """As few as possible, in the same order: neighbours that differ only in their arguments and keys are one."""
        jobs, limit = zip(wanted, numbers, strict=True), self._app.settings.max_args_bytes
        batches: list[Batch] = []
        for _, alike in groupby(jobs, lambda job: _terms(job[0][0])):
            calls, ids = zip(*alike, strict=True)
            args = [call.task.arguments.dump(*row, limit) for call, row in calls]
            first = calls[0][0]
            named = zip(calls, args, strict=True)
            keys = [call.key_of(*row, text) for (call, row), text in named] if first.has_key else None
            batches.append(self._batch(first, list(ids), args, keys, now))
        return batches

    async def _written_together(
        self, connection: Connection, batches: Sequence[Batch], *, in_doubt: bool
    ) -> list[Receipt]:
        return await self._patiently(
            connection,
            lambda again: connection.store.jobs.enqueue(batches, in_doubt=again or in_doubt),
            f"it is unknown whether jobs were written (id {batches[0].ids[0]} …)",
        )

    def tell(self, batches: Sequence[Batch], receipts: Sequence[Receipt]) -> None:
        left = iter(receipts)
        for batch in batches:
            told = list(islice(left, len(batch.ids)))
            self._tell(batch, told)

    def _tell(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        created = sum(receipt.created for receipt in receipts)
        self._app.telemetry.emit(
            "enqueue", {"jobs": created, "duplicates": len(receipts) - created},
            task=batch.task, queue=batch.queue, batch=batch, receipts=receipts,
        )  # fmt: skip

    # --- in a caller's transaction ------------------------------------------------------------------------------

    def write_here(self, call: Call[Any], rows: Sequence[Row]) -> list[Receipt]:
        """Write jobs on the caller's own connection, in its own thread, whether or not an event loop runs there."""
        if is_asynchronous(call.on):
            kind = type(call.on)
            raise InvalidJob(
                "on", f"{kind.__module__}.{kind.__qualname__} is asynchronous: use `await` and `aenqueue` with it"
            )
        return at_once(self.write(call, rows))

    async def subjects_on(self, on: object) -> SubjectTables:
        """The subjects of windows, on a caller's own connection. Raises InvalidJob if it leads elsewhere."""
        if not self._app.connector.works:
            return await self._app.connector.follow_subjects(on)
        home, identity = _home(self._app.settings.database_url, self._app.settings.schema), self._app.identity
        return await self._callers.subjects(
            on, home, lambda owner: refuse(owner, identity, home.dialect), named=identity.given
        )

    async def _written_by_caller(
        self, call: Call[Any], args: list[str], keys: list[Any] | None
    ) -> tuple[Batch, list[Receipt]]:
        def batch(ids: list[int], now: datetime) -> Batch:
            return self._batch(call, ids, args, keys, now)

        home = _home(self._app.settings.database_url, self._app.settings.schema)
        identity = self._app.identity

        def check(stored: Declaration | None, owner: Owner | None) -> None:
            slots_only.refuse_stored(call.task.name, stored)
            refuse(owner, identity, home.dialect)

        return await self._callers.write(call.on, home, len(args), batch, call.task.name, check, named=identity.given)

    # --- on a connection of our own -----------------------------------------------------------------------------

    async def _written_under_new_ids(
        self, connection: Connection, call: Call[Any], args: list[str], keys: list[Any] | None
    ) -> tuple[Batch, list[Receipt]]:
        """Write jobs. If the database hands ids out again that it had given away before a fail-over, take others."""
        for _ in range(MOST_RESERVATIONS):
            ids = connection.spare_ids(len(args))
            if ids is None:
                ids = await self._patiently(connection, lambda _: connection.ids(len(args)), NOTHING_WRITTEN)
            batch = self._batch(call, ids, args, keys, connection.now())
            try:
                return batch, await self._written(connection, batch)
            except IdTaken as error:
                _log.warning("%s: reserving others", error)
                connection.forget_ids()
        raise IdTaken("the database hands out ids that are taken: has its sequence oncue_job_ids been set back?")

    async def _written(self, connection: Connection, batch: Batch) -> list[Receipt]:
        """Write a batch. When the reply is lost nobody knows: ask again under the same ids, which writes it once."""
        try:
            return await connection.store.jobs.enqueue([batch])
        except (StoreUnavailable, RowLocked) as error:
            failed = error
        return await self._patiently(
            connection, lambda in_doubt: connection.store.jobs.enqueue([batch], in_doubt=in_doubt), batch, failed
        )

    async def _patiently(
        self,
        connection: Connection,
        ask: Callable[[bool], Awaitable[T]],
        otherwise: str | Batch,
        failed: StoreUnavailable | RowLocked | None = None,
    ) -> T:
        """Ask the database, again and again while it does not answer; `ask` is told whether an answer was lost.

        `otherwise` says what is known if no answer comes; of a batch it is that it may have been written. `failed` is
        what the caller was told when it asked first.
        """
        give_up = float("inf")
        in_doubt = False
        while True:
            if failed is not None:
                in_doubt |= isinstance(failed, StoreUnavailable)
                now = connection.clock.monotonic()
                if now > give_up or isinstance(failed, FileGone):
                    if not in_doubt:
                        raise failed
                    kind = type(failed) if isinstance(failed, StoreUnavailable) else StoreUnavailable
                    raise kind(f"{failed}; {_unknown(otherwise)}") from failed
                give_up = min(give_up, now + ENQUEUE_PATIENCE_SECONDS)
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            try:
                return await ask(in_doubt)
            except (StoreUnavailable, RowLocked) as error:
                failed = error

    # --- what jobs carry ----------------------------------------------------------------------------------------

    def _batch(self, call: Call[Any], ids: list[int], args: list[str], keys: list[Any] | None, now: datetime) -> Batch:
        options, max_runtime = call.carried or self._app.resolved(call.task)
        if call.at is not None and call.at - now > FURTHEST:
            raise InvalidJob("at", "expected an instant within the next hundred years")
        due = call.at or (now + timedelta(seconds=call.delay) if call.delay else now)
        visible_at = due if due > now else now
        return Batch(
            task=call.task.name,
            queue=call.queue,
            priority=call.priority,
            state=entry_state(visible_at, now),
            options=options,
            max_retries=call.max_retries,
            max_runtime=max_runtime,
            created_at=now,
            visible_at=visible_at,
            deadline_at=None if call.deadline is None else now + timedelta(seconds=call.deadline),
            enqueued_by=call.enqueued_by,
            retry_of=None,
            ids=ids,
            args=args,
            keys=keys,
            group=call.group,
            address=call.address,
        )


def _unknown(told: str | Batch) -> str:
    if isinstance(told, str):
        return told
    more = " …" if len(told.ids) > 1 else ""
    return f"it is unknown whether the {len(told.ids)} jobs of {told.task} were written (id {told.ids[0]}{more})"


def _terms(call: Call[Any]) -> tuple[Any, ...]:
    """What the jobs of one batch have in common."""
    place, timing = (call.queue, call.group, call.address), (call.delay, call.at, call.deadline)
    return (
        call.task.name,
        *place,
        *timing,
        call.priority,
        call.max_retries,
        call.enqueued_by,
        call.has_key,
        call.carried,
    )


def _dumped(task: Task[Any, Any], row: Row, number: int, limit: int) -> str:
    try:
        return task.arguments.dump(*row, limit)
    except InvalidJob as error:
        if number > 1:
            raise InvalidJob(error.field, f"{str(error).removeprefix(f'{error.field}: ')} (row {number})") from None
        raise


@lru_cache
def _home(database_url: str, schema: str | None) -> Home:
    made = store.connect(database_url, schema=schema)
    if isinstance(made, store.SqliteStore):
        return Home(made.dialect, made.path)
    return Home(made.dialect, schema=schema or DEFAULT_SCHEMA)
