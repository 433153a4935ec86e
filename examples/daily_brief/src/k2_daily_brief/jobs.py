"""The three jobs. Each is a slot of its schedule, claimed at most once, and a thin wrapper around plain functions.

Each says what becomes of a run that takes too long (`max_runtime`: twice what it takes at most) and of a slot that
nobody was there for (`missed`: the latest one runs, if it is no older than `grace`).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from sqlalchemy import Engine

from k2_daily_brief import briefs, clustering, database, ingestion, retention, settings
from oncue import Oncue, cron, current_job

app = Oncue(name="k2-daily-brief")
_settings = settings.load()


@cache
def _engine() -> Engine:
    """The database that oncue's tables are in too, opened when the first job needs it."""
    engine = database.connect(app.settings.database_url)
    database.create_tables(engine)
    return engine


@app.task(
    schedule=cron(_settings.ingest_cron),
    delivery="at_most_once",
    max_runtime=_settings.max_runtime or "10m",
    max_instances=1,
    missed="latest",
    grace="5m",
)
async def rss_ingestion() -> None:
    """Fetch the feeds and keep what is new."""
    engine = await asyncio.to_thread(_engine)
    report = await ingestion.ingest(engine, _settings, datetime.now(UTC))
    current_job().rows(report.new)


@app.task(
    schedule=cron(_settings.cluster_cron),
    delivery="at_most_once",
    max_runtime=_settings.max_runtime or "10m",
    max_instances=1,
    missed="latest",
    grace="5m",
)
def event_clustering(slot: datetime) -> None:
    """Group new articles by event; publish the days that are over."""
    report = clustering.cluster(_engine(), _settings.similarity)
    current_job().rows(report.linked)
    briefs.publish_finished_days(_engine(), slot, ZoneInfo(_settings.timezone))


@app.task(
    schedule=cron(_settings.retention_cron, tz=_settings.timezone),
    delivery="at_most_once",
    max_runtime=_settings.max_runtime or "30m",
    max_instances=1,
    missed="latest",
    # Once a day: after an outage in the night it still runs in the morning.
    grace="12h",
)
def retention_cleanup(slot: datetime) -> None:
    """Delete what is old, but never what was published."""
    counts = retention.clean_up(_engine(), slot, timedelta(days=_settings.retention_days))
    current_job().rows(sum(counts.values()))
