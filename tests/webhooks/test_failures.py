"""What a process remembers of endpoints that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncue.telemetry import Telemetry
from oncue.webhooks import delivery
from oncue.webhooks.delivery import Deliveries
from oncue.webhooks.lookups import EndpointNow
from tests.store.scene import NOW


async def test_failures_of_endless_endpoints_are_counted_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries go to any URL: each that fails once and is never called again would stay for ever."""
    monkeypatch.setattr(delivery, "MOST_FAILING", 3)
    nothing: Any = None
    deliveries = Deliveries(nothing, nothing, {}, Telemetry(), lambda: 5, lambda: 10)
    connected: Any = SimpleNamespace(now=lambda: NOW)

    async def fails(group: str) -> None:
        await deliveries._judge("webhooks", group, EndpointNow(connected, None), "down")

    for group in ("a", "b", "c", "a", "d", "e", "a"):
        await fails(group)
    assert deliveries._failures == {"d": 1, "e": 1, "a": 3}, "those that failed least lately are forgotten"
