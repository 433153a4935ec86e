"""Lookups of names whose name server hangs, beside those that are answered."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncue.webhooks import name_lookups
from oncue.webhooks.name_lookups import MOST_LOOKUPS, NameLookups


@pytest.mark.contract("HOOK-5")
async def test_many_names_that_hang_for_the_first_time_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_lookups, "PATIENCE", 0.05)
    end = threading.Event()

    def lookup(host: str, port: int) -> list[str]:
        if host.startswith("dead"):
            end.wait(20)
        return ["192.0.2.1"]

    lookups = NameLookups(lookup)
    hanging = [asyncio.create_task(lookups.resolve(f"dead-{n}.example", 443)) for n in range(MOST_LOOKUPS + 8)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            (found,) = await lookups.resolve("healthy.example", 443)
        assert found["host"] == "192.0.2.1"
    finally:
        end.set()
        assert len(await asyncio.gather(*hanging)) == MOST_LOOKUPS + 8
    assert lookups._lingering == 0
    assert lookups._room._value == MOST_LOOKUPS


@pytest.mark.contract("HOOK-5")
@pytest.mark.parametrize("suffix", ["example", "co.uk"])
async def test_four_domains_whose_names_all_hang_leave_room_for_others(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long they hang: none gives up its place here."""
    monkeypatch.setattr(name_lookups, "PATIENCE", 3600.0)
    end = threading.Event()

    def lookup(host: str, port: int) -> list[str]:
        if host.startswith("dead"):
            end.wait(60)
        return ["192.0.2.1"]

    lookups = NameLookups(lookup)
    names = [f"dead-{number}.domain-{domain}.{suffix}" for domain in range(4) for number in range(20)]
    hanging = [asyncio.create_task(lookups.resolve(name, 443)) for name in names]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            (found,) = await lookups.resolve(f"hooks.healthy.{suffix}", 443)
        assert found["host"] == "192.0.2.1"
    finally:
        end.set()
        assert len(await asyncio.gather(*hanging)) == len(names)
