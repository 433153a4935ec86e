"""Writes the changes of a pass. A change that cannot be written does not stop the others: the database refuses it,
or another session holds its row."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TypeAlias

from oncue.errors import StoreRefused
from oncue.model import Applied, Change
from oncue.store.contract import Store

MOST_LISTED = 10

Fallback: TypeAlias = Callable[[int, StoreRefused], Change | None]
"""What to write instead of the change with this number, which the database has refused; None: nothing."""

_log = logging.getLogger("oncue.applying")


async def apply_each(
    store: Store, changes: Sequence[Change], now: datetime, *, known: Collection[int] = ()
) -> list[Applied]:
    """Which of them took: all at once, or one by one if that is refused.

    None: it was refused, and would be again, or its row is locked. It is as it was, and so a later pass finds it.
    `known`: the jobs that an earlier pass has left. Their locks are not waited for again, and the log has them already.
    """
    past_locks = any(change.id in known for change in changes)
    took, refused = await apply_past_refusals(store, list(changes), now, past_locks=past_locks)
    for number, error in refused.items():
        change = changes[number]
        level = logging.DEBUG if change.id in known else logging.ERROR
        _log.log(level, "job %d stays as it is: the database refuses to make it %s: %s", change.id, change.state, error)
    locked = [
        change.id
        for number, (change, written) in enumerate(zip(changes, took, strict=True))
        if written is None and number not in refused and change.id not in known
    ]
    if locked:
        _log.warning("another session holds a lock on %s: left for a later pass", listed(locked))
    return took


def listed(jobs: Sequence[int]) -> str:
    """These jobs in words, if there are not too many."""
    numbers = ", ".join(map(str, jobs[:MOST_LISTED])) + (", …" if len(jobs) > MOST_LISTED else "")
    return f"job {numbers}" if len(jobs) == 1 else f"{len(jobs)} jobs ({numbers})"


async def apply_past_refusals(
    store: Store,
    changes: list[Change],
    now: datetime,
    fallback: Fallback = lambda number, error: None,
    *,
    past_locks: bool = False,
    latest: Callable[[], datetime] | None = None,
) -> tuple[list[Applied], dict[int, StoreRefused]]:
    """Which of the changes took; and the numbers of those that the database refuses, with what it says.

    If it refuses the batch, each change is written by itself, or else its `fallback`, which then stands in `changes`.
    `latest` is the upper bound of the database's time; it is read whenever something is sent.
    """

    async def apply(few: list[Change], past_locks: bool = False) -> list[Applied]:
        return await store.jobs.apply(few, now, past_locks=past_locks, latest=None if latest is None else latest())

    try:
        return await apply(changes, past_locks), {}
    except StoreRefused as error:
        _log.error("the database refused to write %d changes at once, so they are written one by one: %s",
                   len(changes), error)  # fmt: skip
    took: list[Applied] = []
    refused: dict[int, StoreRefused] = {}
    for number in range(len(changes)):
        try:
            took.append(await _applied(apply, changes, number, fallback))
        except StoreRefused as error:
            took.append(None)
            refused[number] = error
    return took, refused


async def _applied(
    apply: Callable[[list[Change]], Awaitable[list[Applied]]], changes: list[Change], number: int, fallback: Fallback
) -> Applied:
    try:
        return (await apply([changes[number]]))[0]
    except StoreRefused as error:
        instead = fallback(number, error)
        if instead is None:
            raise
    changes[number] = instead
    return (await apply([instead]))[0]
