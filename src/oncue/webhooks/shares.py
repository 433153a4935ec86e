"""How much of the queue of deliveries each endpoint may have at once."""

from __future__ import annotations

from oncue.model import WEBHOOKS_QUEUE, Limits
from oncue.webhooks.lookups import OpenStore


async def share_out(connected: OpenStore, share: int, queue: str = WEBHOOKS_QUEUE) -> None:
    """Give each endpoint its share of what runs at once, unless an operator has set limits already."""
    await connected.store.queues.default_limits(queue, Limits(per_group=share), connected.now())
