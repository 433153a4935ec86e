"""Articles put into the tables directly, and what must hold for the tables at any moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

from k2_daily_brief.database import insert_new, reading, writing
from k2_daily_brief.samples.news import Story
from k2_daily_brief.tables import cluster_articles, event_clusters, feeds, metadata, raw_articles
from sqlalchemy import Engine, func, select

_numbers = count(1)


class Draft(NamedTuple):
    title: str
    published_at: datetime
    summary: str = ""
    url: str = ""


def drafts(stories: Iterable[Story]) -> list[Draft]:
    return [Draft(story.title, story.published_at, story.summary, f"http://x.example{story.path}") for story in stories]


def add(engine: Engine, articles: Iterable[Draft]) -> list[int]:
    """Insert articles; their ids."""
    with writing(engine) as connection:
        insert_new(connection, feeds, {"url": "http://x.example/feed"})
        feed_id = connection.execute(select(feeds.c.id)).scalars().first()
        ids = [
            insert_new(
                connection,
                raw_articles,
                {
                    "feed_id": feed_id,
                    "url": article.url or f"http://x.example/{next(_numbers)}",
                    "title": article.title,
                    "summary": article.summary,
                    "published_at": article.published_at,
                    "fetched_at": article.published_at,
                },
            )
            for article in articles
        ]
    assert None not in ids
    return [number for number in ids if number is not None]


def clusters(engine: Engine) -> set[frozenset[str]]:
    """Which articles are together, by their addresses."""
    found = defaultdict(set)
    with reading(engine) as connection:
        links = cluster_articles.join(raw_articles)
        for row in connection.execute(select(cluster_articles.c.cluster_id, raw_articles.c.url).select_from(links)):
            found[row.cluster_id].add(row.url)
    return {frozenset(urls) for urls in found.values()}


def everything(engine: Engine) -> Mapping[str, list[Any]]:
    """All rows of all tables."""
    with reading(engine) as connection:
        return {
            table.name: list(connection.execute(select(table).order_by(table.c.id))) for table in metadata.sorted_tables
        }


def check(engine: Engine) -> None:
    """Every count is the number of links, every span that of the articles, and no cluster is empty."""
    links = func.count(cluster_articles.c.id)
    first, last = func.min(raw_articles.c.published_at), func.max(raw_articles.c.published_at)
    joined = event_clusters.outerjoin(cluster_articles).outerjoin(
        raw_articles, raw_articles.c.id == cluster_articles.c.raw_article_id
    )
    query = (
        select(event_clusters, links.label("links"), first.label("first"), last.label("last"))
        .select_from(joined)
        .group_by(event_clusters.c.id)
    )
    with reading(engine) as connection:
        for row in connection.execute(query):
            assert row.article_count == row.links > 0
            assert (row.first_article_at, row.last_article_at) == (row.first, row.last)
