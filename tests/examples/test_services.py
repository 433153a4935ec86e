"""Both services as real processes: who runs what, and what is left when one of them is killed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from k2_daily_brief import database
from k2_daily_brief.clustering import cluster
from k2_daily_brief.samples.news import stories
from k2_daily_brief.settings import Settings

from tests.conftest import BACK_ENDS
from tests.examples.newsroom import add, check, drafts, everything
from tests.examples.services import EVERY_SECOND, FEEDS, NEVER, Services, get

JOBS = ("rss_ingestion", "event_clustering", "retention_cleanup")
EVERY_JOB_EVERY_SECOND = dict.fromkeys(("K2_INGEST_CRON", "K2_CLUSTER_CRON", "K2_RETENTION_CRON"), EVERY_SECOND)
ONLY_INGEST = {"K2_INGEST_CRON": EVERY_SECOND, "K2_CLUSTER_CRON": NEVER, "K2_RETENTION_CRON": NEVER}

Start = Callable[..., Services]


@pytest.fixture(params=BACK_ENDS)
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Makes the services of a test, on each back end."""
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres")
    made: list[Services] = []

    def make(**environment: str) -> Services:
        made.append(Services(url, tmp_path, **environment))
        return made[-1]

    yield make
    for services in made:
        services.close()


@pytest.mark.contract("SLOT-1")
@pytest.mark.parametrize("services", ["sqlite"], indirect=True)
def test_gunicorn_with_several_processes_starts_neither_scheduler_nor_job(services: Start) -> None:
    here = services(**EVERY_JOB_EVERY_SECOND)
    web = here.gunicorn(workers=2)
    assert web.said.count("Booting worker with pid") >= 2
    later = datetime.now(UTC) + timedelta(seconds=1)
    here.until(lambda: datetime.now(UTC) > later, "a slot of each job has passed")
    page = get(here.web_url)
    page.raise_for_status()
    assert page.text.count("It has not run yet.") == len(JOBS)
    assert here.nodes_jobs_and_schedules() == ([], [], [])
    assert web.stop() == 0, web.said
    assert here.nodes_jobs_and_schedules() == ([], [], [])


@pytest.mark.contract("SLOT-1", "SLOT-2", "SLOT-3")
@pytest.mark.parametrize("services", ["sqlite"], indirect=True)
def test_four_web_processes_and_a_worker_that_stands_by_and_still_one_run_per_slot(services: Start) -> None:
    here = services(**ONLY_INGEST)
    web = here.web(workers=4)
    later = datetime.now(UTC) + timedelta(seconds=1)
    here.until(lambda: datetime.now(UTC) > later, "a slot has passed")
    get(here.web_url).raise_for_status()
    assert here.nodes_jobs_and_schedules() == ([], [], [])

    first = here.worker("--name", "first")
    here.until(lambda: "first is the exclusive worker" in first.said, "the first one is active")
    spare = here.worker("--name", "spare")
    here.until(lambda: "spare stands by: first" in spare.said, "the second worker stands by and says for whom")
    before = len(here.started_runs())
    here.until(lambda: len(here.started_runs()) > before, "the first goes on")
    here.until_run("rss_ingestion", "success")
    assert {run.worker_instance for run in here.started_runs()} == {"first"}

    first.kill()
    here.until(lambda: "spare" in {run.worker_instance for run in succeeded(here)}, "the second has taken over")
    assert spare.stop() == 0, spare.said
    runs = here.started_runs("rss_ingestion")
    assert max(Counter(run.scheduled_for for run in runs).values()) == 1
    assert [run.worker_instance for run in runs] == sorted(run.worker_instance for run in runs)
    fetched = web.said.count("GET /samples/courier.xml")
    assert len(succeeded(here)) <= fetched <= len(runs), (
        "once in each run; the one that was killed may not have come so far"
    )
    page = get(here.web_url).text
    assert "success" in page
    assert "<td>spare</td>" in page


