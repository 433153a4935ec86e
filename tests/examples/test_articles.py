"""Reading feeds: whatever is in them, articles come out as plain text with one address and a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from k2_daily_brief import articles
from k2_daily_brief.articles import NotAFeed, canonical_url
from k2_daily_brief.samples import feeds
from k2_daily_brief.samples.news import stories

from tests.examples.feed_server import rss


@pytest.mark.contract("SLOT-13")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://News.example/a#top", "https://news.example/a"),
        ("https://news.example/a?utm_source=x&utm_medium=y", "https://news.example/a"),
        ("https://news.example/a?id=7&UTM_Campaign=x&page=2", "https://news.example/a?id=7&page=2"),
        ("https://news.example/a?b", "https://news.example/a?b"),
        ("https://news.example/a?q=%20x", "https://news.example/a?q=%20x"),
        ("http://news.example:80", "http://news.example/"),
        ("https://news.example:443/a", "https://news.example/a"),
        (" https://news.example/a\n", "https://news.example/a"),
        ("javascript:alert(1)", None),
        ("ftp://news.example/a", None),
        ("/a", None),
        ("", None),
        ("https://[bad/a", None),
        ("https://news.example/" + "a" * 3000, None),
    ],
)
def test_an_address_has_one_spelling(given: str, expected: str | None) -> None:
    assert canonical_url(given) == expected
    if expected is not None:
        assert canonical_url(expected) == expected


@pytest.mark.parametrize("name", ["courier", "wire", "gazette", "slow"])
def test_every_good_sample_gives_its_stories(name: str, now: datetime) -> None:
    feed = articles.parse(feeds.document(name, "http://samples.example", now), "application/xml", now)
    outlet = "ledger" if name == "slow" else name
    told = [story for story in stories(now) if story.outlet == outlet]
    assert [article.url for article in feed.articles] == [f"http://samples.example{story.path}" for story in told]
    assert [article.published_at for article in feed.articles] == [story.published_at for story in told]
    assert [article.summary for article in feed.articles] == [story.summary for story in told]


def test_entities_and_markup_become_plain_text(now: datetime) -> None:
    content = (
        b'<?xml version="1.0"?><rss version="2.0"><channel><title>A &amp;amp; B</title><item>'
        b"<title>Fish &amp;amp; chips&lt;br&gt;again</title><link>http://x.example/1</link>"
        b"<description>&lt;p&gt;Caf&amp;eacute;\n\n &lt;script&gt;bad()&lt;/script&gt;"
        b"&lt;b&gt;open&lt;/b&gt;&lt;/p&gt;</description></item></channel></rss>"
    )
    feed = articles.parse(content, "application/xml", now)
    assert feed.title == "A & B"
    (article,) = feed.articles
    assert article.title == "Fish & chips again"
    assert article.summary == "Café open"


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Sun, 15 Nov 2026 10:00:00 +0200", datetime(2026, 11, 15, 8, tzinfo=UTC)),
        ("15 Nov 2026 09:30 GMT", datetime(2026, 11, 15, 9, 30, tzinfo=UTC)),
        ("2026-11-15T09:30:00Z", datetime(2026, 11, 15, 9, 30, tzinfo=UTC)),
        ("2026-11-15", datetime(2026, 11, 15, tzinfo=UTC)),
        ("the day before yesterday", None),
        ("", None),
        ("Sat, 01 Jan 0001 00:00:00 GMT", None),
        ("Sun, 15 Nov 2099 10:00:00 GMT", None),
    ],
)
def test_a_date_that_makes_no_sense_is_now(date: str, expected: datetime | None, now: datetime) -> None:
    content = (
        '<?xml version="1.0"?><rss version="2.0"><channel><item><title>A</title><link>http://x.example/1</link>'
        f"<pubDate>{date}</pubDate></item></channel></rss>"
    ).encode()
    (article,) = articles.parse(content, "application/xml", now).articles
    assert article.published_at == (expected or now)


def test_what_can_be_read_of_a_damaged_feed_is_kept(now: datetime) -> None:
    whole = rss(("http://x.example/1", "One"), ("http://x.example/2", "Two"))
    feed = articles.parse(whole[: whole.index(b"Two")], "application/xml", now)
    assert [article.title for article in feed.articles] == ["One"]


def test_an_article_named_twice_counts_once(now: datetime) -> None:
    feed = articles.parse(
        rss(("http://x.example/1", "One"), ("http://x.example/1#again", "One again")), "application/xml", now
    )
    assert [article.title for article in feed.articles] == ["One"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"<html><body><h1>Sign in</h1></body></html>",
        b"\x00\xff\xfe",
        b"/etc/hostname",
        b"http://127.0.0.1:1/",
    ],
)
def test_what_is_no_feed_is_refused(content: bytes, now: datetime) -> None:
    with pytest.raises(NotAFeed):
        articles.parse(content, "text/html", now)


def test_a_file_name_for_an_answer_opens_no_file(tmp_path_factory: pytest.TempPathFactory, now: datetime) -> None:
    """feedparser takes bytes that name a file for that file: a server could have read any file of ours."""
    secret = tmp_path_factory.mktemp("secret") / "feed.xml"
    secret.write_bytes(rss(("http://x.example/secret", "Secret")))
    with pytest.raises(NotAFeed):
        articles.parse(str(secret).encode(), "application/xml", now)


def test_the_samples_change_with_the_hour_and_the_day(now: datetime) -> None:
    def content(at: datetime) -> bytes:
        return feeds.document("courier", "http://samples.example", at)

    assert content(now) == content(now + timedelta(minutes=59))
    assert content(now) != content(now + timedelta(hours=1))
    events = [{story.event for story in stories(now + timedelta(days=day))} for day in range(3)]
    assert all(not one & other for one, other in combinations(events, 2))
