"""Users: who they are, by when they want their digest, and about what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, select

from news_agent.database import dialect_of
from news_agent.tables import users
from oncue.errors import InvalidSubject
from oncue.policy import subjects

MOST_TOPICS, LONGEST_TOPIC = 20, 60
USUAL_TOPICS = ("the world", "science", "the weather")


class UserNotFound(LookupError):
    """There is no such user."""


class Wanted(NamedTuple):
    """What a user signs up for. Make it with `wanted`, which checks it."""

    name: str
    at: str
    """A time of day, such as 09:00."""
    tz: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    id: int
    name: str
    at: str
    tz: str
    topics: tuple[str, ...]
    created_at: datetime


def wanted(name: str, at: str, tz: str = "UTC", topics: Iterable[str] = ()) -> Wanted:
    """What a user asks for, checked. Raises InvalidSubject, which names the field."""
    try:
        checked_name = subjects.checked_name(name)
    except InvalidSubject as error:
        raise InvalidSubject("name", str(error).removeprefix(f"{error.field}: ")) from None
    due = subjects.shown_due(subjects.checked_due(at))
    return Wanted(checked_name, due, subjects.checked_zone(tz or "UTC") or "UTC", _checked_topics(topics))


def _checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    found = [topic.strip() if isinstance(topic, str) else topic for topic in topics]
    for topic in found:
        if not isinstance(topic, str) or not 0 < len(topic) <= LONGEST_TOPIC or not topic.isprintable():
            raise InvalidSubject(
                "topics", f"expected printable texts of 1 to {LONGEST_TOPIC} characters, not {topic!r:.80}"
            )
    if len(found) > MOST_TOPICS:
        raise InvalidSubject("topics", f"expected at most {MOST_TOPICS}, not {len(found)}")
    return tuple(dict.fromkeys(found)) or USUAL_TOPICS


# --- rows -----------------------------------------------------------------------------------------------------------


def put(connection: Connection, many: Sequence[Wanted], now: datetime) -> list[User]:
    """Write users, or give them these terms if they are there."""
    rows = [{**one._asdict(), "topics": json.dumps(one.topics), "created_at": now} for one in many]
    statement = dialect_of(connection).insert(users).values(rows)
    terms = {name: statement.excluded[name] for name in ("at", "tz", "topics")}
    written = connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=terms).returning(users))
    found = {row.name: _user(row) for row in written}
    return [found[one.name] for one in many]


def by_id(connection: Connection, number: int) -> User:
    """Raises UserNotFound."""
    return _found(connection.execute(select(users).where(users.c.id == number)).first(), number)


def by_name(connection: Connection, name: str, *, locked: bool = False) -> User:
    """Raises UserNotFound. `locked`: until the transaction ends no other changes this user's chat."""
    query = select(users).where(users.c.name == name)
    return _found(connection.execute(query.with_for_update() if locked else query).first(), name)


def page(connection: Connection, after: str, limit: int) -> list[User]:
    """Users by name; `after` is the name to go on from."""
    query = select(users).where(users.c.name > after).order_by(users.c.name).limit(limit)
    return [_user(row) for row in connection.execute(query)]


def remove(connection: Connection, name: str) -> bool:
    """Delete a user with all messages and digests; False if there is none."""
    return connection.execute(delete(users).where(users.c.name == name)).rowcount > 0


def _found(row: Row[Any] | None, who: int | str) -> User:
    if row is None:
        raise UserNotFound(f"there is no user {who!r}")
    return _user(row)


def _user(row: Row[Any]) -> User:
    return User(row.id, row.name, row.at, row.tz, tuple(json.loads(row.topics)), row.created_at)
