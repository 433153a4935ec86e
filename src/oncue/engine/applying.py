"""Writes the changes of a pass. One that the database refuses does not keep the others from being written."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from oncue.errors import StoreRefused
from oncue.model import Change
from oncue.store.contract import Store

_log = logging.getLogger("oncue.applying")


async def apply_each(store: Store, changes: Sequence[Change], now: datetime) -> list[bool | None]:
    """Which of them took: all at once, or one by one if that is refused. None: it was refused, and would be again."""
    try:
        return [*await store.apply(changes, now)]
    except StoreRefused as error:
        _log.error("a batch of changes was refused, so they are written one by one: %s", error)
    return [await _applied(store, change, now) for change in changes]


async def _applied(store: Store, change: Change, now: datetime) -> bool | None:
    try:
        return (await store.apply([change], now))[0]
    except StoreRefused:
        _log.exception("job %d stays as it is, the database refuses to make it %s", change.id, change.state)
        return None
