"""What the dashboard shows beside plain jobs, the addresses of its pages, and tabs that stay open."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

import asyncpg

from bench.server.markup import Read, leading_on
from bench.server.site import WARM_UP, Site, asked
from bench.server.tasks import declare
from oncue import Oncue
from oncue.model import STATES
from oncue.verbs.schedules.declaring import Declaring

SCHEDULE, WEBHOOK, WINDOW = "nightly", "orders", "digest"
SUBJECTS = 50
# A schedule's runs, a webhook's deliveries, its slots and what operators did: all grow, as jobs do.
RUNS = """
insert into oncue_jobs (id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, started_at, finished_at, attempt, schedule_id, scheduled_for,
                        group_name)
select $1 + n, case when $5 then 'oncue.deliver' else 'noop' end, case when $5 then 'webhooks' else 'default' end, 5,
       case when n % 8 = 0 then 'failed' else 'succeeded' end, $3, '{}', 'bench', at, at, at, at, 3, at, at, 1,
       case when $5 then null else $4::bigint end, case when $5 then null else at end, case when $5 then 'orders' end
  from generate_series(1, $2::int) as n
 cross join lateral (select now() - ($2 - n + 1) * interval '1 min' as at) as made
"""
SLOTS = """
insert into oncue_slots (schedule_id, subject, scheduled_for, slots, verdict, job_id, revision, decided_at, decided_by,
                         epoch, outcome, started_at, finished_at, worker)
select schedule_id, '', scheduled_for, 1, 'fired', id, 1, scheduled_for, gen_random_uuid(), 1, state, started_at,
       finished_at, 'bench'
  from oncue_jobs where schedule_id = $1
"""
AUDIT = """
insert into oncue_audit (at, actor, action, subject, before, after)
select now() - n * interval '1 min', 'bench', 'queue.pause', 'queue:mail', '{}', '{}'
  from generate_series(1, $1::int) as n
"""
COUNTED = """
insert into oncue_counters (queue, task, state, jobs)
select queue, task, state, count(*) from oncue_jobs where id > $1 group by 1, 2, 3
"""
# A few jobs that end in each second, so that pages have something new to show.
LIVELY = """
with ended as (
    update oncue_jobs set state = 'succeeded', started_at = now(), finished_at = now(), updated_at = now(), attempt = 1
     where id in (select id from oncue_jobs where state = 'queued' and queue = 'default' limit 5)
     returning queue, task, state)
