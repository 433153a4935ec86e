"""robots.txt: which rules are ours, and which of them decides."""

from __future__ import annotations

import pytest
from community_crawler.robots import LONGEST_DELAY, Robots, parse

AGENT = "community-crawler"


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("", "/r/a", True),
        ("Disallow:", "/r/a", True),
        ("Disallow: /", "/r/a", False),
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /r/a", "/r/ab", False),
        ("Disallow: /r/\nAllow: /r/a", "/r/a", True),
        ("Allow: /r/a\nDisallow: /r/a", "/r/a", True),
        ("Allow: /\nDisallow: /r/a # not here", "/r/a", False),
        ("DISALLOW : /r/a", "/r/a", False),
        ("Disallow: /r/*-old", "/r/some-old-one", False),
        ("Disallow: /r/*-old", "/r/some-new-one", True),
        ("Disallow: /r/a$", "/r/a", False),
        ("Disallow: /r/a$", "/r/ab", True),
        ("Disallow: /*b$", "/r/ab", False),
        ("Disallow: /*b$", "/r/abc", True),
        ("Disallow: /r/b*b$", "/r/b", True),
        ("Disallow: *", "/r/a", False),
        ("no colon here\nSitemap: /x\nDisallow: /r/a", "/r/a", False),
    ],
)
def test_the_longest_rule_decides(rules: str, path: str, allowed: bool) -> None:
    assert parse(f"User-agent: *\n{rules}", AGENT).allows(path) is allowed


def test_our_own_groups_count_and_only_else_those_for_everybody() -> None:
    text = """\ufeffDisallow: /before-any-group
User-agent: *
Disallow: /
Crawl-delay: 9

User-agent: other
User-agent: Community-Crawler/2
Disallow: /r/a

User-agent: community-crawler
Crawl-delay: 0.5
"""
    ours = parse(text, AGENT)
    assert ours == Robots(((False, "/r/a"),), 0.5)
    assert parse(text, "somebody") == Robots(((False, "/"),), 9.0)
    assert parse("", AGENT) == Robots()


@pytest.mark.parametrize(
    ("said", "delay"), [("2", 2.0), ("1e9", LONGEST_DELAY), ("soon", None), ("-1", None), ("nan", None)]
)
def test_the_pause_is_what_the_site_asks_for_within_reason(said: str, delay: float | None) -> None:
    assert parse(f"User-agent: *\nCrawl-delay: {said}", AGENT).delay == delay