def succeeded(here: Services) -> list[Any]:
    return [run for run in here.runs() if run.status == "success"]


@pytest.mark.contract("SLOT-7", "SLOT-9", "SLOT-13", "SLOT-14", "SLOT-15")
def test_killed_in_the_middle_of_each_job_and_started_again(services: Start) -> None:
    here, began = services(**EVERY_JOB_EVERY_SECOND), datetime.now(UTC)
    here.web()
    database.create_tables(here.engine)
    killed = {}
    for job in JOBS:
        if job == "retention_cleanup":
            add(here.engine, drafts(stories(datetime.now(UTC) - timedelta(days=40))))
            cluster(here.engine, Settings(feeds=()).similarity)
        here.held_worker(job).kill()
        killed[job] = here.running(job)
        check(here.engine)
    worker = here.worker()
    for job in JOBS:
        here.until_run(job, "success", after=killed[job].scheduled_for)
        again = next(run for run in here.runs(job) if run.id == killed[job].id)
        assert (again.status, again.error_message) == ("failed", "worker_startup_recovery")
        assert again.finished_at is not None
    here.until(lambda: is_complete(here, began), "every article is in a cluster and the old ones are gone")
    assert worker.stop() == 0, worker.said
    check(here.engine)
    assert max(Counter((run.job_name, run.scheduled_for) for run in here.runs()).values()) == 1


def is_complete(here: Services, began: datetime) -> bool:
    """Each sample article is there once and in a cluster, and nothing else is, but for those of the day before."""
    rows = everything(here.engine)
    urls = [row.url for row in rows["raw_articles"]]
    today, before = told_on(here, datetime.now(UTC)), told_on(here, began)
    return (
        len(set(urls)) == len(urls) == len(rows["cluster_articles"])
        and today <= set(urls)
        and set(urls) <= today | before
    )


def told_on(here: Services, day: datetime) -> set[str]:
    return {f"{here.web_url}{story.path}" for story in stories(day) if story.outlet in FEEDS}


@pytest.mark.contract("SLOT-11", "SLOT-12")
def test_a_first_run_by_hand_fills_the_page(sqlite_url: str, tmp_path: Path) -> None:
    """What the README tells a newcomer to type, once with a slot and once without."""
    slot = (datetime.now(UTC) - timedelta(days=150)).replace(hour=0, minute=0)  # the next one is far away too
    rules = {"K2_INGEST_CRON": f"0 0 {slot:%-d %-m} *", "K2_CLUSTER_CRON": NEVER, "K2_RETENTION_CRON": NEVER}
    here = Services(sqlite_url, tmp_path, K2_FEEDS="", **rules)
    try:
        here.web()
        worker = here.worker()
        here.until(lambda: "is working on" in worker.said, "the worker is ready")
        at = ("--at", f"{slot:%Y-%m-%dT00:00Z}")
        add(here.engine, drafts(stories(datetime.now(UTC) - timedelta(days=40))))
        for job, *options in (("rss_ingestion", *at), ("event_clustering",)):
            triggered = here.oncue("trigger", job, *options)
            assert triggered.returncode == 0, triggered.stderr
            here.until_run(job, "success")
        here.run_now("retention_cleanup")
        here.until_run("retention_cleanup", "success")
        page = get(here.web_url).text
        assert "4 reports" in page
        assert page.count("k2dailybrief-worker") == 3
        for job in JOBS:
            ends = re.compile(rf"job \d+ succeeded task={job} .* duration=[\d.]+s rows=(\d+)\n")
            line = here.until(partial(lambda ends: ends.search(worker.said), ends), f"the worker logs the end of {job}")
            assert line is not None
            assert int(line[1]) > 0, line[0]

        refused = here.oncue("trigger", "rss_ingestion", *at)
        assert refused.returncode == 1
        assert "was decided" in refused.stderr
    finally:
        here.close()
