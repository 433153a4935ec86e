"""The tables know whose they are."""

from __future__ import annotations

import asyncio

from oncue.model import Note, Owner
from oncue.store import Store
from tests.conftest import MakeStore
from tests.store.scene import NOW, after

SHOP, BLOG = Owner("shop", False, NOW), Owner("blog", True, after(seconds=1))


async def test_tables_have_no_owner_until_one_takes_them(store: Store) -> None:
    assert await store.application.owner() is None
    assert await store.application.own(SHOP, None, NOW)
    assert await store.application.owner() == SHOP


async def test_the_owner_changes_only_for_a_caller_that_knows_it(store: Store) -> None:
    assert not await store.application.own(BLOG, SHOP, NOW), "there is none yet"
    assert await store.application.owner() is None
    assert await store.application.own(SHOP, None, NOW)
    assert not await store.application.own(BLOG, None, NOW)
    assert not await store.application.own(BLOG, SHOP._replace(given=True), NOW)
    assert await store.application.own(BLOG, SHOP, NOW)
    assert not await store.application.own(SHOP, SHOP, NOW)
    assert await store.application.owner() == BLOG


async def test_of_many_that_take_the_tables_at_once_one_gets_them(store: Store, make_store: MakeStore) -> None:
    stores = [store, *[await make_store() for _ in range(4)]]
    wanted = [Owner(f"app-{number}", True, NOW) for number in range(len(stores))]
    took = await asyncio.gather(
        *(one.application.own(owner, None, NOW) for one, owner in zip(stores, wanted, strict=True))
    )
    assert sum(took) == 1
    assert await store.application.owner() == wanted[took.index(True)]


async def test_a_change_by_hand_is_in_the_audit_log(store: Store) -> None:
    note = Note("ann", "application.rename", "application", {"name": "shop"}, {"name": "blog"})
    assert await store.application.own(SHOP, None, NOW)
    assert not await store.application.own(BLOG, None, NOW, note=note)
    assert await store.audit_log.page() == []
    assert await store.application.own(BLOG, SHOP, NOW, note=note)
    (line,) = await store.audit_log.page()
    assert (line.actor, line.action, line.before, line.after) == ("ann", "application.rename", *note[3:])
