"""The communities as HTML: links in every form that the world has, and some pages that are broken or huge."""

from __future__ import annotations

from html import escape
from itertools import cycle

from community_crawler.site.graph import PRIVATE, Community

HUGE_BYTES = 1_000_000
CRAWL_DELAY = 0.01

_FORMS = ("/r/{0}", "{1}/r/{0}", "/r/{0}/", "/r/{0}?from=list", "../r/{0}#top")
_ELSEWHERE = """
<p><a href="https://elsewhere.example/r/{0}">a mirror elsewhere</a>, <a href="mailto:{0}@mail.example">write to us</a>,
<a href="/r/{0}/comments/1">what people say</a>, <a href="/about">about this site</a></p>
"""


def robots(delay: float = CRAWL_DELAY) -> str:
    return f"""# Everybody is welcome, though not everywhere.
User-agent: greedy
Disallow: /

User-agent: *
Crawl-delay: {delay:g}
Disallow: /r/{PRIVATE}
Allow: /r/
"""


def page(community: Community, base_url: str) -> bytes:
    """A community's page. What misbehaves otherwise than in its text is up to the server."""
    if community.behaviour == "broken":
        return _broken(community, base_url)
    if community.behaviour == "huge":
        return _whole(community, base_url) + b"<!-- and so on -->\n" * (HUGE_BYTES // 19)
    return _whole(community, base_url)


def _whole(community: Community, base_url: str) -> bytes:
    name = escape(community.name)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{escape(community.title)}</title>
<meta name="description" content="{escape(community.description)}">
<meta name="subscribers" content="{community.subscribers}">
</head>
<body>
<h1>{escape(community.title)}</h1>
<p>{escape(community.description)}</p>
<h2>Related communities</h2>
<ul>
{_links(community, base_url)}
</ul>{_ELSEWHERE.format(name)}</body>
</html>
""".encode()


def _links(community: Community, base_url: str) -> str:
    forms = zip(community.links, cycle(_FORMS), strict=False)
    return "\n".join(f'<li><a href="{form.format(escape(name), base_url)}">{name}</a></li>' for name, form in forms)


def _broken(community: Community, base_url: str) -> bytes:
    """Tags that nobody closes, quotes that are missing, bytes that are no text, and an end in the middle of a tag."""
    items = "\n".join(f"<li><a href=/r/{escape(name)}>{name}<b>" for name in community.links)
    start = f'<title>{escape(community.title)}</title><meta name=subscribers content="{community.subscribers}"'
    return start.encode() + b"><p>5 < 6 & \xff\xfe <a>\n<ul>" + items.encode() + b'\n<div <<a href="/r/'
