"""Sessions of the dashboard: a browser that came in with a token, for a while.

The text of a session is `<id>_<secret>`; the browser keeps it in a cookie. The id is its name in the database; of the
secret only a digest is kept. A session lets in as long as its token is valid: revoking a token ends its sessions from
the next request on.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from oncue.errors import Conflict, SessionNotFound
from oncue.model import Note, Session, Token
from oncue.policy.checks import checked_name, checked_session_lifetime
from oncue.policy.durations import Duration
from oncue.verbs.base import NounVerbs
from oncue.verbs.tokens import USED_EVERY, Tokens, actor_of, digest, is_valid

ID_BYTES, SECRET_BYTES = 10, 32

_ID = re.compile(r"[a-z2-7]{16}")
_TEXT = re.compile(rf"({_ID.pattern})_([A-Za-z0-9_-]{{43}})")


class Sessions(NounVerbs):
    """In plain code: `app.wait(app.sessions.list())`."""

    random_bytes: Callable[[int], bytes] = staticmethod(secrets.token_bytes)

    async def list(self) -> list[tuple[Session, Token]]:
        """The sessions that let a browser in at this moment, each with its token, newest first."""
        connected = await self._connected()
        store, now = connected.store, connected.now()
        sessions = await store.sessions.standing(now)
        tokens = {token.id: token for token in await store.tokens.all() if is_valid(token, now)} if sessions else {}
        return [(session, tokens[session.token_id]) for session in sessions if session.token_id in tokens]

    async def start(self, token_text: str, *, lasts: Duration | None = None) -> tuple[Session, str] | None:
        """Start a session of the token that this text is; None if it is not a valid one.

        It lasts as long as the settings say, or as this call does, and never longer than its token. The text of the
        session is told here, once: it is not kept.
        """
        length = self._app.settings.session_lifetime if lasts is None else checked_session_lifetime(lasts, "lasts")
        token = await Tokens(self._app).authenticate(token_text)
        if token is None:
            return None
        connected = await self._connected()
        now = connected.now()
        ends = now + timedelta(seconds=length)
        session_id = base64.b32encode(self.random_bytes(ID_BYTES)).decode().lower()
        secret = base64.urlsafe_b64encode(self.random_bytes(SECRET_BYTES)).decode().rstrip("=")
        session = Session(session_id, digest(secret), token.id, now, min(ends, token.expires_at or ends))
        facts = {"token": token.id, "expires_at": session.expires_at.isoformat()}
        note = _note("session.start", actor_of(token), session, None, facts)
        await connected.store.sessions.add(session, note=note)
        return session, f"{session_id}_{secret}"

    async def authenticate(self, text: str) -> tuple[Session, Token] | None:
        """The session that this text is, with its token, if both are valid: known, not expired, ended or revoked."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        connected = await self._connected()
        store, now = connected.store, connected.now()
        session = await store.sessions.get(match[1])
        if session is None or not hmac.compare_digest(session.digest, digest(match[2])):
            return None
        if not is_standing(session, now):
            return None
        token = await store.tokens.get(session.token_id)
        if token is None or not is_valid(token, now):
            return None
        if session.last_used_at is None or now - session.last_used_at >= USED_EVERY:
            await store.sessions.mark_used(session.id, now)
            await store.tokens.mark_used(token.id, now)  # who looks for tokens that are not used must not find it
        return session, token

    async def end(self, ref: str, *, by: str = "system") -> Session:
        """End a session, by its id. From the next request on its browser is asked for a token.

        Raises SessionNotFound, and Conflict if it is ended already.
        """
        by, connected = checked_name(by, "by"), await self._connected()
        session, now = await self._session(ref), connected.now()
        note = _note("session.end", by, session, {"ended": False}, {"ended": True})
        if not await connected.store.sessions.end(session.id, now, note=note):
            raise Conflict(f"session {session.id} is ended already")
        return await self._session(session.id)

    async def _session(self, ref: str) -> Session:
        """Only what an id can be is looked up: a database refuses some texts."""
        looked_up = isinstance(ref, str) and _ID.fullmatch(ref) is not None
        session = await (await self._connected()).store.sessions.get(ref) if looked_up else None
        if session is None:
            raise SessionNotFound(f"there is no session {ref!r:.100}")
        return session


def is_standing(session: Session, now: datetime) -> bool:
    """Whether it has neither ended nor expired. Its token must be valid besides."""
    return session.ended_at is None and now < session.expires_at


def _note(action: str, by: str, session: Session, before: object, after: object) -> Note:
    return Note(by, action, f"session:{session.id}", before, after)
