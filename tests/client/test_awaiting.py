"""The same verbs, awaited."""

from __future__ import annotations

import asyncio

import pytest

from oncue import AsyncClient, JobNotFound, NewJob
from tests.client.conftest import Shop
from tests.client.test_asking_again import MakeProxy


async def test_the_same_verbs(stored_shop: Shop) -> None:
    async with AsyncClient(stored_shop.url) as client:
        receipts = await asyncio.gather(*(client.enqueue("add", {"a": number}) for number in range(20)))
        more = await client.enqueue_many([NewJob("add", {"a": 1}, queue="sums")])
        ids = sorted(receipt.id for receipt in (*receipts, *more))
        assert [job.id async for job in client.jobs.all(page=8)] == ids[::-1]
        assert (await client.jobs.get(ids[0])).state == "queued"
        with pytest.raises(JobNotFound):
            await client.jobs.get(999)
        assert repr(client) == f"<AsyncClient of {stored_shop.url}>"
    async with client:
        assert (await client.jobs.stats()).queued == 21, "a client that was closed opens what it needs"


async def test_webhooks_too(shop: Shop) -> None:
    async with AsyncClient(shop.url) as client:
        await client.webhooks.create("orders", url="https://shop.example/")
        sent = await client.webhooks.deliver("orders", {"order": 7})
        bare = await client.deliver("https://other.example/", {"order": 8})
        assert [one.id async for one in client.webhooks.all_executions(page=1)] == [bare.uid, sent.uid]
        assert (await client.webhooks.execution(sent.uid)).payload == {"order": 7}


async def test_what_nobody_waits_for_is_not_asked_again(shop: Shop, make_proxy: MakeProxy) -> None:
    proxy = make_proxy(shop.url)
    proxy.away = True
    async with AsyncClient(proxy.url, patience=3600) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.jobs.stats()
        threads = client._threads
        assert threads is not None
        await asyncio.to_thread(threads.shutdown)  # it ends soon, not after an hour
        proxy.away = False
    async with client:
        assert (await client.jobs.stats()).queued == 0
