"""`webhook_cron serve`: scheduler, dispatcher and HTTP in one process, until a signal says stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from oncue import Oncue
from oncue.cli.process import run_worker
from oncue.errors import SchemaMismatch
from oncue.observe import logs
from oncue.server import address
from webhook_cron.api import job_api


def serve(app: Oncue) -> None:
    settings = app.settings
    where = address.parse(settings.http_addr or "", settings.origin("http_addr"))
    logs.configure(settings.log_level, settings.log_format)
    asyncio.run(migrate(app))
    run_worker(app, address.listen(where), make_api=job_api)


async def migrate(app: Oncue) -> None:
    """Make oncue's tables, and the views `executions` and `delivery_attempts`. Safe to repeat."""
    store = app.internals.make_store()
    try:
        with suppress(SchemaMismatch):  # that is what we came for
            await store.open()
        await store.migrate()
        await store.create_views()
    finally:
        await store.close()
