"""Crawling one community: ask robots.txt, wait for a turn, fetch the page, keep what it says. Knows nothing of jobs.

How it can end is a value or one of the exceptions below; `jobs.py` says what each of them means for the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from community_crawler import communities, fetching, parsing, robots, sites
from community_crawler.communities import Enqueue, Status, Target
from community_crawler.fetching import AGENT, Answer, FetchFailed, Limits, TooLarge
from community_crawler.politeness import NotYet, Politeness
from community_crawler.robots import Robots
from community_crawler.settings import Settings

USUAL_PAUSE = 60.0
"""For a site that asks for patience without saying how much."""
ROBOTS_BYTES = 500_000
BEFORE_RULES = Robots(delay=0.0)
"""For robots.txt itself: how long to pause is said in it."""
GONE = (404, 410)
FORBIDDEN = (401, 403, 451)
REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Crawled:
    """What a visit was good for: how many links there are, and how many communities were new."""

    status: Status
    links: int = 0
    new: int = 0


class Busy(Exception):
    """This page asks for patience (503), which is its own trouble and not that of the whole site."""

    def __init__(self, after: float, reason: str) -> None:
        super().__init__(reason)
        self.after = after


class TooMany(NotYet):
    """The answer was "too many requests" (429)."""


class Closed(Exception):
    """There is no page for us: it is gone, or not ours to read."""


class Useless(Exception):
    """There is a page, but none that can be used."""


class Crawler:
    """One process's crawler. `now` is the time that all processes share: the database's."""

    def __init__(self, engine: Engine, settings: Settings, now: Callable[[], Awaitable[datetime]]) -> None:
        self._engine = engine
        self._now = now
        self._usual_delay = settings.delay
        self._limits = Limits(settings.timeout, settings.max_bytes)
        self._politeness = Politeness(engine, settings.at_once, settings.timeout, now)

    async def crawl(self, community_id: int, enqueue: Enqueue) -> Crawled:
        """Fetch a community's page and keep it. What it leads to goes to `enqueue`, in the same transaction."""
        target = await asyncio.to_thread(communities.find, self._engine, community_id, await self._now())
        if target is None:
            raise Closed(f"there is no community {community_id}")
        try:
            rules = await self._rules(target)
            if not rules.allows(parsing.path_of(target.name)):
                raise await self._closed(target, "forbidden", None, "robots.txt asks to leave it alone")
            answer = await self._asked(target.url, target, rules, self._limits, target.etag)
            return await self._kept(target, answer, enqueue)
        except TooLarge as error:
            await self._closed(target, "refused", 200, str(error))
            raise Useless(str(error)) from None
        except FetchFailed as error:
            await self._write(communities.keep_failure, target, error.status, str(error))
            raise

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _rules(self, target: Target) -> Robots:
        """The site's rules, fetched if they are unknown or a day old. Unless they can be had, nothing else is."""
        if target.robots is not None:
            return robots.parse(target.robots, AGENT)
        limits = Limits(self._limits.seconds, ROBOTS_BYTES)
        answer = await self._asked(target.origin + robots.PATH, target, BEFORE_RULES, limits)
        if answer.status != 200 and not 400 <= answer.status < 500:
            raise FetchFailed(f"robots.txt: the server answered {answer.status}", answer.status)
        text = answer.body.decode("utf-8", "replace").replace("\x00", "")
        await self._write(sites.keep_robots, target.site_id, text)
        return robots.parse(text, AGENT)

    async def _asked(self, url: str, target: Target, rules: Robots, limits: Limits, etag: str | None = None) -> Answer:
        """Fetch when it is our turn. A site that says "too many requests" is left alone by everybody."""
        delay = self._usual_delay if rules.delay is None else rules.delay
        async with self._politeness.visit(target.site_id, delay):
            answer = await fetching.fetch(url, limits, etag)
            if answer.status != 429:
                return answer
            pause = USUAL_PAUSE if answer.retry_after is None else answer.retry_after
            await self._politeness.leave_alone(target.site_id, pause)
        raise TooMany(pause, "the site asks for patience (429)")

    # --- keeping ----------------------------------------------------------------------------------------------------

    async def _kept(self, target: Target, answer: Answer, enqueue: Enqueue) -> Crawled:
        status = answer.status
        if status == 200 and answer.is_html:
            return await self._kept_page(target, answer, enqueue)
        if status == 304:
            await self._write(communities.keep_unchanged, target)
            return Crawled("known")
        if status in REDIRECTS:
            return await self._kept_redirect(target, answer, enqueue)
        if status in GONE:
            raise await self._closed(target, "gone", status, f"it is gone ({status})")
        if status in FORBIDDEN:
            raise await self._closed(target, "forbidden", status, f"it is not for us ({status})")
        if status == 503 and answer.retry_after is not None:
            await self._write(communities.keep_failure, target, status, "it is busy (503)")
            raise Busy(answer.retry_after, "it is busy (503)")
        if status >= 500:
            raise FetchFailed(f"the server answered {status}", status)
        why = f"it is {answer.content_type}" if status == 200 else f"the server answered {status}"
        await self._closed(target, "refused", status, why)
        raise Useless(why)

    async def _kept_page(self, target: Target, answer: Answer, enqueue: Enqueue) -> Crawled:
        now = await self._now()

        def read_and_keep() -> Crawled:
            page = parsing.parse(answer.body, answer.charset, target.origin, target.name)
            new = communities.keep(self._engine, target, page, answer.etag, now, enqueue)
            return Crawled("known", len(page.links), new)

        return await asyncio.to_thread(read_and_keep)

    async def _kept_redirect(self, target: Target, answer: Answer, enqueue: Enqueue) -> Crawled:
        name = parsing.target_of(answer.location, target.origin, target.name)
        if name in (None, target.name):
            why = f"it leads away from the communities of this site ({answer.status})"
            raise await self._closed(target, "refused", answer.status, why)
        now = await self._now()
        new = await asyncio.to_thread(communities.keep_moved, self._engine, target, name, answer.status, now, enqueue)
        return Crawled("moved", 1, new)

    async def _closed(self, target: Target, status: Status, http: int | None, why: str) -> Closed:
        await self._write(communities.keep_closed, target, status, http, why)
        return Closed(why)

    async def _write(self, verb: Callable[..., None], *values: Any) -> None:
        await asyncio.to_thread(verb, self._engine, *values, await self._now())
