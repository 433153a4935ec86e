"""Responses that are made to exhaust the reader: memory and time stay bounded."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial

import pytest

from oncue.webhooks.connections import BoundedResponses, GuardedConnector
from oncue.webhooks.egress import Allowed
from tests.webhooks.bombs import ANSWERED, BOMBS, TIMEOUT, explode
from tests.webhooks.servers import serving

MOST_GROWTH = 32.0  # MB
GRACE = 1.0


@pytest.mark.contract("HOOK-19", "HOOK-4")
async def test_two_hundred_bombs_at_once_of_each_kind() -> None:
    """Memory grows by less than 32 MB in all, and each delivery ends within its time-out plus a second."""
    async with serving(explode) as server:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.webhooks.bombs", str(server.port), stdout=asyncio.subprocess.PIPE
        )
        told, _ = await client.communicate()
        assert client.returncode == 0
    found = json.loads(told)
    assert found.keys() == BOMBS.keys()
    for name, (outcomes, seconds, growth) in found.items():
        assert set(outcomes) <= ({"200"} if name in ANSWERED else {"network", "timeout"}), (name, outcomes)
        assert seconds < TIMEOUT + GRACE, (name, seconds)
        assert growth < MOST_GROWTH, (name, growth)


async def test_aiohttp_takes_the_protocol_that_bounds_responses() -> None:
    """The one place where a private name of aiohttp is used: this fails when the name changes."""
    connector = GuardedConnector(Allowed.parse(["127.0.0.1"]), lambda host, port: ["127.0.0.1"], 10.0)
    assert isinstance(connector._factory, partial)
    assert connector._factory.func is BoundedResponses
    await connector.close()
