"""What a service is, and how it is woken before its time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncue.store.contract import Store


class Signal:
    """A wake-up that is kept until it is taken: it may come before anyone waits for it."""

    def __init__(self) -> None:
        self._raised = False
        self._listener: Callable[[], None] | None = None

    def set(self) -> None:
        self._raised = True
        if self._listener is not None:
            self._listener()

    def take(self) -> bool:
        raised, self._raised = self._raised, False
        return raised

    def listen(self, listener: Callable[[], None] | None) -> None:
        self._listener = listener


class Service(Protocol):
    name: str
    signal: Signal

    async def tick(self, now: datetime) -> datetime:
        """Take one bounded step; the instant at which the next one is due, unless the signal comes first."""
        ...


class QuietService(Service, Protocol):
    """A service that can say when it next has something to do. Under virtual time its polls may be left out."""

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        """When this service will next have something to do, if no other service does anything: `now` if it has already,
        None if it never will.

        It changes nothing. The database is asked through `store`: the service's own may take its time. To renew a lease
        of its own is nothing to do here: the simulator keeps the leases of live nodes.
        """
        ...


async def can_wait(self: Service, now: datetime, store: Store) -> datetime | None:
    """The `quiet_until` of a service that only counts or tidies up, or runs but once: nothing waits for it."""
    return None


def foretells(service: Service) -> bool:
    """Whether this service may end a quiet time. One that cannot say does so whenever it is due."""
    return getattr(getattr(service, "quiet_until", None), "__func__", None) is not can_wait
