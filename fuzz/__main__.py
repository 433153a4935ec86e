"""python -m fuzz [PART | PART:NUMBER ...]: send, write build/fuzz.json, print a table, judge.

QUICK=1 sends a fifth. SEED=7 makes other requests; the same seed makes the same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench import database, verdict
from bench.settings import BUILD
from bench.verdict import Figure
from fuzz import parts
from fuzz.dashboard import BLOCKED
from fuzz.described import NONCONFORMING
from fuzz.judge import SERVER_ERROR, SHAPE
from fuzz.parts import FULL, PARTS, Order, Outcome
from fuzz.strangers import EFFECTS, KNOWN, LET_IN
from fuzz.teller import BROKEN
from fuzz.wire import Tally

AMOUNT, QUICKER = 20_000, 5
SHOWN = 20
TOLD_EVERY = 5.0
PERCENT = {"sockets": 50}
"""Not every line on a socket is a request."""


def chosen(words: Sequence[str]) -> tuple[Order, ...]:
    """Everything, or only these parts."""
    names = [word.partition(":")[0] for word in words]
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known are {', '.join(PARTS)}", file=sys.stderr)
        raise SystemExit(2)
    orders = parts.scaled(FULL, QUICKER) if os.environ.get("QUICK") else FULL
    return tuple(order for order in orders if order.part in names or not names)


@contextlib.contextmanager
def addresses(orders: Sequence[Order], folder: Path) -> Iterator[Iterator[tuple[Order, str]]]:
    """An empty database for each order. A server is started only if somebody needs it."""
    with contextlib.ExitStack() as stack:
        needed = any(order.dialect == "postgresql" for order in orders)
        server = stack.enter_context(database.running_server()) if needed else None

        def each() -> Iterator[tuple[Order, str]]:
            for number, order in enumerate(orders):
                if server is None or order.dialect == "sqlite":
                    yield order, f"sqlite:///{folder / f'{number}.db'}"
                else:
                    with server.fresh() as address:
                        yield order, address

        yield each()


async def watched(
    order: Order, url: str, folder: Path, tally: Tally, outcome: Outcome, seed: int, number: int | None
) -> None:
    """Carry an order out, and say now and then how far it has come."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(TOLD_EVERY)
            print(f"{order.part} on {order.dialect}: {so_far(tally)}", file=sys.stderr, flush=True)

    telling = asyncio.create_task(tell())
    try:
        await parts.carried_out(order, url, folder, tally, outcome, seed, number)
    finally:
        telling.cancel()


def so_far(tally: Tally) -> str:
    return f"{tally.requests.total():,} requests, {len(tally.all_faults)} faults"


def expected(orders: Sequence[Order], is_part: bool) -> int:
    """How many requests there must be at least."""
    if is_part:
        return 1
    return AMOUNT if orders == FULL else sum(order.requests * PERCENT.get(order.part, 90) // 100 for order in orders)


def judged(tally: Tally, outcome: Outcome, orders: Sequence[Order], amount: int, seconds: float) -> list[Figure]:
    """What must be nought, and how much was looked at."""

    def none(kind: str, part: str | None = None) -> Figure:
        asked = tally.requests.total() if part is None else tally.requests[part]
        return verdict.limited(kind, len(tally.faults.get(kind, ())), 0, f"of {asked:,}")

    sent = {order.part for order in orders}
    total = tally.requests.total()
    figures = [none(SERVER_ERROR), none(SHAPE)]
    figures += [none(NONCONFORMING, "described")] if "described" in sent else []
    figures += [none(BROKEN, "stories")] if "stories" in sent else []
    figures += [none(BLOCKED, "dashboard")] if "dashboard" in sent else []
    if sent & {"strangers", "dashboard"}:
        figures += [none(EFFECTS), none(LET_IN)]
    if "strangers" in sent:
        tried, note = outcome.tried_effects, f"of {tally.requests[KNOWN]:,} of the same, sent by somebody who may"
        figures.append(Figure("effects_with_authentication", tried, bar="> 0", holds=tried > 0, note=note))
    figures.append(Figure("requests", total, bar=f">= {amount:,}", holds=total >= amount))
    figures += [verdict.plain(f"requests_{part}", count) for part, count in sorted(tally.requests.items())]
    for first in (2, 4, 5):
        figures.append(
            verdict.plain(f"answers_{first}xx", sum(n for s, n in tally.statuses.items() if s // 100 == first))
        )
    slowest, which = tally.slowest
    return [*figures, verdict.plain("slowest_seconds", slowest, which[:100]), verdict.plain("minutes", seconds / 60)]


def tell(faults: Sequence[str]) -> None:
    """The first of them on the terminal, all of them in a file."""
    path = BUILD / "fuzz_faults.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{fault}\n" for fault in faults))
    for fault in faults[:SHOWN]:
        print(fault)
    if len(faults) > SHOWN:
        print(f"... and {len(faults) - SHOWN} more in {path}")


def measured(
    orders: tuple[Order, ...],
    places: Iterable[tuple[Order, str]],
    folder: Path,
    seed: int,
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> tuple[list[Figure], Tally]:
    """The figures, and what they were judged from. With numbers, only that request or story of a part."""
    tally, outcome, begun = Tally(), Outcome(), time.monotonic()
    for order, url in places:
        asyncio.run(watched(order, url, folder, tally, outcome, seed, numbers.get(order.part)))
        print(f"{order.part} on {order.dialect} is done: {so_far(tally)}", file=sys.stderr, flush=True)
    amount = expected(orders, bool(numbers))
    return judged(tally, outcome, orders, amount, time.monotonic() - begun), tally


def main(words: Sequence[str]) -> int:
    orders, seed = chosen(words), int(os.environ.get("SEED") or 1)
    numbers = {part: int(number) for part, _, number in (word.partition(":") for word in words) if number}
    print(f"seed {seed}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="oncue-fuzz-") as folder, addresses(orders, Path(folder)) as places:
        figures, tally = measured(orders, places, Path(folder), seed, numbers)
    tell(tally.all_faults)
    verdict.write(figures, BUILD / "fuzz.json")
    verdict.show(figures)
    return verdict.exit_code(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
