"""The brief: biggest events first; a day that is over is published once and never changes."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from k2_daily_brief import briefs
from k2_daily_brief.clustering import cluster
from k2_daily_brief.database import reading
from k2_daily_brief.samples.news import stories
from k2_daily_brief.settings import Settings
from sqlalchemy import Engine

from tests.examples.newsroom import Draft, add, drafts, everything

THRESHOLD = Settings(feeds=()).similarity
BERLIN = ZoneInfo("Europe/Berlin")


def with_news(engine: Engine, at: datetime) -> None:
    add(engine, drafts(stories(at)))
    cluster(engine, THRESHOLD)


def test_the_events_of_the_last_day_come_biggest_first(engine: Engine, now: datetime) -> None:
    with_news(engine, now - timedelta(days=2))
    with_news(engine, now)
    with reading(engine) as connection:
        events = briefs.current(connection, now)
    sizes = [len(event.entries) for event in events]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == len(stories(now))
    assert all(entry.published_at > now - timedelta(days=1) for event in events for entry in event.entries)
    assert [entry.published_at for entry in events[0].entries] == sorted(
        entry.published_at for entry in events[0].entries
    )


def test_a_finished_day_is_published_once_and_stays(engine: Engine, now: datetime) -> None:
    with_news(engine, now)
    tomorrow = now + timedelta(days=1)
    assert briefs.publish_finished_days(engine, now, BERLIN) == []
    assert briefs.publish_finished_days(engine, tomorrow, BERLIN) == [date(2026, 11, 15)]
    before = everything(engine)
    add(engine, [Draft("A late report of the ferry at Skarholm", now - timedelta(hours=1))])
    cluster(engine, THRESHOLD)
    assert briefs.publish_finished_days(engine, tomorrow, BERLIN) == []
    after = everything(engine)
    assert after["published_brief_items"] == before["published_brief_items"]
    with reading(engine) as connection:
        published = briefs.published(connection, date(2026, 11, 15))
        assert briefs.published_days(connection) == [date(2026, 11, 15)]
        assert briefs.published(connection, date(2026, 11, 14)) is None
    assert published is not None
    assert sum(len(event.entries) for event in published) == len(stories(now))


def test_a_day_ends_at_midnight_where_the_readers_are(engine: Engine, now: datetime) -> None:
    midnight = datetime(2026, 11, 14, 23, tzinfo=now.tzinfo)
    add(engine, [Draft("Before midnight in Berlin", midnight - timedelta(seconds=1)), Draft("Afterwards", midnight)])
    cluster(engine, THRESHOLD)
    assert briefs.publish_finished_days(engine, midnight, BERLIN) == [date(2026, 11, 14)]
    with reading(engine) as connection:
        events = briefs.published(connection, date(2026, 11, 14))
    assert events is not None
    assert [event.title for event in events] == ["Before midnight in Berlin"]


def test_a_worker_that_was_away_publishes_what_it_missed(engine: Engine, now: datetime) -> None:
    for day in range(4):
        with_news(engine, now - timedelta(days=day))
    assert briefs.publish_finished_days(engine, now, BERLIN) == [date(2026, 11, 12 + day) for day in range(3)]
