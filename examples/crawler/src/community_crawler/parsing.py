"""A community's page: what it says of itself, and which communities it links to. Broken HTML is read as far as it goes.

The form of a site that can be crawled: each community has a page under `/r/<name>` with a title, `<meta>` tags named
`description` and `subscribers` if it likes, and links to others of the same site.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

MOST_LINKS = 2000
LONGEST_TEXT = 500
MOST_SUBSCRIBERS = 2**62

_PATH = re.compile(r"/r/([A-Za-z0-9][A-Za-z0-9_-]{0,99})/?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    description: str
    subscribers: int | None
    links: tuple[str, ...]


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def path_of(name: str) -> str:
    return f"/r/{name}"


def url_of(origin: str, name: str) -> str:
    return origin + path_of(name)


def name_in(url: str, origin: str) -> str | None:
    """The community that an address of this site belongs to, if any."""
    parts = urlsplit(url)
    if f"{parts.scheme}://{parts.netloc}".lower() != origin:
        return None
    found = _PATH.fullmatch(parts.path)
    return found[1] if found else None


def parse(content: bytes, charset: str, origin: str, name: str) -> Page:
    """Read the page of a community."""
    try:
        text = content.decode(charset, "replace")
    except LookupError:  # a charset that nobody knows
        text = content.decode("utf-8", "replace")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    found = (target_of(href, origin, name) for href in reader.links)
    links = dict.fromkeys(link for link in found if link is not None and link != name)
    return Page(
        title=_text("".join(reader.title)) or name,
        description=_text(reader.meta.get("description", "")),
        subscribers=_count(reader.meta.get("subscribers", "")),
        links=tuple(links)[:MOST_LINKS],
    )


def target_of(href: str, origin: str, name: str) -> str | None:
    """The community that a link or a redirect on this one's page leads to, if it is one of this site."""
    try:
        return name_in(urljoin(url_of(origin, name), href.strip()), origin)
    except ValueError:  # such as http://[
        return None


def _text(text: str) -> str:
    return " ".join(text.replace("\x00", "").split())[:LONGEST_TEXT]


def _count(text: str) -> int | None:
    digits = text.strip()
    return min(int(digits), MOST_SUBSCRIBERS) if digits.isascii() and digits.isdecimal() and len(digits) < 30 else None


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.meta: dict[str, str] = {}
        self.title: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and not self.title
        given = dict(attributes)
        if tag == "a" and (href := given.get("href")):
            self.links.append(href)
        elif tag == "meta" and (name := given.get("name")) and (content := given.get("content")):
            self.meta.setdefault(name.strip().lower(), content)

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
