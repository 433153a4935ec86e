"""The crawler as real processes: a whole site, on each store, with a worker killed in the middle; and the first run."""

from __future__ import annotations

import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from community_crawler import together
from community_crawler.site import serve as site
from community_crawler.site.graph import communities as generated
from community_crawler.web import serve as web

from oncue import Job
from tests.examples.crawler.crew import Crew, url_answers
from tests.examples.crawler.test_jobs import STATES, STATUSES
from tests.examples.services import get

SIZE = 160
AT_ONCE = 4
IN_HAND = 8 + 8  # on the seats of a worker, and done there but not yet settled
QUICK = {"CRAWLER_RETRY_DELAY": "0.2", "CRAWLER_TIMEOUT": "1.5", "CRAWLER_AT_ONCE": str(AT_ONCE)}

RECORD = (
    "id", "target", "status", "priority", "last_attempt", "duration_ms", "enqueued_by", "created_at", "updated_at",
    "visible_at", "retry_count", "max_retries", "next_retry_at",
)  # fmt: skip
"""QUE-23."""

Start = Callable[..., Crew]


@pytest.fixture
def crew(crawler_url: str, tmp_path: Path) -> Iterator[Start]:
    """Puts a crew together, which goes home when the test ends."""
    crews: list[Crew] = []

    def start(**environment: str) -> Crew:
        crews.append(Crew(crawler_url, tmp_path, **environment))
        return crews[-1]

    yield start
    for one in crews:
        one.close()


