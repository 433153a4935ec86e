"""rss_ingestion: nothing twice, nothing lost, and one feed's trouble is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from k2_daily_brief import ingestion
from k2_daily_brief.articles import Article, Feed
from k2_daily_brief.database import reading, writing
from k2_daily_brief.fetching import Known
from k2_daily_brief.ingestion import AllFeedsFailed, Answer, IngestReport, ingest
from k2_daily_brief.settings import SAMPLE_FEEDS, Settings
from k2_daily_brief.tables import feeds, raw_articles
from sqlalchemy import Engine, func, select, update
from sqlalchemy.exc import IntegrityError

from tests.examples.feed_server import FeedServer, rss

ONE = ("http://news.example/1", "One")
TWO = ("http://news.example/2", "Two")


def articles(engine: Engine) -> list[Any]:
    with reading(engine) as connection:
        return list(connection.execute(select(raw_articles).order_by(raw_articles.c.id)))


def feed(engine: Engine, url: str) -> Any:
    with reading(engine) as connection:
        return connection.execute(select(feeds).where(feeds.c.url == url)).one()


@pytest.mark.contract("SLOT-13")
async def test_running_it_twice_changes_nothing(engine: Engine, site: str, settings: Settings, now: datetime) -> None:
    settings = replace(settings, feeds=tuple(f"{site}/samples/{name}.xml" for name in SAMPLE_FEEDS))
    moment = datetime.now(now.tzinfo)
    first = await ingest(engine, settings, moment)
    before = articles(engine)
    assert first.new == len(before) >= 15
    assert (first.feeds, first.failed, first.duplicates) == (6, 2, 0)

    again = await ingest(engine, settings, moment + timedelta(seconds=1))
    assert articles(engine) == before
    assert (again.new, again.unchanged, again.failed) == (0, 4, 2)

    with writing(engine) as connection:
        connection.execute(update(feeds).values(etag=None, last_modified=None))
    in_full = await ingest(engine, settings, moment + timedelta(seconds=2))
    assert articles(engine) == before
    assert (in_full.new, in_full.duplicates, in_full.unchanged) == (0, len(before), 0)


@pytest.mark.contract("SLOT-13")
async def test_the_same_article_in_two_feeds_is_kept_once(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    urls = (
        feed_server.feed("a", rss(ONE, TWO)),
        feed_server.feed("b", rss((f"{ONE[0]}?utm_source=b#x", "One, elsewhere"))),
    )
    report = await ingest(engine, replace(settings, feeds=urls), now)
    assert (report.fetched, report.new, report.duplicates) == (3, 2, 1)
    assert sorted(row.url for row in articles(engine)) == [ONE[0], TWO[0]]


@pytest.mark.contract("SLOT-13")
async def test_two_runs_at_once_keep_each_article_once(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    items = [(f"http://news.example/{number}", f"Article {number}") for number in range(50)]
    settings = replace(settings, feeds=(feed_server.feed("a", rss(*items)), feed_server.feed("b", rss(*items))))
    reports = await asyncio.gather(*(ingest(engine, settings, now) for _ in range(3)))
    assert sum(report.new for report in reports) == len(articles(engine)) == 50
    assert sum(report.duplicates for report in reports) == 250


@pytest.mark.contract("SLOT-13")
async def test_a_server_is_shown_what_it_told_us(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    url = feed_server.feed("a", rss(ONE), etag='"v1"')
    settings = replace(settings, feeds=(url,))
    await ingest(engine, settings, now)
    report = await ingest(engine, settings, now)
    assert [request.headers.get("If-None-Match") for request in feed_server.requests] == [None, '"v1"']
    assert (report.unchanged, report.fetched) == (1, 0)
    assert (feed(engine, url).last_status, feed(engine, url).etag) == (304, '"v1"')

    feed_server.feed("a", rss(ONE, TWO), etag='"v2"')
    report = await ingest(engine, settings, now)
    assert (report.new, report.duplicates) == (1, 1)
    assert feed(engine, url).etag == '"v2"'


@pytest.mark.contract("SLOT-13")
async def test_last_modified_is_shown_too(engine: Engine, site: str, settings: Settings, now: datetime) -> None:
    url = f"{site}/samples/courier.xml"
    settings = replace(settings, feeds=(url,))
    await ingest(engine, settings, now)
    with writing(engine) as connection:
        connection.execute(update(feeds).values(etag=None))
    assert feed(engine, url).last_modified is not None
    assert (await ingest(engine, settings, now)).unchanged == 1


TROUBLE = {
    "broken": (200, "not a feed"),
    "html": (200, "not a feed"),
    "huge": (200, "larger than 100000 bytes"),
    "slow": (None, "no complete answer within 4 s"),
    "missing": (404, "the server answered 404"),
    "crashed": (500, "the server answered 500"),
    "circle": (None, "more than 5 redirects"),
    "nobody": (None, "ClientConnectorError"),
    "elsewhere": (None, "NonHttpUrlRedirectClientError"),
}


def troubled(server: FeedServer, name: str) -> str:
    """The address of a feed that makes this trouble."""
    whole = rss(ONE)
    made: dict[str, Callable[[], str]] = {
        "broken": lambda: server.feed(name, whole[:90]),
        "html": lambda: server.feed(name, b"<html><body>Please sign in</body></html>"),
        "huge": lambda: server.feed(name, whole + b" " * 200_000),
        "slow": lambda: server.slow(name, whole, 30),
        "missing": lambda: server.feed(name, b"", status=404),
        "crashed": lambda: server.feed(name, whole, status=500),
        "circle": lambda: server.redirect(name, f"/{name}"),
        "nobody": lambda: "http://127.0.0.1:1/feed.xml",
        "elsewhere": lambda: server.redirect(name, "file:///etc/hostname"),
    }
    return made[name]()


@pytest.mark.contract("SLOT-13")
async def test_each_feeds_trouble_is_recorded_and_stops_no_other(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    urls = {name: troubled(feed_server, name) for name in TROUBLE}
    good = feed_server.feed("good", rss(TWO))
    settings = replace(settings, feeds=(*urls.values(), good), feed_timeout=4.0, feed_max_bytes=100_000)
    report = await ingest(engine, settings, now)
    assert (report.feeds, report.failed, report.new) == (10, 9, 1)
    assert [row.url for row in articles(engine)] == [TWO[0]]
    assert feed(engine, good).last_error is None
    for name, (status, error) in TROUBLE.items():
        row = feed(engine, urls[name])
        assert row.last_status == status, name
        assert error in row.last_error, name


async def test_a_feed_that_recovers_is_read_again(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    url = feed_server.feed("a", b"oops", status=500)
    settings = replace(settings, feeds=(url, feed_server.feed("b", rss(ONE))))
    await ingest(engine, settings, now)
    feed_server.feed("a", rss(TWO, title="Recovered"))
    assert (await ingest(engine, settings, now)).new == 1
    row = feed(engine, url)
    assert (row.last_status, row.last_error, row.title) == (200, None, "Recovered")


@pytest.mark.contract("SLOT-13")
async def test_if_every_feed_fails_so_does_the_job(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    urls = (feed_server.feed("a", b"", status=404), feed_server.feed("b", b"no feed"))
    with pytest.raises(AllFeedsFailed, match="none of the 2 feeds"):
        await ingest(engine, replace(settings, feeds=urls), now)
    assert feed(engine, urls[0]).last_error == "the server answered 404"


@pytest.mark.contract("SLOT-13")
async def test_an_etag_is_kept_only_together_with_its_articles(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    url = feed_server.feed("a", rss(ONE), etag='"v1"')
    (source,) = ingestion.register(engine, [url])
    impossible = Article(TWO[0], None, "", now)  # type: ignore[arg-type]
    answer = Answer(source, 200, None, Known('"v1"', None), Feed("A", (Article(*ONE, "", now), impossible)))
    with pytest.raises(IntegrityError):
        ingestion.keep(engine, answer, now, now)
    assert articles(engine) == []
    assert feed(engine, url).etag is None


async def test_articles_that_retention_would_delete_are_not_taken(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    old, fresh = rss(ONE, at=now - timedelta(days=31)), rss(TWO, at=now - timedelta(days=29))
    settings = replace(settings, feeds=(feed_server.feed("a", old), feed_server.feed("b", fresh)), retention_days=30)
    report = await ingest(engine, settings, now)
    assert (report.new, report.too_old, report.duplicates) == (1, 1, 0)


async def test_only_so_many_feeds_are_asked_at_once(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    urls = tuple(feed_server.slow(f"feed{number}", rss(ONE), 0.02) for number in range(12))
    await ingest(engine, replace(settings, feeds=urls, feeds_at_once=3), now)
    assert feed_server.most_at_once == 3


async def test_a_feed_that_is_no_longer_listed_is_not_asked(
    engine: Engine, feed_server: FeedServer, settings: Settings, now: datetime
) -> None:
    urls = (feed_server.feed("a", rss(ONE)), feed_server.feed("b", rss(TWO)))
    await ingest(engine, replace(settings, feeds=urls), now)
    report = await ingest(engine, replace(settings, feeds=urls[:1]), now)
    assert report.feeds == 1
    with reading(engine) as connection:
        assert connection.execute(select(func.count()).select_from(feeds)).scalar() == 2


def test_reports_add_up() -> None:
    assert IngestReport(1, 0, 1, 4, 3, 1, 0) + IngestReport(1, 1) == IngestReport(2, 1, 1, 4, 3, 1, 0)
