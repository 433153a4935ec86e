"""Digests: one for a user and a day, delivered into the user's chat."""

from __future__ import annotations

from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, select

from news_agent import chats, users
from news_agent.database import insert_new
from news_agent.tables import digests


class Digest(NamedTuple):
    text: str
    model: str
    delivered_at: datetime


class TooLate(Exception):
    """The day's cutoff has been reached: nothing is delivered any more."""


def of(connection: Connection, user_id: int, day: date) -> Digest | None:
    """The digest that was delivered to a user for a day."""
    mine = (digests.c.user_id == user_id) & (digests.c.day == day)
    row = connection.execute(select(digests).where(mine)).first()
    return None if row is None else Digest(row.text, row.model, row.delivered_at)


def deliver(connection: Connection, name: str, day: date, text: str, model: str, now: datetime) -> bool:
    """Deliver a digest: write it, and say it in the chat. False if this user has the digest of this day already.

    Raises TooLate once the chat was reset for this day, and UserNotFound.
    """
    user = users.by_name(connection, name, locked=True)
    if chats.reset_of(connection, user.id, day) is not None:
        raise TooLate(f"the day {day} of this user is over")
    row = {"user_id": user.id, "day": day, "text": text, "model": model, "delivered_at": now}
    is_new = insert_new(connection, digests, row)
    if is_new:
        chats.say(connection, user.id, "digest", text, now)
    return is_new
