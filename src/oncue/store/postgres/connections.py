"""A small pool of asyncpg connections.

asyncpg's own pool resets a connection with a round trip whenever it comes back. Nothing here leaves session state
behind (no temporary tables, no settings, no advisory locks), so that trip would only double the cost of a claim.
A connection that saw a failure of any kind below SQL is closed and replaced.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import asyncpg

from oncue.errors import RowLocked, StoreError, StoreFull, StoreRefused, StoreUnavailable, StoreUnusable
from oncue.store.addresses import hidden

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

LOCK_SECONDS = 2.0
"""How long a statement waits for a lock. It keeps the rest of a batch waiting, so it is short; but longer than it takes
PostgreSQL to find out that two sessions wait for each other (1 s)."""
IDLE_SECONDS = 15.0
"""How long a transaction may do nothing. There is none but a migration's; and a process may stand still there."""

GONE_SECONDS = 1.0
"""How often PostgreSQL checks that its client is still there: a statement that a client gave up does not run on."""
CHECK_GONE = "client_connection_check_interval"

_log = logging.getLogger("oncue.store")
_live: WeakSet[Connection] = WeakSet()

_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.QueryCanceledError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DeadlockDetectedError,
    OSError,
    TimeoutError,
)


_LOST_STATEMENTS = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
POOLER_ADVICE = "set ONCUE_PG_PREPARE=false and ONCUE_PG_LISTEN=false"

# Data exceptions, violated constraints and exceeded limits: the same values would be refused again. Anything else
# (a lost privilege, no memory) may pass.
_ABOUT_THE_VALUES = ("22", "23", "54")


