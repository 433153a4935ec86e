"""Communities and the links between them, as the crawler finds them. Keeping the same page twice changes nothing.

What a page leads to is enqueued in the transaction that keeps the page (`enqueue` gets its connection): a worker that
is killed has done both or neither, and a community is in the table exactly if there is, or was, a job for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from community_crawler.database import insert_new, reading, writing
from community_crawler.parsing import Page, url_of
from community_crawler.sites import ROBOTS_FOR, site_id
from community_crawler.tables import communities, links, sites

Status: TypeAlias = Literal["new", "known", "moved", "gone", "forbidden", "refused", "failing"]
"""new: not visited yet; refused: its page is no use; failing: the last attempt failed, and may be repeated."""
STATUSES: tuple[Status, ...] = get_args(Status)

Enqueue: TypeAlias = Callable[[Connection, Sequence[int]], None]
STALE_BATCH = 500
TRIED_LATELY = timedelta(days=1)
"""What cannot be refreshed is not asked for again and again: only when its last attempt is so long ago."""


@dataclass(frozen=True, slots=True)
class Target:
    """A community as the crawler needs it. `robots` is None if the site's rules are unknown, or too old."""

    id: int
    name: str
    etag: str | None
    site_id: int
    origin: str
    robots: str | None

    @property
    def url(self) -> str:
        return url_of(self.origin, self.name)


# --- finding ----------------------------------------------------------------------------------------------------------


def find(engine: Engine, community_id: int, now: datetime) -> Target | None:
    columns = (communities.c.id, communities.c.name, communities.c.etag, sites.c.id, sites.c.origin)
    query = select(*columns, sites.c.robots, sites.c.robots_at).join_from(communities, sites)
    with reading(engine) as connection:
        row = connection.execute(query.where(communities.c.id == community_id)).one_or_none()
    if row is None:
        return None
    number, name, etag, site, origin, robots, robots_at = row
    fresh = robots_at is not None and robots_at > now - ROBOTS_FOR
    return Target(number, name, etag, site, origin, robots if fresh else None)


def id_of(engine: Engine, origin: str, name: str) -> int | None:
    query = select(communities.c.id).join(sites).where(sites.c.origin == origin, communities.c.name == name)
    with reading(engine) as connection:
        found: int | None = connection.execute(query).scalar()
    return found


def add(engine: Engine, origin: str, name: str, now: datetime) -> int:
    """The number of a community, which is added if it is new."""
    with writing(engine) as connection:
        numbers, _ = _numbers(connection, site_id(connection, origin), [name], now)
    return numbers[0]


def stale(engine: Engine, now: datetime, after: timedelta, batch: int = STALE_BATCH) -> Iterator[list[int]]:
    """The communities that were not refreshed for so long, in batches."""
    last = 0
    refreshed_at = func.coalesce(communities.c.refreshed_at, communities.c.discovered_at)
    tried_at = func.coalesce(communities.c.checked_at, communities.c.discovered_at)
    is_stale = (refreshed_at < now - after) & (tried_at < now - min(TRIED_LATELY, after))
    while True:
        query = select(communities.c.id).where(is_stale, communities.c.id > last)
        with reading(engine) as connection:
            numbers = list(connection.scalars(query.order_by(communities.c.id).limit(batch)))
        if not numbers:
            return
        yield numbers
        last = numbers[-1]


# --- keeping ----------------------------------------------------------------------------------------------------------


def keep(engine: Engine, target: Target, page: Page, etag: str | None, now: datetime, enqueue: Enqueue) -> int:
    """Write what a page says, and enqueue the communities that nobody knew before; how many."""
    with writing(engine) as connection:
        found, new = _numbers(connection, target.site_id, page.links, now)
        _relink(connection, target.id, found)
        about = {"title": page.title, "description": page.description, "subscribers": page.subscribers}
        _write(connection, target.id, "known", 200, now, **about, etag=etag)
        if new:
            enqueue(connection, new)
    return len(new)


def keep_moved(engine: Engine, target: Target, name: str, http: int, now: datetime, enqueue: Enqueue) -> int:
    """A redirect is a link to where it leads."""
    with writing(engine) as connection:
        found, new = _numbers(connection, target.site_id, [name], now)
        _relink(connection, target.id, found)
        _write(connection, target.id, "moved", http, now)
        if new:
            enqueue(connection, new)
    return len(new)


def keep_unchanged(engine: Engine, target: Target, now: datetime) -> None:
    with writing(engine) as connection:
        _write(connection, target.id, "known", 304, now)


def keep_closed(engine: Engine, target: Target, status: Status, http: int | None, why: str, now: datetime) -> None:
    """There is no page to read here, which is worth knowing too."""
    with writing(engine) as connection:
        _write(connection, target.id, status, http, now, last_error=why)


def keep_failure(engine: Engine, target: Target, http: int | None, why: str, now: datetime) -> None:
    """Nothing was learned: what is known of the community stays, and gets older."""
    values = {"status": "failing", "last_status": http, "last_error": why, "checked_at": now}
    with writing(engine) as connection:
        connection.execute(update(communities).where(communities.c.id == target.id).values(values))


def _write(
    connection: Connection, community_id: int, status: Status, http: int | None, now: datetime, **more: Any
) -> None:
    values = {"status": status, "last_status": http, "last_error": None, "checked_at": now, "refreshed_at": now, **more}
    connection.execute(update(communities).where(communities.c.id == community_id).values(values))


def _numbers(connection: Connection, site: int, names: Sequence[str], now: datetime) -> tuple[list[int], list[int]]:
    """The numbers of communities, and of those among them that were added just now.

    They are added in the order of their names: two workers that find the same ones never wait for each other in turn.
    """
    known = _known(connection, site, names)
    missing = sorted(set(names).difference(known))
    row = {"site_id": site, "status": "new", "title": "", "description": "", "discovered_at": now}
    added = [new.id for new in insert_new(connection, communities, [{**row, "name": name} for name in missing])]
    if len(added) < len(missing):  # another worker was faster with some of them
        known |= _known(connection, site, missing)
    return [*{*known.values(), *added}], sorted(added)


def _known(connection: Connection, site: int, names: Sequence[str]) -> dict[str, int]:
    query = select(communities.c.name, communities.c.id).where(communities.c.site_id == site)
    rows = connection.execute(query.where(communities.c.name.in_(names))) if names else ()
    return {row.name: row.id for row in rows}


def _relink(connection: Connection, source: int, targets: Sequence[int]) -> None:
    """Make the links of a community these, and only these."""
    there = set(connection.scalars(select(links.c.target_id).where(links.c.source_id == source)))
    over = there.difference(targets)
    if over:
        connection.execute(delete(links).where(links.c.source_id == source, links.c.target_id.in_(over)))
    rows = [{"source_id": source, "target_id": target} for target in targets if target not in there]
    if rows:
        connection.execute(insert(links), rows)