insert into oncue_counter_deltas (queue, task, state, jobs) select queue, task, state, 1 from ended
"""
STATEMENTS = "select xact_commit from pg_stat_database where datname = current_database()"
TICKS = os.sysconf("SC_CLK_TCK")


async def furnish(dsn: str, amount: int) -> None:
    """A schedule with so many runs, a webhook with so many deliveries, a window, queues with limits, an audit log."""
    app = Oncue(dsn)
    declare(app)
    await Declaring(app.internals).synchronise()
    for number in range(20):
        name = SCHEDULE if number == 0 else f"{SCHEDULE} {number}"
        await app.schedules.create(name, f"{number} 3 * * *", "noop")
        await app.webhooks.create(WEBHOOK if number == 0 else f"{WEBHOOK}-{number}", url="https://shop.example/hooks")
    await app.windows.add_many(WINDOW, [{"subject": f"user {number}", "at": "09:00"} for number in range(SUBJECTS)])
    await app.queues.limit("mail", globally=50)
    await app.queues.pause("reports")
    schedule = await app.schedules.get(SCHEDULE)
    connection = await asyncpg.connect(dsn)
    try:
        last = int(await connection.fetchval("select coalesce(max(id), 0) from oncue_jobs"))
        await connection.execute(RUNS, last, amount, "{}", schedule.id, False, timeout=600)
        carried = '{"webhook": "orders", "payload": "{}"}'
        await connection.execute(RUNS, last + amount, amount, carried, None, True, timeout=600)
        await connection.execute(SLOTS, schedule.id, timeout=600)
        await connection.execute(AUDIT, amount, timeout=600)
        await connection.execute(COUNTED, last, timeout=600)
        await connection.execute("select setval('oncue_job_ids', $1)", last + 2 * amount)
        await connection.execute("vacuum analyze", timeout=600)
    finally:
        await connection.close()
    await app.aclose()


# --- pages -----------------------------------------------------------------------------------------------------------

MOST_PAGES, MOST_PARAMETERS = 250, 2
_clients = count(2)


@contextlib.contextmanager
def client(site: Site) -> Iterator[http.client.HTTPConnection]:
    """A connection from an address of its own: a server answers each client only so often."""
    number = next(_clients)
    source = (f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{1 + number % 250}", 0)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", site.port, source_address=source)) as connection:
        yield connection


def kind_of(address: str) -> tuple[str, ...]:
    """What pages of one kind have in common: numbers and names are others in each database."""
    parts = urlsplit(address)
    words = [part for part in parts.path.split("/") if part]
    asked = [(name, value if value in STATES else "") for name, value in parse_qsl(parts.query)]
    shape = [*words[:1], *("*" if number == 0 else word for number, word in enumerate(words[1:]))]
    return ("/".join(shape), *sorted(f"{name}={value}" for name, value in asked))


def kinds(site: Site) -> dict[tuple[str, ...], str]:
    """An address of each kind of page, found by following links from the overview."""
    found: dict[tuple[str, ...], str] = {}
    waiting, number = deque(["/"]), 0
    while waiting and number < MOST_PAGES:
        address = waiting.popleft()
        if len({name for name, _ in parse_qsl(urlsplit(address).query)}) > MOST_PARAMETERS:
            continue
        if kind_of(address) in found or address.startswith(("/static", "/sign", "/api")):
            continue
        number += 1
        with client(site) as connection:
            connection.request("GET", address)
            answer = connection.getresponse()
            body = answer.read().decode()
        if answer.status == 200:
            found[kind_of(address)] = address
            waiting.extend(leading_on(Read(body), address))
    return found


def medians(pairs: Sequence[tuple[Site, str]], times: int) -> list[float]:
    """How many milliseconds each of these addresses takes. They are asked in turn: what else the machine does strikes
    them alike."""
    with contextlib.ExitStack() as stack:
        asks = [(stack.enter_context(client(site)), address) for site, address in pairs]
        rounds = [[asked(connection, address) for connection, address in asks] for _ in range(WARM_UP + times)]
    return [statistics.median(taken) for taken in zip(*rounds[WARM_UP:], strict=True)]


# --- tabs ------------------------------------------------------------------------------------------------------------


class Tab:
    """One stream of events. It reads what comes, as a browser does."""

    def __init__(self) -> None:
        self.events = 0
        self.bytes = 0

    async def watch(self, port: int, page: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        try:
            asking = f"GET /live?page={quote(page, safe='')} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
            writer.write(asking.encode())
            status = await reader.readline()
            assert b" 200 " in status, status
            while chunk := await reader.read(2**16):
                self.bytes += len(chunk)
                self.events += chunk.count(b"event: page")
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def tabs(port: int, pages: Sequence[str]) -> AsyncIterator[list[Tab]]:
    """A tab for each of these pages."""
    opened = [Tab() for _ in pages]
    watching = [asyncio.create_task(tab.watch(port, page)) for tab, page in zip(opened, pages, strict=True)]
    try:
        yield opened
        broken = [task for task in watching if task.done()]
        assert not broken, f"{len(broken)} streams have ended: {broken[0]}"
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


class Cost(NamedTuple):
    """What a server took while tabs were open."""

    share: float
    """Of a core."""
    statements: float
    """To the database, a second."""
    events: float
    """To each tab, a second."""


async def cost(site: Site, pages: Sequence[str], seconds: float, warm_up: float) -> Cost:
    """What so many tabs cost while a few jobs end in each second."""
    connection = await asyncpg.connect(site.dsn)
    living = asyncio.create_task(_live(site.dsn))
    try:
        async with tabs(site.port, pages) as opened:
            await asyncio.sleep(warm_up)
            began, cpu, sent = time.monotonic(), _cpu_seconds(site.pid), await _statements(connection)
            before = sum(tab.events for tab in opened)
            await asyncio.sleep(seconds)
            took = time.monotonic() - began
            used, asked_for = _cpu_seconds(site.pid) - cpu, await _statements(connection) - sent
            events = sum(tab.events for tab in opened) - before
        return Cost(used / took, asked_for / took, events / len(pages) / took)
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        await connection.close()


async def _live(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        while True:
            await connection.execute(LIVELY)
            await asyncio.sleep(1)
    finally:
        await connection.close()


async def _statements(connection: asyncpg.Connection) -> int:
    """How many the server has seen; its processes tell once a second."""
    await connection.execute("select pg_stat_clear_snapshot()")
    return int(await connection.fetchval(STATEMENTS))


def _cpu_seconds(pid: int) -> float:
    """What a process has used since it began."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS
