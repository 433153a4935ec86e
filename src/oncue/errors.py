"""What a user of oncue may raise or see."""

from __future__ import annotations

from datetime import datetime, timedelta


class OncueError(Exception):
    """The root of everything that oncue raises on purpose."""


class ConfigError(OncueError):
    """A setting is missing or malformed. `exit_code` is what the shell commands end with."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class WrongApplication(ConfigError):
    """The tables belong to another application. One application has one set of tables."""


class InvalidJob(OncueError, ValueError):
    """An enqueue was refused before anything was written: `field` names what is wrong.

    `argument` is the one that is missing or that the task does not have, where `field` is all of them.
    """

    def __init__(self, field: str, message: str, argument: str | None = None) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.argument = argument


class InvalidSchedule(OncueError, ValueError):
    """A schedule was refused: `field` names what is wrong, `position` is the column in its text, counted from 1."""

    def __init__(self, field: str, message: str, position: int | None = None) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.position = position


class InvalidWebhook(OncueError, ValueError):
    """A webhook was refused: `field` names what is wrong. The message never repeats a secret or a header's value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class InvalidSubject(OncueError, ValueError):
    """What is wanted of a window's subject makes no sense: a field and what it expects.

    `row` is the number of the row, of many, that this is about.
    """

    def __init__(self, field: str, message: str, row: int | None = None) -> None:
        super().__init__(f"{field}: {message}" if row is None else f"{field}: {message} (row {row})")
        self.field = field
        self.message = message
        self.row = row


class UnusableSecret(ConfigError):
    """A webhook refers to a variable of the environment that is missing, or whose value cannot be used."""

    def __init__(self, variable: str, message: str) -> None:
        super().__init__(f"{variable}: {message}")
        self.variable = variable


class WebhookVerificationError(OncueError):
    """A request is not a genuine, fresh delivery: refuse it. The message says why."""


class UnknownTask(OncueError, LookupError):
    """No task of this name is declared in the application."""


class JobNotFound(OncueError, LookupError):
    """There is no such job: it never existed, or it was pruned."""


class Conflict(OncueError):
    """The job's state does not allow this, or another job is in the way."""

    def __init__(self, message: str, job_id: int | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class NotLeader(OncueError):
    """Only the leader creates cluster jobs, and this process is a node that does not lead.

    `leader` is the name of the node that does, if any does, and `address` that of its API, if it is known.
    """

    def __init__(self, leader: str | None, address: str | None) -> None:
        where = "" if address is None else f" ({address})"
        who = "no node leads at this moment" if leader is None else f"{leader}{where} leads"
        super().__init__(f"only the leader creates cluster jobs, and this node does not lead: {who}")
        self.leader = leader
        self.address = address


class ScheduleNotFound(OncueError, LookupError):
    """There is no such schedule."""


class WebhookNotFound(OncueError, LookupError):
    """There is no such webhook."""


class SubjectNotFound(OncueError, LookupError):
    """There is no such window, or it has no such subject."""


class TokenNotFound(OncueError, LookupError):
    """There is no such API token."""


class SessionNotFound(OncueError, LookupError):
    """There is no such session of a browser."""


class SlotTaken(Conflict):
    """This slot was decided already: a slot is decided once, for ever."""


class StoreError(OncueError):
    """The database refused or could not be asked."""


class StoreUnavailable(StoreError):
    """The database cannot be reached. What was asked may or may not have happened: the answer is unknown."""


class StoreUnusable(StoreUnavailable):
    """The database cannot be used, and waiting does not help: it refused the login, or there is none of that name."""


class FileGone(StoreUnavailable):
    """The SQLite file that this process has open is no longer the one at its path: a write to it would be lost."""


class Unreachable(StoreUnavailable):
    """The server of a `Client` does not answer at all. A change may or may not have happened: the message tells."""


class StoreBusy(StoreError):
    """SQLite stayed locked: the caller itself, or a foreign process, holds a write transaction open."""


class RowLocked(StoreError):
    """Another session holds a lock on a row that this would change. Nothing was written, and that is certain."""


class StoreFull(StoreError):
    """The database has no room left. Nothing of the refused write is there."""


OUTAGES = (StoreUnavailable, StoreFull)
"""While one of these lasts, no service of a process gets anything done: it is one outage, not an error of each."""


class StoreRefused(StoreError):
    """The database did not take a value: asking again would not help."""


class IdTaken(StoreRefused):
    """A reserved id belongs to a job of somebody else: after a fail-over the database may hand ids out again."""


class NameClash(StoreError):
    """The database has something of its own under a name that oncue would use."""


class SchemaMismatch(StoreError):
    """The database's tables are older or newer than this version of oncue: run `oncue migrate`."""


class ApiError(OncueError):
    """The server of a `Client` refused something, for a reason that has no exception of its own."""

    def __init__(self, status: int, title: str, detail: str = "") -> None:
        super().__init__(f"{status} {title}" + (f": {detail}" if detail else ""))
        self.status = status
        self.title = title
        self.detail = detail


class NotAllowed(ApiError):
    """The server asks for a token, does not know this one, or wants one with the scope `needed_scope`."""

    def __init__(self, status: int, title: str, detail: str = "", *, needed_scope: str | None = None) -> None:
        super().__init__(status, title, detail)
        self.needed_scope = needed_scope


class LifespanFailed(OncueError):
    """Something that a worker needs for its jobs (`@app.lifespan`) could not be opened."""


class HandlerDecision(Exception):
    """Raised by a handler to decide what becomes of its job."""


class Retry(HandlerDecision):
    """Try again, after a delay of the handler's choosing or its policy's. Uses up a retry.

    `after` is a duration, an instant with a time zone, or what a `Retry-After` header has: seconds, or an HTTP date.
    With `at_least` the job waits for the longer of that and its policy's delay.
    """

    def __init__(
        self, reason: str = "", *, after: str | float | timedelta | datetime | None = None, at_least: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after
        self.at_least = at_least


class Fail(HandlerDecision):
    """It cannot succeed: end the job as failed, whatever retries are left."""

    def __init__(self, reason: str = "failed for good") -> None:
        super().__init__(reason)
        self.reason = reason


class Snooze(HandlerDecision):
    """Not yet: come back later. Costs no retry."""

    def __init__(self, after: str | float | timedelta, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


class Postpone(Snooze):
    """Not even begun: come back later, as if this attempt had never started. For the tasks that oncue brings."""


class Skip(HandlerDecision):
    """There is nothing to do: end the job as skipped."""

    def __init__(self, reason: str = "skipped") -> None:
        super().__init__(reason)
        self.reason = reason


class Cancel(HandlerDecision):
    """Give up for good: end the job as cancelled, whatever retries are left."""

    def __init__(self, reason: str = "cancelled") -> None:
        super().__init__(reason)
        self.reason = reason
