"""Feeds as they come off the wire become articles: plain text, one address, a moment in UTC. No I/O."""

from __future__ import annotations

import calendar
import html
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import feedparser  # type: ignore[import-untyped]

TITLE_CHARACTERS = 500
SUMMARY_CHARACTERS = 4000
URL_CHARACTERS = 2048
OLDEST = datetime(1990, 1, 1, tzinfo=UTC)

_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r"[\s\x00]+")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class NotAFeed(ValueError):
    """What came back is no feed, or nothing of it can be read."""


@dataclass(frozen=True, slots=True)
class Article:
    url: str
    title: str
    summary: str
    published_at: datetime


@dataclass(frozen=True, slots=True)
class Feed:
    title: str
    articles: tuple[Article, ...]


def parse(content: bytes, content_type: str, now: datetime) -> Feed:
    """Read a feed. One that is damaged gives what can be read of it; raises NotAFeed if that is nothing."""
    # Never hand over the bytes themselves: feedparser takes bytes that look like a file's name for a file.
    document = feedparser.parse(BytesIO(content), response_headers={"content-type": content_type})
    found = [article for entry in document.entries if (article := _article(entry, now)) is not None]
    if not found and (document.bozo or not document.get("version")):
        raise NotAFeed(f"not a feed that can be read ({document.get('bozo_exception') or 'no RSS and no Atom'})")
    unique = {article.url: article for article in reversed(found)}
    return Feed(plain_text(document.feed.get("title", ""))[:TITLE_CHARACTERS], tuple(reversed(unique.values())))


def _article(entry: Any, now: datetime) -> Article | None:
    url = canonical_url(str(entry.get("link", "")))
    title = plain_text(entry.get("title", ""))
    if url is None or not title:
        return None
    summary = plain_text(entry.get("summary", ""))
    return Article(url, title[:TITLE_CHARACTERS], summary[:SUMMARY_CHARACTERS], _published_at(entry, now))


def _published_at(entry: Any, now: datetime) -> datetime:
    """When the feed says that it was published; now, if it does not say, or says something impossible."""
    given = entry.get("published_parsed" if "published_parsed" in entry else "updated_parsed")
    if given is None:
        return now
    try:
        moment = datetime.fromtimestamp(calendar.timegm(given), UTC)
    except (ValueError, OverflowError, OSError):
        return now
    return min(moment, now) if moment >= OLDEST else now


def canonical_url(url: str) -> str | None:
    """One spelling for one page: no fragment, no utm_* parameters, a host in small letters. None if it is no page."""
    try:
        parts = urlsplit(_SPACE.sub("", url))
        host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, ""))
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        return None
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in parameters if not name.lower().startswith("utm_")]
    # Written anew only if something is left out: some sites do not know their own address otherwise.
    query = parts.query if len(kept) == len(parameters) else urlencode(kept)
    found = urlunsplit((parts.scheme, host, parts.path or "/", query, ""))
    return found if len(found) <= URL_CHARACTERS else None


def plain_text(value: Any) -> str:
    """The text without markup, entities (also those inside entities) and runs of space."""
    text = html.unescape(html.unescape(_TAG.sub(" ", str(value))))
    return _SPACE.sub(" ", _TAG.sub(" ", text)).strip()