def translated(error: BaseException) -> StoreError | None:
    """The error of ours that says the same, or None if it is not the database's doing."""
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull(f"PostgreSQL has no room left: {error}")
    if isinstance(error, asyncpg.LockNotAvailableError):
        return RowLocked(f"another session holds a lock on what this would change, so nothing was written: {error}")
    if isinstance(error, _LOST_STATEMENTS):
        return StoreError(f"PostgreSQL lost a prepared statement, as a transaction pooler makes it do: {POOLER_ADVICE}")
    if isinstance(error, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
        return StoreError(f"the oncue tables are missing ({error}): run `oncue migrate`")
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        return StoreRefused(f"PostgreSQL was not asked: {error}")  # a value that does not fit its column
    if isinstance(error, _AWAY):
        return StoreUnavailable(f"PostgreSQL does not answer: {_reason(error)}")
    if isinstance(error, asyncpg.PostgresError):
        kind = StoreRefused if (error.sqlstate or "")[:2] in _ABOUT_THE_VALUES else StoreError
        return kind(f"PostgreSQL refused: {error}")
    return None


def undone_by_deadlock(error: StoreError) -> bool:
    """Whether two statements waited for each other, and this one was undone: asked again, it finds its way."""
    return isinstance(error.__cause__, asyncpg.DeadlockDetectedError)


def _reason(error: BaseException) -> str:
    """What an error says; some say nothing but what they are, and one only what it means to the driver."""
    if isinstance(error, asyncpg.InternalClientError):
        return "the connection was cut in the middle of an operation"
    said = str(error) or ("it took too long" if isinstance(error, TimeoutError) else "")
    return f"{said} ({type(error).__name__})" if said else type(error).__name__


def _limits(timeout: float) -> dict[str, str]:
    """The limits of a session of ours. A caller that waits for `timeout` hears of a lock before that.

    No statement is compiled: that takes 25 ms and more, each time, and ours read little, whatever the planner thinks.
    Nor does one read a table from end to end where an index would do, or gather and sort what an index has in order:
    PostgreSQL keeps a plan until the table is analysed, and one from when there was next to nothing would read all
    that came since.
    """
    lock = min(LOCK_SECONDS, timeout / 2)
    return {
        "jit": "off",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "lock_timeout": f"{round(lock * 1000)}ms",
        "idle_in_transaction_session_timeout": f"{round(IDLE_SECONDS * 1000)}ms",
        CHECK_GONE: f"{round(GONE_SECONDS * 1000)}ms",
    }


def open_sockets() -> list[int]:
    """The descriptors of all connections of this process that are open."""
    transports = [connection._transport for connection in _live if not connection.is_closed()]  # type: ignore[attr-defined]
    return [transport.get_extra_info("socket").fileno() for transport in transports if not transport.is_closing()]


class Loan:
    """A connection that is lent for the length of an `async with`. A class, since it is on everyone's hot path."""

    __slots__ = ("_borrower", "_cancelled_before", "_connection", "_lender", "_seconds", "until")

    def __init__(self, lender: Connections, seconds: float) -> None:
        self._lender = lender
        self._seconds = seconds
        self._cancelled_before: int | None = None

    async def __aenter__(self) -> Connection:
        lender = self._lender
        await lender.seats.acquire()
        self._connection = lender.rested() or await lender.replaced()
        self._borrower = asyncio.current_task()
        self.until = self._lender.watch.began(self, self._seconds)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lender.watch.ended(self)
        if self._cancelled_before is not None and self._borrower is not None:
            is_ours = self._borrower.uncancel() <= self._cancelled_before
            if is_ours and kind is asyncio.CancelledError:
                error = TimeoutError()
        ours = self._lender.give_back(self._connection, error)
        if ours is not None:
            raise ours from error

    def end(self) -> None:
        """The answer is waited for no longer: the driver asks PostgreSQL to cancel the statement."""
        if self._borrower is not None:
            self._cancelled_before = self._borrower.cancelling()
            self._borrower.cancel()


class Watch:
    """Ends loans that have lasted too long. A timer for all of them: one for each statement takes a twentieth of the
    time of a short one."""

    def __init__(self) -> None:
        self.loans: set[Loan] = set()
        self._timer: asyncio.TimerHandle | None = None

    def began(self, loan: Loan, seconds: float) -> float:
        """A loan began; when it is to end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        self.loans.add(loan)
        if self._timer is None or until < self._timer.when():
            self._ring_at(until, loop)
        return until

    def ended(self, loan: Loan) -> None:
        self.loans.discard(loan)

    def _ring_at(self, until: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(until, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for loan in [loan for loan in self.loans if loan.until <= now]:
            self.loans.discard(loan)
            loan.end()
        if self.loans:
            self._ring_at(min(loan.until for loan in self.loans), loop)


class Connections:
    def __init__(self, dsn: str, size: int, *, prepare: bool, timeout: float) -> None:
        self._dsn = dsn
        self._prepare = prepare
        # Who prepares no statements is behind a pooler, which refuses settings: there they belong to the role.
        self._limits = _limits(timeout) if prepare else {}
        self.pooled = False
        """Whether a pooler stands in between, and statements are prepared all the same."""
        self.timeout = timeout
        """How long a statement may take."""
        self.watch = Watch()
        self._idle: list[Connection] = []
        self.seats = asyncio.Semaphore(size)
        self._closed = False

    async def connect(self) -> Connection:
        """A connection outside the pool, for listening."""
        try:
            connection = await self._connected()
            _live.add(connection)
            return connection
        except asyncpg.InvalidCatalogNameError as error:
            raise StoreUnusable(f"PostgreSQL has no such database: {error}") from error
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            raise StoreUnusable(f"PostgreSQL refused the login: {error}") from error
        except BaseException as error:
            if (ours := translated(error)) is not None:
                raise type(ours)(f"{ours} ({hidden(self._dsn)})") from error
            raise

    async def _connected(self) -> Connection:
        options: dict[str, Any] = {} if self._prepare else {"statement_cache_size": 0}
        try:
            return await asyncpg.connect(
                self._dsn,
                timeout=self.timeout,
                # A duration of a day is 24 hours, also where clocks change: it is added to instants in the database.
                server_settings={"timezone": "UTC", **self._name(), **self._limits},
                **options,
            )
        except asyncpg.ProtocolViolationError as error:
            if not self._limits or "startup parameter" not in str(error):
                raise
            _log.warning(
                "a pooler refuses lock_timeout at connect: set it on the role (`oncue doctor` says how); "
                "if it pools transactions, %s",
                POOLER_ADVICE,
            )
            self._limits, self.pooled = {}, True
        except (asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError) as error:
            # PostgreSQL 13 and older do not know it, and on some systems it is refused.
            if CHECK_GONE not in self._limits or CHECK_GONE not in str(error):
                raise
            self._limits = {name: value for name, value in self._limits.items() if name != CHECK_GONE}
        return await self._connected()

    def _name(self) -> dict[str, str]:
        """How operators tell these sessions from others in pg_stat_activity, unless the address says how."""
        return {} if "application_name=" in self._dsn else {"application_name": "oncue"}

    def use(self, seconds: float | None = None) -> Loan:
        """Lend a connection for a statement or two, for so long: `async with connections.use() as connection`."""
        return Loan(self, self.timeout if seconds is None else seconds)

    async def replaced(self) -> Connection:
        """A new connection for a seat that was taken."""
        try:
            return await self.connect()
        except BaseException:
            self.seats.release()
            raise

    def give_back(self, connection: Connection, error: BaseException | None) -> StoreError | None:
        """Keep a connection unless something went wrong below SQL; the error of ours that says what went wrong."""
        self.seats.release()
        ours = None if error is None else translated(error)
        if (
            (error is not None and (ours is None or isinstance(ours, StoreUnavailable)))
            or self._closed
            or connection.is_closed()
        ):
            connection.terminate()
        else:
            self._idle.append(connection)
        return ours

    def rested(self) -> Connection | None:
        """An idle connection that the server has not cut meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        try:
            for connection in idle:
                with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await connection.close(timeout=2)
        finally:  # also when the caller is cut off
            for connection in idle:
                connection.terminate()
