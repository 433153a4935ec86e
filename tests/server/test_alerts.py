"""SLOs and alerts over HTTP, on each back end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from oncue.model import AlertBook, AlertState, Minute
from oncue.policy.minutes import minute_of
from oncue.store.contract import LEADER
from tests.server.conftest import Api

SINCE = datetime(2030, 1, 1, 8, 30, tzinfo=UTC)


@pytest.mark.contract("WIN-17", "QUE-20")
async def test_each_is_told_with_its_value_its_threshold_and_since_when(api: Api) -> None:
    assert await api.get("/api/admin/alerts") == {"evaluated_at": None, "alerts": []}
    store, now, node = (await api.app.internals.connected()).store, await api.app.now(), uuid4()
    lease = await store.leases.acquire(LEADER, node, "test", now, now + timedelta(minutes=5), respect=None)
    assert lease is not None
    states = (
        AlertState("predicted_misses", "digest", 214, 5, 3, SINCE, SINCE, 540, "214 users miss 09:00"),
        AlertState("queue_depth", "mail", 0, 1000, text="0 jobs wait in mail"),
    )
    assert await store.alerts.write(AlertBook(0, None, states), now, node=node, epoch=lease.epoch)
    told = await api.get("/api/admin/alerts")
    assert told["evaluated_at"] == now.isoformat().replace("+00:00", "Z")
    assert told["alerts"][0] == {
        "alert": "predicted_misses", "of": "digest", "state": "warned", "value": 214.0, "threshold": 5.0, "breaches": 3,
        "since": "2030-01-01T08:30:00Z", "warned_at": "2030-01-01T08:30:00Z", "due_at": "09:00",
        "text": "214 users miss 09:00",
    }  # fmt: skip
    assert told["alerts"][1]["state"] == "ok"


async def test_what_was_measured_lately_is_read_by_minutes(api: Api) -> None:
    store, last = (await api.app.internals.connected()).store, minute_of(await api.app.now())
    rows = [Minute(last - timedelta(minutes=back), uuid4(), "tick", "", {"ms": {"1": 1}}) for back in (1, 30, 90)]
    await store.alerts.append(rows)
    found = await api.app.alerts.minutes(timedelta(hours=1))
    assert [row.minute for row in found] == [rows[1].minute, rows[0].minute]
