"""The settings of the example: what is set, what is not, and what makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from k2_daily_brief.settings import SettingsError, load


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
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load({name: value})
