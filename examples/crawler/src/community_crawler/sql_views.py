"""oncue's tables in the words of the origin, for people who know SQL: `crawl_jobs` and `scheduled_jobs`.

Nothing in the crawler reads them. A crawl that waits for a retry or for later is `queued`, and not visible yet;
`retries` is the older name of `retry_count`.
"""

from __future__ import annotations

from string import Template

CRAWL_JOBS = Template("""
select id, $subreddit_id as subreddit_id,
       case state when 'running' then 'crawling' when 'succeeded' then 'success'
                  when 'scheduled' then 'queued' when 'retrying' then 'queued' else state end as status,
       retry_count as retries, priority, $last_attempt as last_attempt, $duration_ms as duration_ms, enqueued_by,
       $created_at as created_at, $updated_at as updated_at, $visible_at as visible_at, retry_count, max_retries,
       case when state = 'retrying' then $visible_at end as next_retry_at
  from ${schema}oncue_jobs where task = 'crawl'
""")
SCHEDULED_JOBS = Template("""
select id, name, description, $subreddit_id as subreddit_id, expression as cron_expression, $enabled as enabled,
       $last_run_at as last_run_at, $next_run_at as next_run_at, priority, max_retries, $created_at as created_at,
       $updated_at as updated_at, created_by
  from ${schema}oncue_schedules where task = 'crawl' and deleted_at is null
""")
INSTANTS = ("created_at", "updated_at", "visible_at", "last_run_at", "next_run_at")


def of(dialect: str, schema: str | None) -> dict[str, str]:
    """The queries of the views by name, on oncue's tables in this schema."""
    words = _postgresql() if dialect == "postgresql" else _sqlite()
    words["schema"] = "" if schema is None else f'"{schema}".'
    return {"crawl_jobs": CRAWL_JOBS.substitute(words), "scheduled_jobs": SCHEDULED_JOBS.substitute(words)}


def _postgresql() -> dict[str, str]:
    return {
        **{name: name for name in INSTANTS},
        "last_attempt": "coalesce(started_at, claimed_at)",
        "duration_ms": "round(extract(epoch from finished_at - started_at) * 1000)::bigint",
        "subreddit_id": "(args ->> 'subreddit_id')::bigint",
        "enabled": "enabled",
    }


def _sqlite() -> dict[str, str]:
    """Instants are kept in microseconds there, and shown as texts in UTC."""
    return {
        **{name: _instant(name) for name in INSTANTS},
        "last_attempt": _instant("coalesce(started_at, claimed_at)"),
        "duration_ms": "(finished_at - started_at) / 1000",
        "subreddit_id": "args ->> 'subreddit_id'",
        "enabled": "enabled",
    }


def _instant(micros: str) -> str:
    seconds = f"strftime('%Y-%m-%d %H:%M:%S', {micros} / 1000000, 'unixepoch')"
    return f"{seconds} || printf('.%06d', {micros} % 1000000)"
