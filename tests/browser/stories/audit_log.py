"""Changes by hand of all kinds, by several people; so many that there is a second page."""

from __future__ import annotations

from oncue import Oncue

CHANGES = 110


def declare(app: Oncue) -> None:
    @app.task(name="audit_log.invoice", queue="audit_log.mail")
    async def invoice(number: int) -> None:
        """Waits for ever: no worker serves its queue."""


async def tell(app: Oncue) -> list[str]:
    for number in range(CHANGES):
        await app.queues.limit("audit_log.bulk", globally=number + 1, by="cli:cron")
    receipts = await app.find("audit_log.invoice").aenqueue_many([(1,), (2,), (3,)])
    await app.jobs.prioritize(receipts[0].id, 90, by="token:anna#abcdefgh")
    await app.jobs.cancel(receipts[1].id, by="local")
    await app.jobs.set_status(receipts[2].id, "succeeded", by="cli:berta")
    await app.queues.limit("audit_log.mail", globally=50, rate="100/s", by="cli:anna")
    await app.queues.limit("audit_log.mail", globally=20, rate=None, by="cli:anna")
    await app.queues.pause("audit_log.mail", group="tenant:7", for_="10m", by="token:anna#abcdefgh")
    await app.queues.pause("audit_log.mail", by="cli:berta")
    return ["/audit-log", "/audit-log?subject=queue%3Aaudit_log.mail", "/audit-log?actor=nobody-of-that-name"]
