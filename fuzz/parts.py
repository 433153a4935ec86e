"""What is sent where: the parts of a run, and how many requests each of them sends on each back end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz import dashboard, described, grammar, sockets, stories, strangers
from fuzz.site import Site, opened
from fuzz.wire import Tally
from oncue.server.api import AccessMode


@dataclass(frozen=True)
class Order:
    """So many requests of one part, to one back end."""

    part: str
    dialect: str
    requests: int
    access: AccessMode = AccessMode.TOKEN
    with_tokens: bool = True


@dataclass
class Outcome:
    """What came of a run, beside the tally."""

    tried_effects: int = 0
    """How many requests of strangers had an effect when somebody sent them who may."""


FULL = (
    Order("described", "sqlite", 5000),
    Order("described", "postgresql", 1500),
    Order("grammar", "sqlite", 5000),
    Order("grammar", "postgresql", 1500),
    Order("stories", "sqlite", 2500),
    Order("stories", "postgresql", 1000),
    Order("strangers", "sqlite", 1200),
    Order("strangers", "sqlite", 600, AccessMode.LOOPBACK),
    Order("strangers", "sqlite", 600, AccessMode.LOOPBACK, with_tokens=False),
    Order("strangers", "postgresql", 1000),
    Order("sockets", "sqlite", 500),
    Order("dashboard", "sqlite", 1500),
    Order("dashboard", "postgresql", 500),
)
"""20,000 to the API and a few, and 4,000 to the dashboard: each of its numbers is a read and a change."""


def scaled(orders: tuple[Order, ...], divisor: int) -> tuple[Order, ...]:
    return tuple(
        Order(order.part, order.dialect, -(-order.requests // divisor), order.access, order.with_tokens)
        for order in orders
    )


async def carried_out(
    order: Order, url: str, folder: Path, tally: Tally, outcome: Outcome, seed: int, number: int | None = None
) -> None:
    """Send what is ordered, to an empty database that gets a shop first; or the one request or story of this number."""
    async with opened(url, folder, tally, access=order.access, with_tokens=order.with_tokens) as site:
        site.wire.part = order.part
        numbers = range(order.requests) if number is None else range(number, number + 1)
        await PARTS[order.part](site, outcome, seed, numbers)


async def _described(site: Site, outcome: Outcome, seed: int, numbers: range) -> None:
    await described.run(site, seed, len(numbers))


async def _grammar(site: Site, outcome: Outcome, seed: int, numbers: range) -> None:
    await grammar.run(site.wire, site.world, seed, numbers)


async def _stories(site: Site, outcome: Outcome, seed: int, numbers: range) -> None:
    before = site.wire.tally.requests["stories"]
    await stories.run(site, seed, numbers, before + len(numbers))


async def _strangers(site: Site, outcome: Outcome, seed: int, numbers: range) -> None:
    outcome.tried_effects += await strangers.run(site, seed, numbers)


async def _sockets(site: Site, outcome: Outcome, seed: int, numbers: range) -> None:
    await sockets.run(site, seed, numbers)


async def _dashboard(site: Site, outcome: Outcome, seed: int, numbers: range) -> None:
    await dashboard.run(site, seed, numbers)


PARTS: dict[str, Callable[[Site, Outcome, int, range], Awaitable[None]]] = {
    "described": _described,
    "grammar": _grammar,
    "stories": _stories,
    "strangers": _strangers,
    "sockets": _sockets,
    "dashboard": _dashboard,
}
