"""Tokens that are valid, expired and revoked. The dashboard asks for none of them: it stays open to this machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from oncue import Oncue


def declare(app: Oncue) -> None:
    pass


async def tell(app: Oncue) -> list[str]:
    return ["/settings", "/settings?all=1", "/settings/doctor", "/settings/access"]


async def make_tokens(app: Oncue) -> str:
    """Tokens in all their states, and sessions; the text of one with the scope admin. From here on one is needed."""
    _, text = await app.tokens.create("settings-admin", ["admin"], by="cli:anna")
    shop, shop_text = await app.tokens.create("settings-shop", ["read", "enqueue"], expires="90d", by="cli:anna")
    old, _ = await app.tokens.create("settings-old-deploy", ["operate"], expires="1h", by="cli:berta")
    await app.tokens.create("settings-soon-over", ["read"], expires="3h", by="cli:berta")
    await app.tokens.revoke(old.id, by="cli:berta")
    store, now = (await app.internals.connected()).store, await app.now()
    over = replace(shop, id="aaaabbbb", name="settings-expired", expires_at=now - timedelta(days=2))
    await store.tokens.add(over)
    await app.sessions.start(shop_text)
    await app.sessions.start(shop_text)
    return text
