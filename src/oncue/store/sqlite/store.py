"""The store on SQLite, put together from its nouns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from oncue.clock import wall
from oncue.store.contract import Wake
from oncue.store.sqlite.alerts import SqliteAlerts
from oncue.store.sqlite.application import SqliteApplication
from oncue.store.sqlite.audit_log import SqliteAuditLog
from oncue.store.sqlite.cluster import SqliteCluster
from oncue.store.sqlite.counters import SqliteCounters
from oncue.store.sqlite.database import BUSY_SECONDS, DIALECT, Database
from oncue.store.sqlite.groups import SqliteGroups
from oncue.store.sqlite.jobs import SqliteJobs
from oncue.store.sqlite.leases import SqliteLeases
from oncue.store.sqlite.nodes import SqliteNodes
from oncue.store.sqlite.queues import SqliteQueues
from oncue.store.sqlite.requests import SqliteRequests
from oncue.store.sqlite.schedules import SqliteSchedules
from oncue.store.sqlite.sessions import SqliteSessions
from oncue.store.sqlite.slots import SqliteSlots
from oncue.store.sqlite.tokens import SqliteTokens
from oncue.store.sqlite.webhooks import SqliteWebhooks
from oncue.store.sqlite.windows import SqliteWindows


class SqliteStore:
    """One file, any number of processes on one host. `inline` keeps everything in the caller's thread."""

    dialect = DIALECT

    def __init__(
        self,
        path: str,
        *,
        inline: bool = False,
        wall: Callable[[], datetime] = wall,
        migrate: bool = True,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path
        self.database = Database(path, inline=inline, wall=wall, migrate=migrate, busy_seconds=busy_seconds)
        self.jobs = SqliteJobs(self.database)
        self.counters = SqliteCounters(self.database)
        self.queues = SqliteQueues(self.database, self.counters)
        self.groups = SqliteGroups(self.database)
        self.schedules = SqliteSchedules(self.database)
        self.slots = SqliteSlots(self.database, self.jobs)
        self.webhooks = SqliteWebhooks(self.database)
        self.windows = SqliteWindows(self.database, self.jobs)
        self.cluster = SqliteCluster(self.database, self.jobs)
        self.alerts = SqliteAlerts(self.database, self.jobs)
        self.nodes = SqliteNodes(self.database)
        self.leases = SqliteLeases(self.database)
        self.tokens = SqliteTokens(self.database)
        self.sessions = SqliteSessions(self.database)
        self.audit_log = SqliteAuditLog(self.database)
        self.requests = SqliteRequests(self.database)
        self.application = SqliteApplication(self.database)

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

    async def version(self) -> int:
        return await self.database.version()

    async def migrate(self) -> list[str]:
        return await self.database.migrate()

    async def create_views(self) -> list[str]:
        return await self.database.create_views()

    async def time(self) -> datetime:
        return await self.database.time()

    async def watch(self, wake: Wake) -> None:
        await self.database.watch(wake)

    def hint(self) -> None:
        """Nothing: every process notices every commit."""
