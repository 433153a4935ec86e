"""The crawler's settings: what is set, what is not, and what makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from community_crawler import together, worker
from community_crawler.settings import Settings, SettingsError, load, origin

from oncue.settings import load as oncue_settings


@pytest.mark.contract("QUE-9", "QUE-18")
def test_the_defaults_are_the_origins(tmp_path: Path) -> None:
    settings = load({"STALE_DAYS": " "})
    assert settings == Settings()
    assert (settings.reset_after_min, settings.stale_days, settings.stale_check) == (15, 30, "@every 6h")
    usual = oncue_settings(environment=worker.USUAL, folder=tmp_path)
    assert (usual.poll_interval, usual.tick_interval, usual.maintenance_interval) == (5, 60, 300)
    assert (usual.aging_interval, usual.aging_after, usual.aging_gain) == (300, 3600, 10)
    assert usual.queues == ("crawl", "upkeep")
    changed = load({"STALE_DAYS": "7", "RESET_CRAWLING_AFTER_MIN": "0.5", "CRAWLER_SITE": "https://A.example:443/r/x"})
    assert (changed.stale_days, changed.reset_after_min, changed.site) == (7, 0.5, "https://a.example")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://site.example/r/a?b#c", "http://site.example"),
        ("HTTP://Site.Example:80", "http://site.example"),
        ("https://site.example:8443/", "https://site.example:8443"),
        ("http://[::1]:8090/r/a", "http://[::1]:8090"),
    ],
)
def test_a_site_is_its_scheme_host_and_port(address: str, found: str) -> None:
    assert origin(address, "start") == found


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("CRAWLER_SITE", "site.example", "CRAWLER_SITE: expected an address such as"),
        ("CRAWLER_SITE", "ftp://site.example", "CRAWLER_SITE: expected an address"),
        ("CRAWLER_SITE", "http://user:secret@site.example", "CRAWLER_SITE: expected an address"),
        ("CRAWLER_SITE", "http://site.example:99999", "CRAWLER_SITE: expected an address"),
        ("CRAWLER_AT_ONCE", "0.5", "CRAWLER_AT_ONCE: expected a number"),
        ("CRAWLER_TIMEOUT", "soon", "CRAWLER_TIMEOUT: expected a number"),
        ("STALE_DAYS", "0", "STALE_DAYS: expected a number above 0"),
        ("RESET_CRAWLING_AFTER_MIN", "nan", "RESET_CRAWLING_AFTER_MIN: expected a number above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load({name: value})


@pytest.mark.parametrize(
    "start", ["harbour", "ftp://site.example/r/a", "http://site.example/", "http://site.example/r/a/b"]
)
def test_a_start_that_is_no_community_is_refused_before_anything_is_started(
    start: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAWLER_SITE", "")
    with pytest.raises(SystemExit, match=r"^2$"):
        together.main([start])
    assert "start: expected" in capsys.readouterr().err


def test_a_worker_that_is_configured_badly_does_not_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALE_DAYS", "soon")
    with pytest.raises(SystemExit, match=r"^2$"):
        worker.main([])
    assert "STALE_DAYS: expected a number" in capsys.readouterr().err
