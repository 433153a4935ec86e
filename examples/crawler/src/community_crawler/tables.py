"""The tables: sites with their rules and requests under way, communities, and the links between them."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Column,
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

sites = Table(
    "sites",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("origin", String(300), nullable=False, unique=True),
    Column("robots", Text),
    Column("robots_at", Instant),
    Column("next_at", Instant),
    Column("not_before", Instant),
)

# Requests that are under way. Each is bounded in time, so that one whose worker was killed is over by itself.
visits = Table(
    "visits",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("site_id", _Number, ForeignKey("sites.id"), nullable=False),
    Column("until", Instant, nullable=False),
    Index("visits_of_site", "site_id", "until"),
)

communities = Table(
    "communities",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("site_id", _Number, ForeignKey("sites.id"), nullable=False),
    Column("name", String(100), nullable=False),
    Column("status", String(20), nullable=False, index=True),
    Column("title", Text, nullable=False, default=""),
    Column("description", Text, nullable=False, default=""),
    Column("subscribers", BigInteger),
    Column("etag", Text),
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("discovered_at", Instant, nullable=False),
    Column("checked_at", Instant),
    Column("refreshed_at", Instant),
    UniqueConstraint("site_id", "name"),
)

links = Table(
    "links",
    metadata,
    Column("source_id", _Number, ForeignKey("communities.id"), primary_key=True),
    Column("target_id", _Number, ForeignKey("communities.id"), primary_key=True, index=True),
)
