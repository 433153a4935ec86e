"""The tables. Two kinds: what retention may purge, and what is published and stays for ever."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    DateTime,
    Dialect,
    Float,
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


def _to(target: str, name: str, **options: Any) -> Column[int]:
    return Column(name, _Number, ForeignKey(f"{target}.id"), nullable=False, **options)


feeds = Table(
    "feeds",
    metadata,
    _id(),
    Column("url", String(2048), nullable=False, unique=True),
    Column("title", Text),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("last_fetched_at", Instant),
)

raw_articles = Table(
    "raw_articles",
    metadata,
    _id(),
    _to("feeds", "feed_id", index=True),
    Column("url", String(2048), nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("published_at", Instant, nullable=False),
    Column("fetched_at", Instant, nullable=False),
    Index("raw_articles_by_time", "published_at", "id"),
)

event_clusters = Table(
    "event_clusters",
    metadata,
    _id(),
    _to("raw_articles", "founder_id", unique=True),
    Column("article_count", Integer, nullable=False),
    Column("first_article_at", Instant, nullable=False),
    Column("last_article_at", Instant, nullable=False, index=True),
)

cluster_articles = Table(
    "cluster_articles",
    metadata,
    _id(),
    _to("event_clusters", "cluster_id"),
    _to("raw_articles", "raw_article_id", unique=True),
    Column("similarity", Float, nullable=False),
    UniqueConstraint("cluster_id", "raw_article_id"),
)

published_briefs = Table(
    "published_briefs",
    metadata,
    _id(),
    Column("day", Date, nullable=False, unique=True),
    Column("published_at", Instant, nullable=False),
)

published_brief_items = Table(
    "published_brief_items",
    metadata,
    _id(),
    _to("published_briefs", "brief_id"),
    _to("event_clusters", "cluster_id", index=True),
    _to("raw_articles", "raw_article_id", index=True),
    Column("position", Integer, nullable=False),
    UniqueConstraint("brief_id", "raw_article_id"),
)
