"""What the engine asks of a database: the verbs, noun by noun, and what each of them promises.

A store compares, copies, counts and orders. It decides nothing: which state a job takes, when it is due and which node
is lost arrives as values. Time is always an argument. Every verb is one transaction; when its reply is lost the caller
sees `StoreUnavailable` and knows only that it does not know. When another session holds a lock for longer than a verb
waits, it raises `RowLocked`, and has written nothing. Both stores pass one suite, `tests/store`.

Each change of a job is conditional on what its author knew of it, so that a late one changes nothing:

    jobs.claim   takes `queued` rows, best first, and raises their claim_no
    jobs.apply   writes a `Change` where (id, state, claim_no) still hold, and says which ones took
    the rest     read, or guard themselves in the same way
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeAlias

from oncue.store.contract.access import AuditLog, Requests, Sessions, Tokens
from oncue.store.contract.alerts import Alerts
from oncue.store.contract.application import Application
from oncue.store.contract.cluster import Cluster
from oncue.store.contract.jobs import Jobs
from oncue.store.contract.nodes import Leases, Nodes
from oncue.store.contract.queues import Counters, Groups, Queues
from oncue.store.contract.schedules import Schedules, Slots
from oncue.store.contract.webhooks import Webhooks
from oncue.store.contract.windows import Windows

__all__ = ["EXCLUSIVE", "LEADER", "NOUNS", "Store", "Wake"]

LEADER, EXCLUSIVE = "leader", "exclusive"
"""The leases that there are."""
NOUNS = (
    "jobs",
    "queues",
    "groups",
    "counters",
    "schedules",
    "slots",
    "webhooks",
    "windows",
    "cluster",
    "alerts",
    "nodes",
    "leases",
    "tokens",
    "sessions",
    "audit_log",
    "requests",
    "application",
)

Wake: TypeAlias = Callable[[bool], None]


class Store(Protocol):
    dialect: str

    @property
    def jobs(self) -> Jobs: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def groups(self) -> Groups: ...

    @property
    def counters(self) -> Counters: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def slots(self) -> Slots: ...

    @property
    def webhooks(self) -> Webhooks: ...

    @property
    def windows(self) -> Windows: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def alerts(self) -> Alerts: ...

    @property
    def nodes(self) -> Nodes: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def tokens(self) -> Tokens: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def audit_log(self) -> AuditLog: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def application(self) -> Application: ...

    async def open(self) -> None:
        """Connect and check the schema. Raises StoreUnavailable or SchemaMismatch."""

    async def close(self) -> None: ...

    async def migrate(self) -> list[str]:
        """Bring the tables up to date; the names of the steps taken."""
        ...

    async def create_views(self) -> list[str]:
        """Make the views in the contracts' words; their names. Raises NameClash if one is something else already."""
        ...

    async def time(self) -> datetime:
        """The database's clock."""
        ...

    async def watch(self, wake: Wake) -> None:
        """Call `wake` whenever another process may have changed something. A hint: it may be lost or idle.

        Its argument says whether a job may be due sooner than `promote` last told.
        """

    def hint(self) -> None:
        """Tell the other processes soon that something may have changed, about which no verb tells them."""
