"""What the page shows: how far the crawl is, the biggest communities with their links, a table of all, and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select

from community_crawler.communities import STATUSES
from community_crawler.parsing import url_of
from community_crawler.tables import communities, links, sites

BIGGEST = 150
ROWS = 50
FAILURES = 20


@dataclass(frozen=True, slots=True)
class Table:
    """One page of the table of communities."""

    rows: list[Any]
    page: int
    more: bool


def counts(connection: Connection) -> dict[str, int]:
    """How many communities there are of each status, and how many links."""
    grouped = select(communities.c.status, func.count()).group_by(communities.c.status)
    found: dict[str, int] = {row[0]: row[1] for row in connection.execute(grouped)}
    total = connection.execute(select(func.count()).select_from(links)).scalar_one()
    return {**{status: found.get(status, 0) for status in STATUSES}, "links": total}


def graph(connection: Connection, size: int = BIGGEST) -> dict[str, list[Any]]:
    """The communities that most others link to, and the links among them."""
    incoming = func.count().label("incoming")
    by_target = select(links.c.target_id, incoming).group_by(links.c.target_id)
    biggest = by_target.order_by(incoming.desc(), links.c.target_id).limit(size)
    shown: dict[int, int] = {row[0]: row[1] for row in connection.execute(biggest)}
    nodes = select(communities.c.id, communities.c.name, communities.c.status).where(communities.c.id.in_(shown))
    among = links.c.source_id.in_(shown) & links.c.target_id.in_(shown)
    return {
        "nodes": [{**row._mapping, "links": shown[row.id]} for row in connection.execute(nodes)],
        "links": [list(row) for row in connection.execute(select(links).where(among))],
    }


def table(connection: Connection, search: str, page: int) -> Table:
    """The communities whose name or title has this text in it, the most linked to first."""
    grouped = select(links.c.target_id, func.count().label("incoming")).group_by(links.c.target_id).subquery()
    incoming = func.coalesce(grouped.c.incoming, 0)
    outgoing = select(func.count()).select_from(links).where(links.c.source_id == communities.c.id).scalar_subquery()
    query = (
        select(communities, sites.c.origin, incoming.label("incoming"), outgoing.label("outgoing"))
        .join(sites)
        .outerjoin(grouped, grouped.c.target_id == communities.c.id)
        .order_by(incoming.desc(), communities.c.id)
    )
    rows = connection.execute(_matching(query, search).offset((page - 1) * ROWS).limit(ROWS + 1)).all()
    return Table([_shown(row) for row in rows[:ROWS]], page, len(rows) > ROWS)


def _matching(query: Select[Any], search: str) -> Select[Any]:
    if not search:
        return query
    text = search.lower()
    return query.where(
        or_(
            func.lower(communities.c.name).contains(text, autoescape=True),
            func.lower(communities.c.title).contains(text, autoescape=True),
        )
    )


def failures(connection: Connection) -> list[Any]:
    """The communities whose last visit failed or led to nothing useful, latest first."""
    query = (
        select(communities, sites.c.origin)
        .join(sites)
        .where(communities.c.status.in_(("failing", "refused")))
        .order_by(communities.c.checked_at.desc(), communities.c.id)
        .limit(FAILURES)
    )
    return [_shown(row) for row in connection.execute(query)]


def _shown(row: Any) -> dict[str, Any]:
    return {**row._mapping, "url": url_of(row.origin, row.name)}
