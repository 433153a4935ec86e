"""The tables: users, what they and the agent say, digests, and when a chat began anew. They stand beside oncue's."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData()


class Instant(TypeDecorator[datetime]):
    """A moment in UTC. SQLite keeps no time zones, so that they are added when a row is read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


# SQLite numbers rows by itself only in a column that is exactly an INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", _Number, primary_key=True, autoincrement=True)


def _user() -> Column[int]:
    return Column("user_id", _Number, ForeignKey("users.id", ondelete="cascade"), nullable=False)


users = Table(
    "users",
    metadata,
    _id(),
    Column("name", String(200), nullable=False, unique=True),
    Column("at", String(5), nullable=False),
    Column("tz", String(100), nullable=False),
    Column("topics", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
)

# The chat context of a user are the messages that no cutoff has made the agent forget.
chat_messages = Table(
    "chat_messages",
    metadata,
    _id(),
    _user(),
    Column("role", String(10), nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("forgotten_on", Date),
    Index("chat_messages_of_user", "user_id", "forgotten_on", "id"),
)

# One digest for a user and a day, however many attempts there are.
digests = Table(
    "digests",
    metadata,
    _id(),
    _user(),
    Column("day", Date, nullable=False),
    Column("text", Text, nullable=False),
    Column("model", String(200), nullable=False),
    Column("delivered_at", Instant, nullable=False),
    UniqueConstraint("user_id", "day"),
)

chat_resets = Table(
    "chat_resets",
    metadata,
    _id(),
    _user(),
    Column("day", Date, nullable=False),
    Column("at", Instant, nullable=False),
    UniqueConstraint("user_id", "day"),
)
