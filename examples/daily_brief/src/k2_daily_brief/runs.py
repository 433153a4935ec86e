"""The last runs of the jobs, as oncue's view `job_runs` tells them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine, String, TableClause, column, inspect, select, table

from k2_daily_brief.database import reading
from k2_daily_brief.tables import Instant

JOBS = ("rss_ingestion", "event_clustering", "retention_cleanup")
RUNS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Run:
    job_name: str
    scheduled_for: datetime
    started_at: datetime | None
    finished_at: datetime | None
    status: str
    worker_instance: str | None
    error_message: str | None

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def last_line(self) -> str:
        """What went wrong, without the way that led there."""
        lines = (self.error_message or "").strip().splitlines()
        return lines[-1] if lines else ""


def last_runs(engine: Engine, schema: str | None = None) -> dict[str, list[Run]]:
    """For each job its last runs, newest first. No runs at all before the first worker has made the view.

    On PostgreSQL oncue's tables and views may be in a schema of their own (ONCUE_SCHEMA).
    """
    if not inspect(engine).has_table("job_runs", schema=schema):
        return {name: [] for name in JOBS}
    view = job_runs(schema)
    with reading(engine) as connection:
        return {name: _runs_of(connection, view, name) for name in JOBS}


def job_runs(schema: str | None = None) -> TableClause:
    """The view, in the schema that oncue's tables are in."""
    return table(
        "job_runs",
        column("id"),
        column("job_name", String),
        column("scheduled_for", Instant),
        column("started_at", Instant),
        column("finished_at", Instant),
        column("status", String),
        column("worker_instance", String),
        column("error_message", String),
        schema=schema,
    )


def _runs_of(connection: Connection, view: TableClause, name: str) -> list[Run]:
    columns = [view.c[field] for field in Run.__dataclass_fields__]
    query = select(*columns).where(view.c.job_name == name).order_by(view.c.scheduled_for.desc())
    return [Run(*row) for row in connection.execute(query.limit(RUNS_SHOWN))]
