"""Sessions of the dashboard: started with a token, good for a while and as long as the token, kept only as a digest."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

import pytest

from oncue import Conflict, InvalidJob, Oncue
from oncue.errors import SessionNotFound
from oncue.model import Session
from tests.app.conftest import MakeApp
from tests.app.test_tokens import held_still
from tests.store.scene import query


async def started(app: Oncue, text: str, lasts: str | None = None) -> tuple[Session, str]:
    found = await app.sessions.start(text, lasts=lasts)
    assert found is not None
    return found


async def test_a_session_is_told_once_and_only_its_digest_is_kept(app: Oncue) -> None:
    token, token_text = await app.tokens.create("ada", ["read"])
    session, text = await started(app, token_text)
    assert re.fullmatch(r"[a-z2-7]{16}_[A-Za-z0-9_-]{43}", text)
    session_id, secret = text.split("_", 1)
    assert (session.id, session.token_id, session.ended_at) == (session_id, token.id, None)
    assert session.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert session.expires_at == session.created_at + timedelta(hours=12)
    found = await app.sessions.authenticate(text)
    assert found is not None
    assert (found[0], found[1].id) == (session, token.id)
    store = (await app.internals.connected()).store
    stored = await query(store, "select * from oncue_sessions")
    logged = await query(store, "select * from oncue_audit")
    assert secret not in repr((stored, logged))
    assert session.digest not in repr(logged)


async def test_every_session_is_another(app: Oncue) -> None:
    _, token_text = await app.tokens.create("ada", ["read"])
    texts = [(await started(app, token_text))[1] for _ in range(20)]
    assert len({text[:16] for text in texts}) == len({text[17:] for text in texts}) == 20


async def test_the_dice_are_handed_in(app: Oncue) -> None:
    _, token_text = await app.tokens.create("ada", ["read"])
    app.sessions.random_bytes = lambda size: b"\xff" * size
    session, text = await started(app, token_text)
    assert (session.id, text) == ("7" * 16, "7" * 16 + "_" + "_" * 42 + "8")
    assert await app.sessions.authenticate(text) is not None


async def test_only_a_valid_token_starts_a_session(app: Oncue) -> None:
    clock = await held_still(app)
    token, text = await app.tokens.create("ada", ["read"])
    _, short = await app.tokens.create("bob", ["read"], expires="1h")
    _, session_text = await started(app, text)
    await app.tokens.revoke(token.id)
    clock.advance(timedelta(hours=1))
    for wrong in (text, short, session_text, text[:-1], "", "\x00", "\ud800", None, 7):
        assert await app.sessions.start(wrong) is None, wrong  # type: ignore[arg-type]
    assert [entry.action for entry in await app.audit_log.list()].count("session.start") == 1


async def test_what_is_no_session_lets_no_browser_in(app: Oncue) -> None:
    _, token_text = await app.tokens.create("ada", ["admin"])
    session, text = await started(app, token_text)
    other, other_text = await started(app, token_text)
    changed = "A" if text[-1] != "A" else "B"
    for wrong in (
        token_text,
        text[:-1] + changed,
        text[:-1],
        text + "A",
        f" {text}",
        text + "\n",
        text.upper(),
        text.replace(session.id, other.id),
        f"{session.id}_{other_text[17:]}",
        f"{session.id}_{session.digest}",
        f"{session.id}_",
        session.id,
        "_",
        "",
        "ünïcode",
        "a" * 16 + "_" + "é" * 43,
        "a" * 16 + "_" + "A" * 43,
        "x" * 100_000,
        "\x00",
        "\ud800",
        None,
        7,
        text.encode(),
    ):
        assert await app.sessions.authenticate(wrong) is None, wrong  # type: ignore[arg-type]
    assert await app.sessions.authenticate(text) is not None


async def test_a_session_expires_and_never_after_its_token(app: Oncue) -> None:
    clock = await held_still(app)
    _, lasting = await app.tokens.create("ada", ["read"])
    short_token, short = await app.tokens.create("bob", ["read"], expires="2h")
    _, by_default = await started(app, lasting)
    _, an_hour = await started(app, lasting, "1h")
    limited, limited_text = await started(app, short, "3h")
    assert limited.expires_at == short_token.expires_at

    async def let_in() -> list[bool]:
        return [await app.sessions.authenticate(text) is not None for text in (by_default, an_hour, limited_text)]

    clock.advance(timedelta(minutes=59, seconds=59))
    assert await let_in() == [True, True, True]
    clock.advance(timedelta(seconds=1))
    assert await let_in() == [True, False, True]
    clock.advance(timedelta(hours=1))
    assert await let_in() == [True, False, False]
    clock.advance(timedelta(hours=10) - timedelta(seconds=1))
    assert await let_in() == [True, False, False]
    clock.advance(timedelta(seconds=1))
    assert await let_in() == [False, False, False]


async def test_the_setting_says_how_long_a_session_lasts(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, session_lifetime="90m")
    _, token_text = await app.tokens.create("ada", ["read"])
    session, _ = await started(app, token_text)
    assert session.expires_at == session.created_at + timedelta(minutes=90)


async def test_a_session_is_ended_by_its_id(app: Oncue) -> None:
    token, token_text = await app.tokens.create("ada", ["read"])
    one, one_text = await started(app, token_text)
    two, two_text = await started(app, token_text)
    ended = await app.sessions.end(one.id, by="ada")
    assert ended.ended_at is not None
    assert await app.sessions.authenticate(one_text) is None
    assert await app.sessions.authenticate(two_text) is not None
    with pytest.raises(Conflict, match=f"session {one.id} is ended already"):
        await app.sessions.end(one.id)
    for nobody in ("a" * 16, "three", "", two_text, "\x00", "\ud800", "x" * 100_000, None):
        with pytest.raises(SessionNotFound, match="there is no session"):
            await app.sessions.end(nobody)  # type: ignore[arg-type]
    log = [
        (entry.actor, entry.action, entry.subject, entry.before, entry.after) for entry in await app.audit_log.list()
    ]
    assert log[0] == ("ada", "session.end", f"session:{one.id}", {"ended": False}, {"ended": True})
    facts = {"token": token.id, "expires_at": two.expires_at.isoformat()}
    assert log[1] == (f"token:ada#{token.id}", "session.start", f"session:{two.id}", None, facts)
    assert len(log) == 4


async def test_a_revoked_token_ends_its_sessions(app: Oncue) -> None:
    one_token, one_text = await app.tokens.create("one", ["read"])
    _, two_text = await app.tokens.create("two", ["read"])
    _, one = await started(app, one_text)
    two, two_session_text = await started(app, two_text)
    assert len(await app.sessions.list()) == 2
    await app.tokens.revoke(one_token.id)
    assert await app.sessions.authenticate(one) is None
    assert await app.sessions.authenticate(two_session_text) is not None
    assert [session.id for session, _ in await app.sessions.list()] == [two.id]


async def test_the_list_has_the_sessions_that_let_a_browser_in_newest_first(app: Oncue) -> None:
    clock = await held_still(app)
    assert await app.sessions.list() == []
    _, token_text = await app.tokens.create("ada", ["read"])
    made = []
    for lasts in ("1h", "2h", "3h", "4h"):
        made.append((await started(app, token_text, lasts))[0].id)
        clock.advance(timedelta(seconds=1))
    await app.sessions.end(made[2])
    clock.advance(timedelta(hours=1))
    listed = await app.sessions.list()
    assert [(session.id, token.name) for session, token in listed] == [(made[3], "ada"), (made[1], "ada")]


async def test_the_last_use_is_written_once_a_minute_of_the_token_too(app: Oncue) -> None:
    clock = await held_still(app)
    _, token_text = await app.tokens.create("ada", ["read"])
    _, text = await started(app, token_text)
    clock.advance(timedelta(minutes=5))
    begin, seen = clock.now(), []
    for seconds in (0, 30, 59, 60, 90, 120):
        clock.advance(begin + timedelta(seconds=seconds) - clock.now())
        assert await app.sessions.authenticate(text) is not None
        ((session, token),) = await app.sessions.list()
        assert session.last_used_at is not None
        assert token.last_used_at == session.last_used_at
        seen.append((session.last_used_at - begin).total_seconds())
    assert seen == [0, 0, 0, 60, 60, 120]


@pytest.mark.parametrize("lasts", [0, "59s", -5, "soon", "31d", True])
async def test_a_session_lasts_from_a_minute_to_a_month(app: Oncue, lasts: str) -> None:
    _, token_text = await app.tokens.create("ada", ["read"])
    with pytest.raises(InvalidJob, match="lasts: expected a duration"):
        await app.sessions.start(token_text, lasts=lasts)
    assert await app.sessions.list() == []
