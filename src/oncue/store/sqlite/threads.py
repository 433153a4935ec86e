"""How work reaches SQLite: one connection, one step at a time.

SQLite takes one writer. Rather than let threads and tasks compete for it, a process has a single writer thread: work
is queued, and everything that waits is done in one transaction (group commit), so that a hundred small writes cost one
fsync. Each piece of work runs in its own savepoint: one that fails takes nothing else down with it. Between the commit
and the answers `check` says whether the file that was written to is still the one at its path (`identity`).

Production uses a `ConnectionThread`. `InlineConnection` does the same in the caller's own thread, with no waiting at
all: the simulator uses it, so that a run depends on nothing but its seed.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias, TypeVar

from oncue.errors import StoreBusy, StoreError, StoreFull, StoreRefused, StoreUnavailable

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]
Ask: TypeAlias = tuple[Work[Any], bool, "Future[Any]"]
Check: TypeAlias = Callable[[sqlite3.Connection], None]

GROUP = 64


class Access(Protocol):
    async def write(self, work: Work[T]) -> T:
        """Do work in a transaction; it is durable when this returns."""
        ...

    async def read(self, work: Work[T]) -> T: ...

    async def close(self) -> None: ...


def translated(error: BaseException) -> BaseException:
    """The error of ours that says the same; its cause is the one of SQLite."""
    if not isinstance(error, sqlite3.Error):
        return error
    ours = _ours(error)
    ours.__cause__ = error
    return ours


def _ours(error: sqlite3.Error) -> StoreError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(
            "SQLite stayed locked: a write transaction is held open, by this caller (an enqueue can join it: "
            "`using(on=connection)`) or by another program"
        )
    if "full" in text:
        return StoreFull(f"SQLite has no room left: {text}")
    if isinstance(error, sqlite3.OperationalError) and ("unable to open" in text or "disk I/O" in text):
        return StoreUnavailable(f"SQLite cannot use its file: {text}")
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
        return StoreRefused(f"SQLite refused: {text}")
    return StoreError(f"SQLite refused: {text}")


class InlineConnection:
    """Work is done where it is asked for; threads (of code that a test exercises) take turns.

    It owns its connection, and closes it at the latest when it is gone itself: a database in memory is of no use then.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._turn = threading.Lock()
        self._end = weakref.finalize(self, connection.close)

    async def write(self, work: Work[T]) -> T:
        with self._turn:
            try:
                self._connection.execute("begin immediate")
                try:
                    result = work(self._connection)
                    self._connection.execute("commit")
                except BaseException:
                    _roll_back(self._connection)
                    raise
            except sqlite3.Error as error:
                raise translated(error) from error
            return result

    async def read(self, work: Work[T]) -> T:
        with self._turn:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                raise translated(error) from error

    async def close(self) -> None:
        self._end()


class ConnectionThread:
    """A thread that owns a connection. `connect` runs in that thread; for `rounds` see `_begin`."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], name: str, rounds: int = 1, check: Check = lambda _: None
    ) -> None:
        self._connect = connect
        self._rounds = rounds
        self._check = check
        self._asks: queue.SimpleQueue[Ask | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._opened: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._closed = False

    async def open(self) -> None:
        self._thread.start()
        try:
            await asyncio.shield(asyncio.wrap_future(self._opened))
        except asyncio.CancelledError:
            self._asks.put(None)  # no work will come: the thread ends as soon as it has begun
            raise

    async def write(self, work: Work[T]) -> T:
        return await self._ask(work, True)

    async def read(self, work: Work[T]) -> T:
        return await self._ask(work, False)

    async def _ask(self, work: Work[T], writes: bool) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        answer: Future[T] = Future()
        self._asks.put((work, writes, answer))
        # The work goes on whatever becomes of the one who asked, as it would on a server.
        return await asyncio.shield(asyncio.wrap_future(answer))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._asks.put(None)
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _run(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:
            self._opened.set_exception(translated(error))
            self._ended.set_result(None)
            return
        self._opened.set_result(None)
        try:
            while (group := self._next_group()) is not None:
                connection = self._served(connection, group)
        finally:
            self._end(connection)

    def _end(self, connection: sqlite3.Connection) -> None:
        self._closed = True
        self._refuse_the_rest()
        try:
            connection.close()
        finally:
            self._ended.set_result(None)

    def _served(self, connection: sqlite3.Connection, group: list[Ask]) -> sqlite3.Connection:
        """Answer a group; the connection to go on with."""
        reads, writes = ([ask for ask in group if ask[1] is writes] for writes in (False, True))
        if reads:
            _read_together(connection, reads, self._check)
        try:
            if writes:
                _commit_together(connection, writes, self._rounds, self._check)
        except sqlite3.Error:  # not even the rollback worked: nothing can be trusted to this connection any more
            connection.close()
            connection = self._connect()
        return connection

    def _refuse_the_rest(self) -> None:
        """Callers that still wait get an error, so that they do not wait for ever."""
        while not self._asks.empty():
            ask = self._asks.get()
            if ask is not None:
                ask[2].set_exception(StoreUnavailable("the store is closed"))

    def _next_group(self) -> list[Ask] | None:
        first = self._asks.get()
        if first is None:
            return None
        group = [first]
        while len(group) < GROUP:
            try:
                ask = self._asks.get_nowait()
            except queue.Empty:
                break
            if ask is None:
                self._asks.put(None)
                break
            group.append(ask)
        return group


def _read_together(connection: sqlite3.Connection, reads: list[Ask], check: Check) -> None:
    try:
        check(connection)
    except StoreError as error:
        for _, _, answer in reads:
            answer.set_exception(error)
        return
    for work, _, answer in reads:
        _answer(answer, work, connection)


def _answer(answer: Future[Any], work: Work[Any], connection: sqlite3.Connection) -> None:
    try:
        answer.set_result(work(connection))
    except BaseException as error:
        answer.set_exception(translated(error))


def _commit_together(connection: sqlite3.Connection, writes: list[Ask], rounds: int, check: Check) -> None:
    results: list[tuple[Future[Any], Any, BaseException | None]] = []
    try:
        _begin(connection, rounds)
        if len(writes) == 1:  # its savepoint would be the transaction
            results.append((writes[0][2], writes[0][0](connection), None))
        else:
            for work, _, answer in writes:
                results.append((answer, *_in_savepoint(connection, work)))
        connection.execute("commit")
        check(connection)
    except BaseException as error:
        for _, _, answer in writes:
            answer.set_exception(translated(error))
        _roll_back(connection)
        return
    for answer, result, error_of_one in results:
        if error_of_one is not None:
            answer.set_exception(translated(error_of_one))
        else:
            answer.set_result(result)


def _begin(connection: sqlite3.Connection, rounds: int) -> None:
    """Wait for the right to write: so many times as long as the connection's own time-out.

    SQLite's waiting slows down to ten looks a second, and a crowded file is never free at just those moments. That is
    cheap and kind to the others; a beat has no time for it, and waits many short rounds, each of which begins briskly.
    """
    for left in reversed(range(rounds)):
        try:
            connection.execute("begin immediate")
            return
        except sqlite3.OperationalError as error:
            if not left or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise


def _in_savepoint(connection: sqlite3.Connection, work: Work[Any]) -> tuple[Any, BaseException | None]:
    connection.execute("savepoint one")
    try:
        result = work(connection)
    except BaseException as error:
        if not connection.in_transaction:
            raise  # a full disk may have rolled everything back already
        connection.execute("rollback to one")
        connection.execute("release one")
        return None, error
    connection.execute("release one")
    return result, None


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")
