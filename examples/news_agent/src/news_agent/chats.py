"""Chats: what a user and the agent have said, and how a missed cutoff makes the agent forget it."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, insert, select, update

from news_agent import users
from news_agent.database import insert_new
from news_agent.model import Said
from news_agent.tables import chat_messages, chat_resets

MOST_REMEMBERED = 50
LONGEST_MESSAGE = 4000


class Message(NamedTuple):
    role: str
    text: str
    at: datetime


def say(connection: Connection, user_id: int, role: str, text: str, now: datetime) -> None:
    connection.execute(insert(chat_messages).values(user_id=user_id, role=role, text=text, at=now))


def context(connection: Connection, user_id: int) -> list[Message]:
    """What the agent remembers: the latest messages that no cutoff has made it forget, oldest first."""
    return _latest(connection, user_id, None)


def forgotten(connection: Connection, user_id: int, day: date) -> list[Message]:
    """What the agent remembered until the cutoff of this day."""
    return _latest(connection, user_id, day)


def said(messages: list[Message]) -> tuple[Said, ...]:
    """The same as a model reads it."""
    return tuple(Said(message.role, message.text) for message in messages)


def reset(connection: Connection, name: str, day: date, decided_at: datetime) -> int:
    """Forget what was said until the day was decided, once for a user and a day; how many messages.

    Called again for the same day, it does nothing: what was said since stays.
    """
    try:
        user = users.by_name(connection, name, locked=True)
    except users.UserNotFound:  # removed since: there is nothing left to forget
        return 0
    if not insert_new(connection, chat_resets, {"user_id": user.id, "day": day, "at": decided_at}):
        return 0
    mine = (chat_messages.c.user_id == user.id) & chat_messages.c.forgotten_on.is_(None)
    before = update(chat_messages).where(mine & (chat_messages.c.at <= decided_at))
    return connection.execute(before.values(forgotten_on=day)).rowcount


def reset_of(connection: Connection, user_id: int, day: date) -> datetime | None:
    """When the chat began anew because this day's cutoff was reached."""
    mine = (chat_resets.c.user_id == user_id) & (chat_resets.c.day == day)
    found: datetime | None = connection.execute(select(chat_resets.c.at).where(mine)).scalar()
    return found


def _latest(connection: Connection, user_id: int, forgotten_on: date | None) -> list[Message]:
    when = chat_messages.c.forgotten_on
    mine = (chat_messages.c.user_id == user_id) & (when.is_(None) if forgotten_on is None else when == forgotten_on)
    newest_first = select(chat_messages).where(mine).order_by(chat_messages.c.id.desc()).limit(MOST_REMEMBERED)
    return [_message(row) for row in connection.execute(newest_first)][::-1]


def _message(row: Row[Any]) -> Message:
    return Message(row.role, row.text, row.at)
