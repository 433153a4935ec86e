"""The sample feeds as documents: RSS 2.0, Atom, RSS with entities and odd dates, one broken, one huge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from html import escape
from itertools import cycle

from k2_daily_brief.samples.news import OUTLETS, Story, stories

HUGE_BYTES = 3_000_000

ODD_DATES: tuple[Callable[[datetime], str], ...] = (
    lambda time: f"{time:%a, %d %b %Y %H:%M} GMT",
    lambda time: f"{time:%Y-%m-%dT%H:%M:%S}Z",
    lambda time: f"{time:%d %b %Y %H:%M:%S} +0000",
    lambda time: f"{time:%Y-%m-%d %H:%M:%S}",
)


def document(name: str, base_url: str, now: datetime) -> bytes:
    """A sample feed. Raises KeyError for a name that there is not."""
    return _WRITERS[name](base_url, now).encode()


def etag(content: bytes) -> str:
    return f'"{sha256(content).hexdigest()[:16]}"'


def last_modified(now: datetime) -> str:
    return format_datetime(now.astimezone(UTC).replace(minute=0, second=0, microsecond=0), usegmt=True)


def _of(outlet: str, now: datetime) -> list[Story]:
    return [story for story in stories(now) if story.outlet == outlet]


def _rss(outlet: str, items: Iterator[str], base_url: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel>'
        f"<title>{OUTLETS[outlet]}</title><link>{base_url}/</link><description>Invented news</description>\n"
        f"{''.join(items)}</channel></rss>\n"
    )


def _rss_item(story: Story, base_url: str, date: str, query: str = "") -> str:
    return (
        f"<item><title>{escape(story.title)}</title><link>{base_url}{story.path}{query}</link>"
        f"<description>{escape(story.summary)}</description><pubDate>{date}</pubDate></item>\n"
    )


def _plain(outlet: str) -> Callable[[str, datetime], str]:
    def write(base_url: str, now: datetime) -> str:
        items = (
            _rss_item(story, base_url, format_datetime(story.published_at, usegmt=True)) for story in _of(outlet, now)
        )
        return _rss(outlet, items, base_url)

    return write


def _odd(base_url: str, now: datetime) -> str:
    """Entities inside entities, markup in the text, a different way to write each date, and tracking parameters."""
    told = zip(_of("gazette", now), cycle(ODD_DATES), strict=False)
    items = (
        _rss_item(story, base_url, date(story.published_at), "?utm_source=feed&amp;utm_medium=rss#top")
        .replace("’", "&amp;rsquo;")
        .replace("“", "&#8220;")
        .replace("<description>", "<description>&lt;p&gt;")
        .replace("</description>", "&lt;/p&gt;</description>")
        for story, date in told
    )
    return _rss("gazette", items, base_url)


def _atom(base_url: str, now: datetime) -> str:
    told = _of("wire", now)
    entries = "".join(
        f"<entry><title>{escape(story.title)}</title><id>{base_url}{story.path}</id>"
        f'<link rel="alternate" href="{base_url}{story.path}"/><updated>{story.published_at.isoformat()}</updated>'
        f'<summary type="text">{escape(story.summary)}</summary></entry>\n'
        for story in told
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>{OUTLETS['wire']}</title><id>{base_url}/samples/wire.xml</id>"
        f"<updated>{told[0].published_at.isoformat()}</updated>\n{entries}</feed>\n"
    )


def _broken(base_url: str, now: datetime) -> str:
    """Ends in the middle of its first item."""
    whole = _plain("courier")(base_url, now)
    return whole[: whole.index("<link>", whole.index("<item>"))]


def _huge(base_url: str, now: datetime) -> str:
    """A fine feed, were it not for its size."""
    filling = "<!-- and so on and so on and so on -->\n"
    whole = _plain("courier")(base_url, now)
    return whole.replace("<item>", filling * (HUGE_BYTES // len(filling)) + "<item>", 1)


_WRITERS: dict[str, Callable[[str, datetime], str]] = {
    "courier": _plain("courier"),
    "wire": _atom,
    "gazette": _odd,
    "slow": _plain("ledger"),
    "broken": _broken,
    "huge": _huge,
}
