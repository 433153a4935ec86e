"""Writes the changes of a pass. A change that cannot be written does not stop the others: the database refuses it,
or another session holds its row."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from oncue.errors import StoreRefused
from oncue.model import Change
from oncue.store.contract import Store

MOST_LISTED = 10

_log = logging.getLogger("oncue.applying")


async def apply_each(store: Store, changes: Sequence[Change], now: datetime) -> list[bool | None]:
    """Which of them took: all at once, or one by one if that is refused.

    None: it was refused, and would be again, or its row is locked. It is as it was, and so a later pass finds it.
    """
    try:
        took = await store.apply(changes, now)
    except StoreRefused as error:
        _log.error("a batch of changes was refused, so they are written one by one: %s", error)
        return [await _applied(store, change, now) for change in changes]
    locked = [change.id for change, written in zip(changes, took, strict=True) if written is None]
    if locked:
        _log.warning("another session holds a lock on %s: left for a later pass", listed(locked))
    return took


def listed(jobs: Sequence[int]) -> str:
    """These jobs in words, if there are not too many."""
    numbers = ", ".join(map(str, jobs[:MOST_LISTED])) + (", …" if len(jobs) > MOST_LISTED else "")
    return f"job {numbers}" if len(jobs) == 1 else f"{len(jobs)} jobs ({numbers})"


async def _applied(store: Store, change: Change, now: datetime) -> bool | None:
    try:
        return (await store.apply([change], now))[0]
    except StoreRefused:
        _log.exception("job %d stays as it is, the database refuses to make it %s", change.id, change.state)
        return None
