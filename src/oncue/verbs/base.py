"""What the verbs of every noun share: the application that they ask, and the compare-and-set loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oncue.application.connecting import Connected
from oncue.errors import Conflict, StoreUnavailable
from oncue.model import LONGEST_LISTING
from oncue.policy.aging import Rules
from oncue.task import Task
from oncue.telemetry import Telemetry

if TYPE_CHECKING:
    from oncue.application.webhooks import DeclaredWebhook
    from oncue.settings import Settings
    from oncue.verbs.subjects import SubjectTables

T = TypeVar("T")

LARGEST_ID = 2**63 - 1
MOST_TRIES = 20
ASK_AGAIN_SECONDS = 0.2


class VerbsApplication(Protocol):
    """What the verbs ask of the application that they belong to."""

    tasks: dict[str, Task[Any, Any]]
    webhooks: dict[str, DeclaredWebhook]
    telemetry: Telemetry

    @property
    def builtin(self) -> Mapping[str, Task[Any, Any]]: ...

    @property
    def scheduled(self) -> list[str]:
        """The names of the schedules that the code declares."""
        ...

    @property
    def settings(self) -> Settings: ...

    @property
    def name(self) -> str: ...

    @property
    def aging(self) -> Rules: ...

    async def connected(self) -> Connected: ...

    def find(self, name: str) -> Task[Any, Any]: ...

    def carried(self, task: Task[Any, Any]) -> dict[str, Any]:
        """What a task's own options say of every job that a schedule makes for it."""
        ...

    async def check_owner(self) -> None:
        """Raise WrongApplication if the tables belong to an application of another name."""
        ...

    async def subjects_on(self, on: object) -> SubjectTables:
        """The subjects of windows, as the transaction of this connection sees and writes them."""
        ...

    async def pause_before_retry(self, seconds: float) -> None:
        """Wait before the database is asked again."""
        ...


class NounVerbs:
    """The verbs of one noun. In plain code: `app.wait(app.jobs.cancel(7))`."""

    def __init__(self, app: VerbsApplication) -> None:
        self._app = app

    async def _connected(self) -> Connected:
        return await self._app.connected()


async def compare_and_set(
    what: str,
    attempt: Callable[[], Awaitable[T | None]],
    *,
    in_doubt: Callable[[float], Awaitable[None]] | None = None,
) -> T:
    """Read something and change it, again and again while another change comes in between: the answer is None then.

    An attempt that can tell whether an earlier one was written is repeated `in_doubt` too, while the database does not
    answer: that is how to wait for it.
    """
    for left in reversed(range(MOST_TRIES)):
        try:
            answer = await attempt()
        except StoreUnavailable:
            if in_doubt is None or not left:
                raise
            await in_doubt(ASK_AGAIN_SECONDS)
        else:
            if answer is not None:
                return answer
            await asyncio.sleep(0)
    raise Conflict(f"{what} is being changed by others at this moment: try again")


def checked_limit(limit: int, field: str = "limit") -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LISTING:
        raise ValueError(f"{field}: expected a whole number from 1 to {LONGEST_LISTING:,}, not {limit!r}")
    return limit


def checked_before(before: int | None, what: str) -> int | None:
    if before is not None and not is_possible(before):
        raise ValueError(f"before: expected the id of {what}, not {before!r}")
    return before


def is_possible(number: int) -> bool:
    """Whether a database could have a row of this number at all: neither of them takes a larger one."""
    return 0 < number <= LARGEST_ID
