"""`oncue alerts list`: how the SLOs and alerts stand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from oncue import Oncue
from oncue.model import AlertBook, AlertState
from oncue.store.contract import LEADER
from tests.cli.conftest import Shell

NOW = datetime(2030, 1, 1, 8, 30, tzinfo=UTC)
TOLD = "2030-01-01T08:30:00Z"
STATES = (
    AlertState("cutoff_rate", "digest", 0.002, 0.01, text="1 of 500 users of digest reached their cutoff (0.2%)"),
    AlertState("predicted_misses", "digest", 214, 5, 3, NOW, NOW, 540, "214 users miss 09:00"),
    AlertState("saturation", "windows", 0.9, 0.8, 1, NOW, text="all seats of queue windows were taken"),
)


async def written(url: str, *states: AlertState) -> None:
    app, node = Oncue(url), uuid4()
    store = (await app.internals.connected()).store
    await store.migrate()
    if states:
        lease = await store.leases.acquire(LEADER, node, "test", NOW, NOW + timedelta(days=1), respect=None)
        assert lease is not None
        assert await store.alerts.write(AlertBook(0, None, states), NOW, node=node, epoch=lease.epoch)
    await app.aclose()


@pytest.mark.contract("WIN-17", "QUE-20")
def test_each_is_listed_with_its_value_its_threshold_and_since_when(oncue: Shell, shop: str) -> None:
    asyncio.run(written(shop, *STATES))
    listed = oncue("alerts", "list")
    assert listed.code == 0
    lines = [line for line in listed.out.splitlines() if "digest" in line or "windows" in line]
    assert [("warned" in line, "breached" in line) for line in lines] == [(True, False), (False, True), (False, False)]
    assert "214" in lines[0]
    document = oncue("alerts", "list", "--json").json
    assert document["evaluated_at"] == TOLD
    assert document["alerts"][1] == {
        "alert": "predicted_misses", "of": "digest", "state": "warned", "value": 214, "threshold": 5, "breaches": 3,
        "since": TOLD, "warned_at": TOLD, "due_at": "09:00",
        "text": "214 users miss 09:00",
    }  # fmt: skip
    assert [one["state"] for one in document["alerts"]] == ["ok", "warned", "breached"]


def test_before_the_first_evaluation_there_is_nothing_to_show(oncue: Shell, shop: str) -> None:
    asyncio.run(written(shop))
    assert "Nothing was evaluated yet" in oncue("alerts", "list").out
    assert oncue("alerts", "list", "--json").json == {"evaluated_at": None, "alerts": []}


def test_the_rules_for_prometheus_are_still_what_the_bare_command_prints(oncue: Shell) -> None:
    assert "OncueQueueDepth" in oncue("alerts").out
    assert "> 5000" in oncue("alerts", "--queue-depth", "5000").out
    assert oncue("alerts", "lost").code == 2
