"""The three jobs. Each is a slot of its schedule, claimed at most once, and a thin wrapper around plain functions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from sqlalchemy import Engine

from k2_daily_brief import briefs, clustering, database, ingestion, retention, settings
from oncue import Oncue, cron, current_job

MAX_RUNTIME = "10m"

app = Oncue(name="k2-daily-brief")
_settings = settings.load()


@cache
def _engine() -> Engine:
    """The database that oncue's tables are in too, opened when the first job needs it."""
    engine = database.connect(app.settings.database_url)
    database.create_tables(engine)
    return engine


@app.task(schedule=cron(_settings.ingest_cron), delivery="at_most_once", max_runtime=MAX_RUNTIME)
async def rss_ingest() -> None:
    """Fetch the feeds and keep what is new."""
    engine = await asyncio.to_thread(_engine)
    report = await ingestion.ingest(engine, _settings, datetime.now(UTC))
    current_job().rows(report.new)


@app.task(schedule=cron(_settings.cluster_cron), delivery="at_most_once", max_runtime=MAX_RUNTIME)
def event_clustering(slot: datetime) -> None:
    """Group new articles by event; publish the days that are over."""
    report = clustering.cluster(_engine(), _settings.similarity)
    current_job().rows(report.linked)
    briefs.publish_finished_days(_engine(), slot, ZoneInfo(_settings.timezone))


@app.task(
    schedule=cron(_settings.retention_cron, tz=_settings.timezone), delivery="at_most_once", max_runtime=MAX_RUNTIME
)
def retention_cleanup(slot: datetime) -> None:
    """Delete what is old, but never what was published."""
    counts = retention.clean_up(_engine(), slot, timedelta(days=_settings.retention_days))
    current_job().rows(sum(counts.values()))
