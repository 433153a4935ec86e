"""The settings of the example: what is set, what is not, and what makes no sense."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from k2_daily_brief.settings import SettingsError, load

from oncue import Oncue


def test_without_any_the_feeds_are_the_samples() -> None:
    assert load({"K2_WEB_URL": "http://web:9000/"}).feeds[0] == "http://web:9000/samples/courier.xml"
    assert len(load({"K2_FEEDS": ""}).feeds) == 6


def test_feeds_are_given_one_by_one_or_in_a_file(tmp_path: Path) -> None:
    listed = "https://a.example/rss, https://b.example/atom,https://a.example/rss"
    assert load({"K2_FEEDS": listed}).feeds == ("https://a.example/rss", "https://b.example/atom")
    path = tmp_path / "feeds.txt"
    path.write_text("# our feeds\nhttps://a.example/rss\n\n  https://b.example/atom  \n")
    assert load({"K2_FEEDS": str(path)}).feeds == ("https://a.example/rss", "https://b.example/atom")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("K2_FEEDS", "/no/such/file", "K2_FEEDS: expected addresses, or a file"),
        ("K2_FEEDS", "ftp://a.example/rss", "K2_FEEDS: expected addresses that begin with http"),
        ("K2_FEED_TIMEOUT", "soon", "K2_FEED_TIMEOUT: expected a number"),
        ("K2_RETENTION_DAYS", "0", "K2_RETENTION_DAYS: expected a number above 0"),
        ("K2_SIMILARITY", "nan", "K2_SIMILARITY: expected a number above 0"),
        ("K2_TIMEZONE", "Berlin", "K2_TIMEZONE: expected a time zone"),
        ("MAX_RUNTIME_THRESHOLD", "soon", "MAX_RUNTIME_THRESHOLD: expected a duration"),
        ("MAX_RUNTIME_THRESHOLD", "0s", "MAX_RUNTIME_THRESHOLD: expected a duration above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load({name: value})


@pytest.mark.contract("SLOT-8", "SLOT-10")
def test_each_job_says_how_long_it_may_run_and_what_becomes_of_missed_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAX_RUNTIME_THRESHOLD", raising=False)
    declared = {
        name: (task.options(3600.0).max_runtime, *task.schedule[1:4])
        for name, task in jobs_anew(monkeypatch).tasks.items()
        if task.schedule is not None and task.delivery == "at_most_once"
    }
    assert declared == {
        "rss_ingestion": (600.0, "latest", 300.0, 1),
        "event_clustering": (600.0, "latest", 300.0, 1),
        "retention_cleanup": (1800.0, "latest", 43200.0, 1),
    }


@pytest.mark.contract("SLOT-8")
@pytest.mark.parametrize("name", ["MAX_RUNTIME_THRESHOLD", "ONCUE_MAX_RUNTIME"])
def test_the_origins_name_of_the_maximum_runtime_reaches_every_job(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "7m")
    runtimes = {task.options(3600.0).max_runtime for task in jobs_anew(monkeypatch).tasks.values()}
    assert runtimes == {420.0}


def jobs_anew(monkeypatch: pytest.MonkeyPatch) -> Oncue:
    """The application as a new process imports it."""
    monkeypatch.delitem(sys.modules, "k2_daily_brief.jobs", raising=False)
    jobs = importlib.import_module("k2_daily_brief.jobs")
    monkeypatch.delitem(sys.modules, "k2_daily_brief.jobs")
    app: Oncue = jobs.app
    return app
