"""retention_cleanup: old news goes, what was published stays for ever, and no other table is touched."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from k2_daily_brief import briefs, retention
from k2_daily_brief.clustering import cluster
from k2_daily_brief.database import writing
from k2_daily_brief.retention import NotPurgeable, clean_up, purge
from k2_daily_brief.samples.news import stories
from k2_daily_brief.settings import Settings
from k2_daily_brief.tables import event_clusters, feeds, metadata, published_brief_items, published_briefs, raw_articles
from sqlalchemy import Engine, Table, true
from sqlalchemy.exc import IntegrityError

from tests.examples.newsroom import Draft, add, check, clusters, drafts, everything

THRESHOLD = Settings(feeds=()).similarity
KEEP = timedelta(days=30)
UTC_ZONE = ZoneInfo("UTC")
IMMUTABLE = ("published_briefs", "published_brief_items")


def with_news(engine: Engine, at: datetime) -> None:
    add(engine, drafts(stories(at)))
    cluster(engine, THRESHOLD)


@pytest.mark.contract("SLOT-15")
def test_old_news_goes_and_recent_news_stays(engine: Engine, now: datetime) -> None:
    with_news(engine, now - timedelta(days=40))
    old = clusters(engine)
    with_news(engine, now - timedelta(days=5))
    counts = clean_up(engine, now, KEEP)
    articles = len(stories(now - timedelta(days=40)))
    assert counts == {"cluster_articles": articles, "event_clusters": len(old), "raw_articles": articles}
    assert not clusters(engine) & old
    assert sum(len(urls) for urls in clusters(engine)) == len(stories(now - timedelta(days=5)))
    check(engine)


@pytest.mark.contract("SLOT-15")
def test_running_it_twice_changes_nothing(engine: Engine, now: datetime) -> None:
    with_news(engine, now - timedelta(days=40))
    with_news(engine, now - timedelta(days=5))
    clean_up(engine, now, KEEP)
    before = everything(engine)
    assert clean_up(engine, now, KEEP) == {"cluster_articles": 0, "event_clusters": 0, "raw_articles": 0}
    assert everything(engine) == before


@pytest.mark.contract("SLOT-15")
def test_what_was_published_stays_for_ever(engine: Engine, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    then = now - timedelta(days=400)
    monkeypatch.setattr(briefs, "MOST_PUBLISHED_EVENTS", 3)
    with_news(engine, then)
    briefs.publish_finished_days(engine, then + timedelta(days=1), UTC_ZONE)
    before = everything(engine)
    items = before["published_brief_items"]
    assert len({item.cluster_id for item in items}) == 3

    counts = clean_up(engine, now, KEEP)
    after = everything(engine)
    assert counts["event_clusters"] > 0
    assert {name: after[name] for name in IMMUTABLE} == {name: before[name] for name in IMMUTABLE}
    assert {item.cluster_id for item in items} == {row.id for row in after["event_clusters"]}
    assert {item.raw_article_id for item in items} <= {row.id for row in after["raw_articles"]}
    check(engine)
    assert clean_up(engine, now, KEEP) == {"cluster_articles": 0, "event_clusters": 0, "raw_articles": 0}


@pytest.mark.contract("SLOT-15")
def test_a_cluster_goes_as_a_whole_once_its_last_article_is_old(engine: Engine, now: datetime) -> None:
    edge = now - KEEP
    add(engine, [Draft("Harbour festival opens", edge - timedelta(hours=20))])
    add(engine, [Draft("Harbour festival opens again", edge + timedelta(hours=4))])
    cluster(engine, THRESHOLD)
    assert sum(clean_up(engine, now, KEEP).values()) == 0
    assert clean_up(engine, now + timedelta(hours=5), KEEP) == {
        "cluster_articles": 2,
        "event_clusters": 1,
        "raw_articles": 2,
    }


def test_articles_without_a_cluster_go_too(engine: Engine, now: datetime) -> None:
    add(engine, [Draft("Old", now - timedelta(days=31)), Draft("Recent", now - timedelta(days=29))])
    assert clean_up(engine, now, KEEP)["raw_articles"] == 1


@pytest.mark.contract("SLOT-15")
@pytest.mark.parametrize("table", [published_briefs, published_brief_items, feeds], ids=lambda table: table.name)
def test_a_table_that_is_not_on_the_list_is_refused(engine: Engine, table: Table, now: datetime) -> None:
    with_news(engine, now)
    briefs.publish_finished_days(engine, now + timedelta(days=1), UTC_ZONE)
    before = everything(engine)
    with writing(engine) as connection, pytest.raises(NotPurgeable, match=f"{table.name}: nothing is deleted"):
        purge(connection, table, true())
    assert everything(engine) == before


@pytest.mark.contract("SLOT-15")
def test_every_table_is_either_purgeable_or_known_to_stay() -> None:
    """A new table does not slip in unnoticed on either side."""
    assert {table.name for table in retention.PURGE_ALLOWED} == {"raw_articles", "event_clusters", "cluster_articles"}
    stays = {table.name for table in metadata.sorted_tables} - {table.name for table in retention.PURGE_ALLOWED}
    assert stays == {"feeds", *IMMUTABLE}


@pytest.mark.contract("SLOT-15")
def test_it_happens_altogether_or_not_at_all(engine: Engine, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    with_news(engine, now - timedelta(days=40))
    before = everything(engine)

    def fails(oldest: datetime) -> None:
        raise RuntimeError("the third table fails")

    monkeypatch.setattr(retention, "_is_loose", fails)
    with pytest.raises(RuntimeError, match="the third table fails"):
        clean_up(engine, now, KEEP)
    assert everything(engine) == before


@pytest.mark.contract("SLOT-15")
@pytest.mark.parametrize("table", [raw_articles, event_clusters], ids=lambda table: table.name)
def test_the_database_itself_keeps_what_is_referred_to(engine: Engine, table: Table, now: datetime) -> None:
    with_news(engine, now)
    briefs.publish_finished_days(engine, now + timedelta(days=1), UTC_ZONE)
    with pytest.raises(IntegrityError), writing(engine) as connection:
        purge(connection, table, true())


def test_it_says_how_many_rows_of_each_table(engine: Engine, now: datetime, caplog: pytest.LogCaptureFixture) -> None:
    add(engine, [Draft("Old", now - timedelta(days=31))])
    with caplog.at_level("INFO"):
        clean_up(engine, now, KEEP)
    assert "cleaned up cluster_articles=0 event_clusters=0 raw_articles=1" in caplog.text
