"""A program with tables of its own beside oncue's, on each back end: what an enqueue shares a transaction with."""

from __future__ import annotations

import sqlite3

import asyncpg

from oncue import Oncue, Task
from tests.app.drivers import path_of

MAKE = "create table if not exists orders (id integer primary key)"


class Shop:
    def __init__(self, app: Oncue, url: str) -> None:
        self.app = app
        self.url = url
        self.send = declare(app)

    async def open(self) -> None:
        await self.app.internals.connected()  # an SQLite file gets its tables when the application first opens it
        await rows(self.url, MAKE)

    async def close(self) -> None:
        await rows(self.url, "drop table orders")

    async def orders(self) -> list[int]:
        return [row[0] for row in await rows(self.url, "select id from orders order by id")]

    async def sent(self) -> list[int]:
        """The orders that there is a job for, in the order of the jobs, as everyone else sees it."""
        return [job.args["order_id"] for job in reversed(await self.app.jobs.list())]


def declare(app: Oncue) -> Task[[int], None]:
    @app.task(queue="mail", priority=20)
    def send(order_id: int) -> None: ...

    return send


async def rows(url: str, statement: str) -> list[tuple[int, ...]]:
    """Ask the database on a connection of its own."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(path_of(url), isolation_level=None)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()
    other = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await other.fetch(statement)]
    finally:
        await other.close()