@pytest.mark.contract("QUE-3", "QUE-4", "QUE-9")
def test_a_site_is_crawled_to_its_end_although_a_worker_is_killed(crew: Start) -> None:
    here = crew(**QUICK)
    here.site(SIZE, crawl_delay=0.005, slow=0.5, patience=1, failures=1)
    first, second = here.worker("first"), here.worker("second")
    here.until_ready()
    here.ask_for()
    here.until(lambda: len(here.stats()["served"]) > SIZE // 4, "a quarter of the site is crawled")
    first.kill()
    here.until(here.is_done, "everything is crawled")
    assert second.stop() == 0, second.said

    there = generated(SIZE)
    assert here.statuses() == {name: STATUSES[one.behaviour] for name, one in there.items()}
    crawls = here.jobs()
    ends = Counter(job.state for job in crawls)
    assert ends == Counter(STATES[one.behaviour] for one in there.values()), "one job for each community"
    assert len({job.key for job in crawls}) == SIZE

    seen = here.stats()
    good = {name for name, one in there.items() if STATES[one.behaviour] == "succeeded" and one.behaviour != "moved"}
    assert good <= set(seen["served"])
    twice = sum(seen["served"].values()) - len(seen["served"])
    assert twice <= IN_HAND, "only what the killed worker had in hand was fetched again"
    assert 1 < seen["most_at_once"] <= AT_ONCE
    assert (seen["too_early"], seen["forbidden"]) == (0, 0)


@pytest.mark.contract("QUE-10", "QUE-11", "QUE-12", "QUE-13", "QUE-14", "QUE-15", "QUE-16", "QUE-17", "QUE-23")
def test_a_first_run_and_the_calls_of_the_origin(sqlite_url: str, tmp_path: Path) -> None:
    """What the README tells a newcomer to type, and then what the origin's operators type, word for word."""
    here = Crew(sqlite_url, tmp_path, CRAWLER_RETRY_DELAY="0.2", ONCUE_POLL_INTERVAL="0.5s")
    try:
        all_of_it = here.together("--size", "40")
        here.until(lambda: "the page is at" in all_of_it.said, "everything has started")
        here.until(here.is_done, "everything is crawled")
        assert ">harbour</a>" in get(here.web_url).text
        assert sum(get(f"{here.web_url}/progress").json()[status] for status in set(STATUSES.values())) == 40
        here.post("/queues/crawl/pause")
        operate_on_jobs(here)
        schedule_crawls(here)
        all_of_it.process.send_signal(signal.SIGTERM)
        assert all_of_it.process.wait(60) == 0, all_of_it.said
        assert not any(url_answers(url) for url in (here.site_url, here.web_url))
    finally:
        here.close()


@pytest.mark.parametrize("command", [together.main, web.main, site.main])
def test_a_taken_port_is_told_in_one_line_before_anything_else(
    command: Callable[[list[str]], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRAWLER_SITE", "http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            command(["--port", str(port)])
    assert str(ended.value).endswith(f": cannot listen on 127.0.0.1:{port}: Address already in use")
    assert capsys.readouterr() == ("", "")


def operate_on_jobs(here: Crew) -> None:
    stats = here.get("/jobs/stats")
    assert (stats["queued"], stats["running"], stats["failed"]) == (0, 0, 1)
    done = here.get("/jobs?status=success&limit=100&offset=0")["jobs"]
    assert stats["completed"] == stats["success"] == len(done)
    assert {job["status"] for job in done} == {"success"}
    (failed,) = here.get("/jobs?status=failed&limit=100&offset=0")["jobs"]
    assert failed["subreddit_id"] == here.number(dead_one())
    assert set(RECORD) <= set(failed)
    assert (failed["target"], failed["retry_count"], failed["max_retries"]) == ("crawl", 3, 3)

    done = [job["id"] for job in here.get("/jobs?status=success&limit=100&offset=0")["jobs"]]
    one, two, three, *_ = done
    path = f"/jobs/{failed['id']}"
    assert here.post(f"{path}/retry")["retry_count"] == 0
    assert here.put(f"{path}/priority", {"priority": 50})["priority"] == 50
    assert here.post(f"{path}/boost", {"boost": 20})["priority"] == 70
    assert here.put(f"/jobs/{one}/status", {"status": "queued"})["status"] == "queued"
    told = here.put("/jobs/bulk/status", {"job_ids": [two, 10**9], "status": "queued"})
    assert (told["changed"], len(told["results"])) == (1, 2)
    assert here.post("/jobs/bulk/retry", {"job_ids": [two, three]})["changed"] == 1
    queued = here.get("/jobs?status=queued&limit=100&offset=0")["jobs"]
    assert {job["id"] for job in queued} == {failed["id"], one, two, three}
    assert here.get("/jobs?status=crawling&limit=100&offset=0")["jobs"] == []
    status, problem = here.curl("-X", "PUT", here.admin(f"/jobs/{one}/status"), "-d", '{"status": "crawling"}')
    assert (status, problem["status"]) == (409, 409)
    assert here.curl(here.admin("/jobs?status=lost"))[0] == 422
    assert here.curl("-X", "POST", here.admin("/jobs/999999999/retry"))[0] == 404


def schedule_crawls(here: Crew) -> None:
    number = here.number()
    daily = {
        "name": "daily-askreddit", "description": "Daily crawl of AskReddit", "subreddit_id": number,
        "cron_expression": "@daily", "enabled": True, "priority": 10,
    }  # fmt: skip
    made = here.post("/scheduled-jobs", daily, 201)
    assert {name: made[name] for name in daily} == daily
    path = f"/scheduled-jobs/{made['id']}"
    assert here.get(path) == made
    assert made["id"] in [one["id"] for one in here.get("/scheduled-jobs")["scheduled_jobs"]]
    assert here.post(f"{path}/toggle", {"enabled": False})["enabled"] is False
    often = {
        "name": "daily-askreddit", "description": "All the time", "cron_expression": "@every 1s", "enabled": True,
        "priority": 30,
    }  # fmt: skip
    changed = here.put(path, often)
    assert {name: changed[name] for name in often} == often
    here.post("/queues/crawl/resume")

    def by_schedule() -> list[Job]:
        return [job for job in here.jobs() if job.enqueued_by == "schedule" and job.state == "succeeded"]

    asked = here.until(by_schedule, "the schedule has had it crawled")
    assert {(job.args["subreddit_id"], job.priority) for job in asked} == {(number, 30)}
    status, _ = here.curl("-X", "DELETE", here.admin(path))
    assert status == 200
    assert here.curl(here.admin(path))[0] == 404


def dead_one() -> str:
    return next(name for name, one in generated(40).items() if one.behaviour == "dead")
