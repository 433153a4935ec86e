"""Listings, walked page by page: what they show is disjoint, complete and in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fuzz.calls import AUDIT, JOBS, PLANS
from fuzz.teller import Teller
from oncue.model import STATES, State

MOST_PAGES = 12


async def _walked(teller: Teller, path: str, name: str, identity: str, expected: Sequence[Any]) -> None:
    """Follow `next` from the first page on, and compare with what there is. Very long listings are walked in part."""
    seen: list[Any] = []
    where: str | None = path
    said = None
    for _ in range(MOST_PAGES):
        if where is None:
            break
        said = await teller.ask("GET", where)
        if said.status != 200:
            teller.hold(said, False, "the next page is not there")
            return
        seen += [record[identity] for record in said.json[name]]
        where = said.json["next"]
    assert said is not None
    wanted = list(expected) if where is None else list(expected)[: len(seen)]
    teller.hold(said, len(set(seen)) == len(seen), f"{path}: a row is on two pages")
    teller.hold(
        said,
        seen == wanted,
        f"{path}: the pages show {len(seen)} rows, expected {len(wanted)}: {seen[:5]} {wanted[:5]}",
    )


async def of_jobs(teller: Teller) -> None:
    dice, app = teller.dice, teller.app
    states: tuple[State, ...] = tuple(dice.sample(STATES, dice.choice((0, 1, 2))))
    queue, task = dice.choice((None, "told", "mail", "default")), dice.choice((None, "add", "letter"))
    found = await app.jobs.list(states, queue=queue, task=task, limit=100_000)
    query = [f"limit={dice.choice((1, 2, 7, 50))}"]
    query += (
        [f"status={','.join(states)}"] * bool(states) + [f"queue={queue}"] * bool(queue) + [f"task={task}"] * bool(task)
    )
    skipped = dice.choice((0, 0, 3))
    query += [f"offset={skipped}"] * bool(skipped)
    await _walked(teller, f"{JOBS}?{'&'.join(query)}", "jobs", "id", [job.id for job in found][skipped:])


async def of_schedules(teller: Teller) -> None:
    found = await teller.app.schedules.list(limit=100_000)
    limit, skipped = teller.dice.choice((1, 3, 50)), teller.dice.choice((0, 0, 2))
    path = f"{PLANS}?limit={limit}&offset={skipped}"
    await _walked(teller, path, "scheduled_jobs", "id", [schedule.id for schedule in found][skipped:])


async def of_the_audit_log(teller: Teller) -> None:
    actor = teller.dice.choice((None, "system", teller.actor))
    found = await teller.app.audit_log.list(actor=actor, limit=100_000)
    query = f"limit={teller.dice.choice((1, 9, 100))}" + (
        "" if actor is None else f"&actor={actor.replace('#', '%23')}"
    )
    await _walked(teller, f"{AUDIT}?{query}", "entries", "id", [entry.id for entry in found])


async def of_slots(teller: Teller) -> None:
    schedule = await teller.app.schedules.get("hourly")
    connected = await teller.app.internals.connected()
    rows = await connected.store.slots.between(
        schedule.id, schedule.created_at.replace(year=2000), connected.now(), 100_000
    )
    starts = [row.scheduled_for.isoformat().replace("+00:00", "Z") for row in rows]
    path = f"{PLANS}/hourly/slots?from=2000-01-01&to=now&limit={teller.dice.choice((1, 4, 100))}"
    await _walked(teller, path, "slots", "scheduled_for", starts)


LISTINGS: list[Callable[[Teller], Awaitable[None]]] = [of_jobs, of_jobs, of_schedules, of_the_audit_log, of_slots]
