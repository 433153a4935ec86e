"""API tokens: made once, good until they expire or are revoked, and kept only as a digest."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

import pytest

from oncue import Conflict, InvalidJob, Oncue
from oncue.clock import VirtualClock
from oncue.errors import TokenNotFound
from tests.store.scene import query


async def held_still(app: Oncue) -> VirtualClock:
    """The application's clock, in the hands of the test."""
    connection = await app.internals.connected()
    clock = VirtualClock(connection.now())
    connection.clock = clock
    return clock


async def test_a_token_is_told_once_and_only_its_digest_is_kept(app: Oncue) -> None:
    token, text = await app.tokens.create("shop", ["enqueue", "read", "read"], expires="90d", by="ada")
    assert re.fullmatch(r"oncue_[a-z2-7]{8}_[A-Za-z0-9_-]{43}", text)
    _, token_id, secret = text.split("_", 2)
    assert (token.id, token.name, token.scopes, token.created_by) == (token_id, "shop", ("read", "enqueue"), "ada")
    assert token.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert token.expires_at == token.created_at + timedelta(days=90)
    (known,) = await app.tokens.list()
    assert known == token
    found = await app.tokens.authenticate(text)
    assert found is not None
    assert (found.id, found.scopes) == (token.id, token.scopes)
    stored = await query((await app.internals.connected()).store, "select * from oncue_tokens")
    logged = await query((await app.internals.connected()).store, "select * from oncue_audit")
    assert secret not in repr((stored, logged))
    assert token.digest not in repr(logged)


async def test_every_token_is_another(app: Oncue) -> None:
    texts = [(await app.tokens.create("shop", ["read"]))[1] for _ in range(20)]
    assert len({text[:14] for text in texts}) == len({text[15:] for text in texts}) == 20


async def test_what_is_no_token_is_nobody(app: Oncue) -> None:
    token, text = await app.tokens.create("shop", ["admin"])
    other, other_text = await app.tokens.create("other", ["read"])
    changed = "A" if text[-1] != "A" else "B"
    for wrong in (
        text[:-1] + changed,
        text[:-1],
        text + "A",
        f" {text}",
        text + "\n",
        text.upper(),
        text.replace(token.id, other.id),
        f"oncue_{token.id}_{other_text[15:]}",
        f"oncue_{token.id}_{token.digest}",
        f"oncue_{token.id}_",
        "oncue__",
        "",
        "ünïcode",
        "oncue_aaaaaaaa_" + "é" * 43,
        "x" * 100_000,
        "\x00",
        "\ud800",
        None,
        7,
        text.encode(),
    ):
        assert await app.tokens.authenticate(wrong) is None, wrong  # type: ignore[arg-type]
    assert await app.tokens.authenticate(text) is not None


async def test_a_token_expires(app: Oncue) -> None:
    clock = await held_still(app)
    _, text = await app.tokens.create("shop", ["read"], expires="1h")
    _, lasting = await app.tokens.create("shop", ["read"])
    clock.advance(timedelta(minutes=59, seconds=59))
    assert await app.tokens.authenticate(text) is not None
    clock.advance(timedelta(seconds=1))
    assert await app.tokens.authenticate(text) is None
    clock.advance(timedelta(days=3650))
    assert await app.tokens.authenticate(lasting) is not None


async def test_a_token_is_revoked_by_its_id_or_its_name(app: Oncue) -> None:
    one, one_text = await app.tokens.create("one", ["read"])
    two, two_text = await app.tokens.create("two", ["read"])
    revoked = await app.tokens.revoke(one.id, by="ada")
    assert revoked.revoked_at is not None
    assert await app.tokens.authenticate(one_text) is None
    assert await app.tokens.authenticate(two_text) is not None
    assert (await app.tokens.revoke("two")).id == two.id
    assert await app.tokens.authenticate(two_text) is None
    with pytest.raises(Conflict, match=f"token {one.id} \\(one\\) is revoked already"):
        await app.tokens.revoke("one")
    for nobody in ("three", "", one_text):
        with pytest.raises(TokenNotFound, match="there is no token"):
            await app.tokens.revoke(nobody)
    log = [
        (entry.actor, entry.action, entry.subject, entry.before, entry.after) for entry in await app.audit_log.list()
    ]
    assert log[1] == ("ada", "token.revoke", f"token:{one.id}", {"revoked": False}, {"revoked": True})
    assert log[3][1:4] == ("token.create", f"token:{one.id}", None)
    assert log[3][4] == {"name": "one", "scopes": ["read"], "expires_at": None}
    assert len(log) == 4


async def test_of_two_tokens_with_one_name_it_must_be_said_which(app: Oncue) -> None:
    """That is how one is replaced: the new one is made, handed over, and the old one revoked."""
    old, _ = await app.tokens.create("shop", ["read"])
    new, text = await app.tokens.create("shop", ["read"])
    with pytest.raises(Conflict, match=f"2 tokens have the name 'shop': say which by its id, {old.id}, {new.id}"):
        await app.tokens.revoke("shop")
    await app.tokens.revoke(old.id)
    assert await app.tokens.authenticate(text) is not None
    assert (await app.tokens.revoke("shop")).id == new.id


async def test_the_last_use_is_written_once_a_minute(app: Oncue) -> None:
    clock = await held_still(app)
    _, text = await app.tokens.create("shop", ["read"])
    begin, seen = clock.now(), []
    for seconds in (0, 30, 59, 60, 90, 120):
        clock.advance(begin + timedelta(seconds=seconds) - clock.now())
        assert await app.tokens.authenticate(text) is not None
        (token,) = await app.tokens.list()
        assert token.last_used_at is not None
        seen.append((token.last_used_at - begin).total_seconds())
    assert seen == [0, 0, 0, 60, 60, 120]


@pytest.mark.parametrize("scopes", [[], "read", ["reed"], ["read", "root"], [None], ["READ"]])
async def test_scopes_are_some_of_those_that_there_are(app: Oncue, scopes: list[str]) -> None:
    with pytest.raises(InvalidJob, match="scopes: expected some of read, enqueue, operate, admin, not"):
        await app.tokens.create("shop", scopes)  # type: ignore[arg-type]


@pytest.mark.parametrize("expires", [0, "0s", -5, "soon", "1000000d", True])
async def test_a_token_lasts_for_a_while(app: Oncue, expires: str) -> None:
    with pytest.raises(InvalidJob, match="expires: expected a duration"):
        await app.tokens.create("shop", ["read"], expires=expires)
    assert await app.tokens.list() == []


@pytest.mark.parametrize("name", ["", " shop", "a\nb", 7])
async def test_a_token_has_a_name(app: Oncue, name: str) -> None:
    with pytest.raises(InvalidJob, match="name: expected a printable name"):
        await app.tokens.create(name, ["read"])
