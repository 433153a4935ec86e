"""Pages: what counts as a link to a community, and what remains of a page that is broken."""

from __future__ import annotations

import pytest
from community_crawler.parsing import MOST_LINKS, Page, is_name, parse, target_of

ORIGIN = "http://site.example:8090"


@pytest.mark.parametrize(
    ("href", "name"),
    [
        ("/r/other", "other"),
        ("/r/other/", "other"),
        ("  /r/other?sort=new#top ", "other"),
        ("other", "other"),
        ("../r/Other_2-b", "Other_2-b"),
        (f"{ORIGIN}/r/other", "other"),
        ("HTTP://SITE.example:8090/r/other", "other"),
        ("//site.example:8090/r/other", "other"),
        ("https://site.example:8090/r/other", None),
        ("http://site.example/r/other", None),
        ("http://user@site.example:8090/r/other", None),
        ("/r/other/comments/1", None),
        ("/r/", None),
        ("/r/%2e%2e", None),
        ("/r/" + "a" * 101, None),
        ("/u/somebody", None),
        ("mailto:a@mail.example", None),
        ("javascript:alert(1)", None),
        ("http://[", None),
        ("", "here"),
    ],
)
def test_only_communities_of_the_same_site_are_links(href: str, name: str | None) -> None:
    assert target_of(href, ORIGIN, "here") == name
    assert name is None or is_name(name)


def test_a_page_says_each_thing_once() -> None:
    text = """<title> Old &amp; new\n maps </title><svg><title>not this</title></svg>
    <meta name="Description" content="All about maps"><meta name=description content="not this">
    <meta name="subscribers" content="1200"><meta name="empty"><a name="x"></a>
    <a href="/r/b">b</a> <a href='/r/a'>a</a> <a href="/r/b#again">b</a> <a href="/r/here">here</a>"""
    assert parse(text.encode(), "utf-8", ORIGIN, "here") == Page("Old & new maps", "All about maps", 1200, ("b", "a"))


@pytest.mark.parametrize("said", ["", "many", "-3", "1.5", "9" * 40, "٣"])
def test_a_page_without_sense_in_it_still_has_a_name(said: str) -> None:
    page = parse(
        f'<meta name=subscribers content="{said}">\0 <a href="/r/b'.encode(), "no-such-charset", ORIGIN, "here"
    )
    assert page == Page("here", "", None, ())


def test_a_page_of_links_without_end_is_cut() -> None:
    text = "".join(f"<a href=/r/n{number}>" for number in range(MOST_LINKS + 5))
    assert len(parse(text.encode(), "utf-8", ORIGIN, "here").links) == MOST_LINKS
