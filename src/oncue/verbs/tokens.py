"""Credentials of the API: making them, revoking them, and telling whose one is.

A token is a text, `oncue_<id>_<secret>`. The id is its name in the database; of the secret only a digest is kept, so
that a reader of the database can use none of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from oncue.errors import Conflict, InvalidJob, TokenNotFound
from oncue.model import SCOPES, Note, Scope, Token
from oncue.policy.checks import checked_duration, checked_name
from oncue.policy.durations import Duration
from oncue.verbs.base import NounVerbs

ID_BYTES, SECRET_BYTES = 5, 32
USED_EVERY = timedelta(minutes=1)
"""How exactly it is known when a token was last used."""

_TEXT = re.compile(r"oncue_([a-z2-7]{8})_([A-Za-z0-9_-]{43})")


class Tokens(NounVerbs):
    """In plain code: `app.wait(app.tokens.list())`."""

    random_bytes: Callable[[int], bytes] = staticmethod(secrets.token_bytes)

    async def list(self) -> list[Token]:
        """All tokens, the revoked and the expired too, oldest first."""
        return await (await self._connected()).store.tokens.all()

    async def create(
        self, name: str, scopes: Sequence[Scope], *, expires: Duration | None = None, by: str = "system"
    ) -> tuple[Token, str]:
        """Make a token that is good for these scopes, until it `expires`, so long from now.

        The text is told here, once: it is not kept.
        """
        name, scopes, by = checked_name(name, "name"), _checked_scopes(scopes), checked_name(by, "by")
        lasts = None if expires is None else _checked_expires(expires)
        connected = await self._connected()
        now = connected.now()
        token_id = base64.b32encode(self.random_bytes(ID_BYTES)).decode().lower()
        secret = base64.urlsafe_b64encode(self.random_bytes(SECRET_BYTES)).decode().rstrip("=")
        token = Token(token_id, name, digest(secret), scopes, by, now, None if lasts is None else now + lasts)
        await connected.store.tokens.add(token, note=_note("token.create", by, token, None, _facts(token)))
        return token, f"oncue_{token_id}_{secret}"

    async def revoke(self, ref: str, *, by: str = "system") -> Token:
        """Revoke a token, by its id or its name. From the next request on it is refused.

        Raises TokenNotFound, and Conflict if it is revoked already or several have this name.
        """
        by, connected = checked_name(by, "by"), await self._connected()
        token, now = await self._token(ref), connected.now()
        note = _note("token.revoke", by, token, {"revoked": False}, {"revoked": True})
        if not await connected.store.tokens.revoke(token.id, now, note=note):
            raise Conflict(f"token {token.id} ({token.name}) is revoked already")
        return await self._token(token.id)

    async def _token(self, ref: str) -> Token:
        """A token by its id, or the one of this name that is not revoked."""
        known = await self.list()
        named = [token for token in known if ref in (token.id, token.name)]
        standing = [token for token in named if token.revoked_at is None] or named
        by_id = [token for token in named if token.id == ref]
        if not named:
            raise TokenNotFound(f"there is no token {ref!r}")
        if len(standing) > 1 and not by_id:
            ids = ", ".join(token.id for token in standing)
            raise Conflict(f"{len(standing)} tokens have the name {ref!r}: say which by its id, {ids}")
        return (by_id or standing)[0]

    async def authenticate(self, text: str) -> Token | None:
        """The token that this text is, if it is a valid one: known, not expired and not revoked."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        connected = await self._connected()
        token, now = await connected.store.tokens.get(match[1]), connected.now()
        if token is None or not hmac.compare_digest(token.digest, digest(match[2])) or not is_valid(token, now):
            return None
        if token.last_used_at is None or now - token.last_used_at >= USED_EVERY:
            await connected.store.tokens.mark_used(token.id, now)
        return token


def digest(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that one round of a plain hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_valid(token: Token, now: datetime) -> bool:
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def actor_of(token: Token) -> str:
    """How the audit log names the holder of a token."""
    return f"token:{token.name[:100]}#{token.id}"


def _checked_scopes(scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    """In their usual order, each once."""
    given = () if isinstance(scopes, str) else tuple(scopes)
    if not given or not all(scope in SCOPES for scope in given):
        raise InvalidJob("scopes", f"expected some of {', '.join(SCOPES)}, not {scopes!r:.100}")
    return tuple(scope for scope in SCOPES if scope in given)


def _checked_expires(expires: Duration) -> timedelta:
    lasts = checked_duration(expires, "expires")
    if lasts < 1:
        raise InvalidJob("expires", f"expected a duration of at least a second, not {expires!r}")
    return timedelta(seconds=lasts)


def _facts(token: Token) -> dict[str, object]:
    expires_at = None if token.expires_at is None else token.expires_at.isoformat()
    return {"name": token.name, "scopes": list(token.scopes), "expires_at": expires_at}


def _note(action: str, by: str, token: Token, before: object, after: object) -> Note:
    return Note(by, action, f"token:{token.id}", before, after)
