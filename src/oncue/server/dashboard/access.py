"""Tokens of the API and sessions of the dashboard, for visitors with the scope admin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from oncue.errors import InvalidJob
from oncue.model import SCOPES, Scope, Token
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.rendering import environment
from oncue.verbs.tokens import is_valid

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token with its state, and how many browsers are signed in with it."""

    token: Token
    state: str
    kind: str
    sessions: int

    @property
    def is_valid(self) -> bool:
        return self.state == "valid"


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/settings/access", "access.html", title="Tokens and sessions", room="settings", needs="admin")
    async def tokens(view: View) -> dict[str, Any]:
        now = await view.app.now()
        known, sessions = await view.app.tokens.list(), await view.app.sessions.list()
        rows = sorted((_row(token, now, [of.id for _, of in sessions]) for token in known), key=_valid_first)
        return {
            "tokens": rows[:MOST_SHOWN], "left_out": max(len(rows) - MOST_SHOWN, 0), "sessions": sessions[:MOST_SHOWN],
            "sessions_left_out": max(len(sessions) - MOST_SHOWN, 0), "scopes": SCOPES, "is_first": not known,
        }  # fmt: skip

    @dashboard.action("/settings/access/create", needs="admin")
    async def create(deed: Deed) -> Done:
        name, scopes = deed.text("name"), [cast("Scope", scope) for scope in deed.many("scope")]
        if not scopes:
            raise invalid("scopes", f"expected some of {', '.join(SCOPES)}")
        try:
            token, text = await deed.app.tokens.create(name, scopes, expires=deed.maybe("expires"), by=deed.by)
        except InvalidJob as error:
            raise invalid(error.field, str(error).removeprefix(f"{error.field}: ")) from None
        told = environment().get_template("new_token.html").render(token=token, text=text)
        return Done(f"Token {token.id} of {token.name} is made.", html=told, is_change=False)

    @dashboard.action("/settings/access/revoke", needs="admin")
    async def revoke(deed: Deed) -> Done:
        token = await deed.app.tokens.revoke(deed.text("token"), by=deed.by)
        return Done(f"Token {token.id} ({token.name}) is revoked, and its sessions are over.")

    @dashboard.action("/settings/access/end", needs="admin")
    async def end(deed: Deed) -> Done:
        session = await deed.app.sessions.end(deed.text("session"), by=deed.by)
        return Done(f"Session {session.id} is ended: its browser has to sign in again.")


def _row(token: Token, now: datetime, signed_in: list[str]) -> TokenRow:
    if is_valid(token, now):
        return TokenRow(token, "valid", "ok", signed_in.count(token.id))
    return TokenRow(token, "expired" if token.revoked_at is None else "revoked", "idle", 0)


def _valid_first(row: TokenRow) -> tuple[bool, float]:
    return not row.is_valid, -row.token.created_at.timestamp()
