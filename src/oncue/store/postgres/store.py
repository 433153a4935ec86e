"""The store on PostgreSQL, put together from its nouns."""

from __future__ import annotations

from datetime import datetime

from oncue.store.contract import Wake
from oncue.store.postgres.alerts import PostgresAlerts
from oncue.store.postgres.application import PostgresApplication
from oncue.store.postgres.audit_log import PostgresAuditLog
from oncue.store.postgres.cluster import PostgresCluster
from oncue.store.postgres.counters import PostgresCounters
from oncue.store.postgres.database import DIALECT, Database
from oncue.store.postgres.groups import PostgresGroups
from oncue.store.postgres.jobs import PostgresJobs
from oncue.store.postgres.leases import PostgresLeases
from oncue.store.postgres.nodes import PostgresNodes
from oncue.store.postgres.queues import PostgresQueues
from oncue.store.postgres.requests import PostgresRequests
from oncue.store.postgres.schedules import PostgresSchedules
from oncue.store.postgres.sessions import PostgresSessions
from oncue.store.postgres.slots import PostgresSlots
from oncue.store.postgres.tokens import PostgresTokens
from oncue.store.postgres.webhooks import PostgresWebhooks
from oncue.store.postgres.windows import PostgresWindows
from oncue.store.statements import DEFAULT_SCHEMA


class PostgresStore:
    dialect = DIALECT

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        size: int = 6,
        prepare: bool = True,
        listen: bool = True,
        patience: float | None = None,
    ) -> None:
        self.schema = schema
        self.database = Database(dsn, schema=schema, size=size, prepare=prepare, listen=listen, patience=patience)
        self.jobs = PostgresJobs(self.database)
        self.counters = PostgresCounters(self.database)
        self.queues = PostgresQueues(self.database, self.counters)
        self.groups = PostgresGroups(self.database)
        self.schedules = PostgresSchedules(self.database)
        self.slots = PostgresSlots(self.database)
        self.webhooks = PostgresWebhooks(self.database)
        self.windows = PostgresWindows(self.database)
        self.cluster = PostgresCluster(self.database)
        self.alerts = PostgresAlerts(self.database)
        self.nodes = PostgresNodes(self.database)
        self.leases = PostgresLeases(self.database)
        self.tokens = PostgresTokens(self.database)
        self.sessions = PostgresSessions(self.database)
        self.audit_log = PostgresAuditLog(self.database)
        self.requests = PostgresRequests(self.database)
        self.application = PostgresApplication(self.database)

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
        await self.database.notifications.watch(wake)

    def hint(self) -> None:
        self.database.notifications.send()

    async def session_limits(self) -> tuple[str, int, int]:
        """The role of a session, and after how many milliseconds it gives up: a lock, an idle transaction. 0: never."""
        role, lock, idle = (await self.database.fetch("session_limits"))[0]
        return role, lock, idle

    @property
    def pooled(self) -> bool:
        """Whether a pooler was met, and statements are prepared all the same."""
        return self.database.connections.pooled
