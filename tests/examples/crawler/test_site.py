"""The generated site: the same for the same seed, shaped like the world, and all of it within reach."""

from __future__ import annotations

from collections import Counter

import pytest
from community_crawler.parsing import parse
from community_crawler.robots import parse as parse_robots
from community_crawler.site import pages
from community_crawler.site.graph import BEHAVIOURS, FIRST, LEAVES, communities
from community_crawler.site.watch import Watch

ORIGIN = "http://site.example"


def test_a_seed_makes_the_site() -> None:
    assert communities(200, seed=7) == communities(200, seed=7)
    assert communities(200, seed=7) != communities(200, seed=8)


@pytest.mark.parametrize("size", [2, 10, 60, 1000])
def test_what_its_pages_link_to_leads_everywhere(size: int) -> None:
    """Also for a crawler that cannot see behind what is closed, and past HTML that is broken."""
    site = communities(size)
    seen, ahead = {FIRST}, [site[FIRST]]
    while ahead:
        community = ahead.pop()
        if community.behaviour in LEAVES:
            continue
        page = parse(pages.page(community, ORIGIN), "utf-8", ORIGIN, community.name)
        assert set(page.links) == set(community.links) - {community.name}
        assert (page.title, page.subscribers) == (community.title, community.subscribers)
        ahead += [site[name] for name in page.links if name not in seen]
        seen.update(page.links)
    assert seen == set(site)
    assert len(site) == size


def test_few_are_linked_to_by_many_and_most_by_few() -> None:
    site = communities(3000)
    incoming = sorted(Counter(link for one in site.values() for link in one.links).values(), reverse=True)
    assert sum(incoming[:30]) > 0.25 * sum(incoming)
    assert incoming[len(incoming) // 2] <= 2


def test_every_way_to_misbehave_is_there_and_what_is_private_is_said_to_be() -> None:
    site = communities(60)
    assert {one.behaviour for one in site.values()} == set(BEHAVIOURS)
    rules = parse_robots(pages.robots(), "community-crawler")
    assert {one.behaviour == "private" for one in site.values() if not rules.allows(f"/r/{one.name}")} == {True}
    assert {one.behaviour == "private" for one in site.values() if rules.allows(f"/r/{one.name}")} == {False}
    assert rules.delay == pages.CRAWL_DELAY


def test_the_site_notices_bad_manners() -> None:
    time = 0.0
    watch = Watch(lambda: time)
    with watch.visit(), watch.visit():
        watch.ask_for_patience("shy", 2)
    time = 1.9
    watch.note_asked("shy", private=False)
    watch.note_asked("private-one", private=True)
    with watch.visit():
        watch.note_answered("shy", 200)
    told = watch.document()
    assert (told["requests"], told["most_at_once"], told["most_in_a_second"]) == (3, 2, 2)
    assert (told["too_early"], told["forbidden"], told["served"]) == (1, 1, {"shy": 1})
