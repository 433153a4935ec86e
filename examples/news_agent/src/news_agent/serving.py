"""`news_agent serve`: worker, pages and API in one process, until a signal says stop."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from news_agent.jobs import app, daily_digest, engine
from news_agent.settings import Settings
from news_agent.web import news_api
from oncue.cli.process import run_worker
from oncue.errors import SchemaMismatch
from oncue.observe import logs
from oncue.server import address
from oncue.verbs.schedules.declaring import Declaring

_log = logging.getLogger("news_agent")


def serve(settings: Settings) -> None:
    own = app.settings
    where = address.parse(own.http_addr or "", own.origin("http_addr"))
    logs.configure(own.log_level, own.log_format)
    listening = address.listen(where)
    asyncio.run(_prepare(settings))
    run_worker(app, listening, make_api=news_api)


async def _prepare(settings: Settings) -> None:
    try:
        await prepare()
        if settings.limit_is_given:
            await app.queues.limit(daily_digest.queue, globally=settings.max_concurrency, by="MAX_CONCURRENCY")
    finally:
        await app.aclose()


async def prepare() -> None:
    """Make what is missing: oncue's tables, this program's tables, and the window. Safe to repeat."""
    await _migrate()
    await asyncio.to_thread(engine)
    await Declaring(app.internals).synchronise()


async def _migrate() -> None:
    store = app.internals.make_store()
    try:
        with suppress(SchemaMismatch):  # that is what we came for
            await store.open()
        await store.migrate()
    finally:
        await store.close()
