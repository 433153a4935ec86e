"""k2dailybrief-web: the page, its empty state, health, and the sample feeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from k2_daily_brief import briefs
from k2_daily_brief.clustering import cluster
from k2_daily_brief.samples.news import stories
from k2_daily_brief.settings import Settings
from sqlalchemy import Engine

from tests.examples.newsroom import Draft, add, drafts
from tests.examples.services import get

THRESHOLD = Settings(feeds=()).similarity


def test_before_the_first_run_the_page_says_what_to_do(site: str) -> None:
    answer = get(site)
    assert answer.status_code == 200
    assert "Nothing yet" in answer.text
    assert "oncue trigger rss_ingestion" in answer.text
    assert answer.text.count("It has not run yet.") == 3


def test_the_page_shows_events_biggest_first(site: str, engine: Engine) -> None:
    now = datetime.now(UTC)
    add(engine, drafts(stories(now)))
    cluster(engine, THRESHOLD)
    page = get(site).text
    assert page.count('<li class="event">') == len({story.event for story in stories(now)})
    assert all(f"http://x.example{story.path}" in page for story in stories(now))
    assert page.index("4 reports") < page.index("3 reports") < page.index("1 report ")


def test_what_feeds_say_is_text_and_never_markup(site: str, engine: Engine) -> None:
    add(engine, [Draft("<script>alert(1)</script>", datetime.now(UTC), "<img src=x onerror=alert(1)>")])
    cluster(engine, THRESHOLD)
    page = get(site).text
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>" not in page
    assert "<img" not in page


def test_a_published_brief_has_a_page(site: str, engine: Engine) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    add(engine, [Draft("Harbour festival opens", yesterday)])
    cluster(engine, THRESHOLD)
    (day,) = briefs.publish_finished_days(engine, yesterday + timedelta(days=1), ZoneInfo("UTC"))
    assert f"/briefs/{day}" in get(site).text
    assert "Harbour festival opens" in get(f"{site}/briefs/{day}").text
    assert get(f"{site}/briefs/1999-01-01").status_code == 404


def test_health_says_whether_the_database_answers(site: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = get(f"{site}/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")

    from k2_daily_brief import database
    from k2_daily_brief.web import app

    nowhere = database.connect("postgresql://nobody@127.0.0.1:1/nothing")
    monkeypatch.setattr(app.app.state, "engine", nowhere)
    answer = get(f"{site}/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
