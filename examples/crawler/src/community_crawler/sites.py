"""Sites: their rules, and whose turn it is. Politeness holds for all workers together, since the database keeps it.

A turn is taken at the moment of the request, never ahead of it: a site that asks for patience is left alone at once,
apart from the requests that are under way already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from community_crawler.database import insert_new, writing
from community_crawler.tables import sites, visits

ROBOTS_FOR = timedelta(hours=24)
OCCUPIED = 0.02
"""How soon to ask again, in seconds, while others have all the seats of a site."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A visit that may begin now, or the seconds to wait before asking again."""

    visit: int | None
    wait: float = 0.0


def site_id(connection: Connection, origin: str) -> int:
    """The number of a site, which is added if it is new."""
    insert_new(connection, sites, [{"origin": origin}])
    number: int = connection.execute(select(sites.c.id).where(sites.c.origin == origin)).scalar_one()
    return number


def take_turn(engine: Engine, site: int, now: datetime, *, delay: float, at_once: int, longest: float) -> Turn:
    """Begin a visit of at most `longest` seconds, if the site's pause is over and a seat is free."""
    with writing(engine) as connection:
        row = _locked(connection, site)
        earliest = max((moment for moment in row if moment is not None), default=now)
        if earliest > now:
            return Turn(None, (earliest - now).total_seconds())
        under_way = select(func.count()).select_from(visits).where(visits.c.site_id == site, visits.c.until > now)
        if connection.execute(under_way).scalar_one() >= at_once:
            return Turn(None, OCCUPIED)
        connection.execute(update(sites).where(sites.c.id == site).values(next_at=now + timedelta(seconds=delay)))
        until = now + timedelta(seconds=longest)
        visit = connection.execute(insert(visits).values(site_id=site, until=until).returning(visits.c.id))
        return Turn(visit.scalar_one())


def _locked(connection: Connection, site: int) -> Sequence[datetime | None]:
    """When the site may be visited again. Nobody else decides about it until the transaction ends."""
    query = select(sites.c.next_at, sites.c.not_before).where(sites.c.id == site)
    return tuple(connection.execute(query.with_for_update()).one())


def end_visit(engine: Engine, site: int, visit: int, now: datetime) -> None:
    """End a visit, and clear away those that nobody will end any more."""
    over = (visits.c.site_id == site) & (visits.c.until <= now)
    with writing(engine) as connection:
        connection.execute(delete(visits).where((visits.c.id == visit) | over))


def leave_alone(engine: Engine, site: int, until: datetime) -> None:
    """Nobody visits this site before then."""
    with writing(engine) as connection:
        later = (sites.c.not_before.is_(None)) | (sites.c.not_before < until)
        connection.execute(update(sites).where(sites.c.id == site, later).values(not_before=until))


def keep_robots(engine: Engine, site: int, text: str, now: datetime) -> None:
    with writing(engine) as connection:
        connection.execute(update(sites).where(sites.c.id == site).values(robots=text, robots_at=now))
