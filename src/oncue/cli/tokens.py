"""`oncue token`: who may use the API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from oncue.cli import failures, output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import SCOPES, Scope, Session, Token
from oncue.records.access import session_record, token_record
from oncue.verbs.tokens import is_valid

Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope", metavar="SCOPE", help=f"What it is good for: {', '.join(SCOPES)}; repeat it.", show_default=False,
        autocompletion=lambda incomplete: [scope for scope in SCOPES if scope.startswith(incomplete)],
    ),
]  # fmt: skip

group = typer.Typer(
    no_args_is_help=True, help="Make, list and revoke the tokens of the API, and end sessions of the dashboard."
)


@group.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.", show_default=False)],
    scope: Scopes,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="How long it is good for, such as 90d.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make a token: `oncue token create shop --scope read --scope enqueue --expires 90d`.

    read looks at everything but tokens; enqueue makes jobs; operate changes
    jobs, queues and schedules, and includes read; admin includes all, and
    lists, makes and revokes tokens.
    The token is printed once. Only a digest of it is kept.
    """
    lasts = None if expires is None else values.duration(expires, "--expires")
    scopes = [_scope(word) for text in scope for word in text.split(",")]
    found = find(app, may_create=True, database_url=database_url, schema=schema)
    token, text = ask(found, lambda: found.tokens.create(name, scopes, expires=lasts, by=actor()))
    if as_json:
        output.show_json({**token_record(token), "token": text})
        return
    output.show_plain(text)
    until = "does not expire" if token.expires_at is None else f"expires on {token.expires_at:%Y-%m-%d %H:%M} UTC"
    note = f"this is the token {token.id} of {name} ({', '.join(token.scopes)}); it {until}"
    # Beside the token, so that a script can catch it.
    failures.say(f"{note}. Keep it now: only its digest is kept here, so it cannot be shown again.")


def _scope(word: str) -> Scope:
    for scope in SCOPES:
        if scope == word.strip().lower():
            return scope
    raise typer.BadParameter(f"expected one of {', '.join(SCOPES)}, not {word!r}", param_hint="--scope")


@group.command("list")
def list_tokens(
    as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """List the tokens, the revoked and the expired too."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Token], datetime]:
        return await found.tokens.list(), await found.now()

    tokens, now = ask(found, work)
    if as_json:
        output.show_json([token_record(token) for token in tokens])
    elif tokens:
        _show(tokens, now)
    else:
        output.show("There are no tokens. `oncue token create NAME --scope read` makes one.")


def _show(tokens: list[Token], now: datetime) -> None:
    table = output.table("id", "name", "scopes", "state", "expires", "created", "by", "last used")
    for token in tokens:
        table.add_row(
            token.id, escape(token.name), ", ".join(token.scopes), _state(token, now),
            output.when(token.expires_at, now) or "never", output.when(token.created_at, now),
            escape(token.created_by), output.when(token.last_used_at, now) or "never",
        )  # fmt: skip
    output.show(table)


def _state(token: Token, now: datetime) -> str:
    if is_valid(token, now):
        return "[green]valid[/]"
    return "[red]expired[/]" if token.revoked_at is None else f"[red]revoked {output.when(token.revoked_at, now)}[/]"


@group.command("revoke")
def revoke_token(
    ref: Annotated[str, typer.Argument(metavar="ID", help="The token's id, or its name.", show_default=False)],
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Revoke a token. From the next request on it is refused."""
    found = find(app, database_url=database_url, schema=schema)
    token = ask(found, lambda: found.tokens.revoke(ref, by=actor()))
    if as_json:
        output.show_json(token_record(token))
    else:
        output.show(f"token {token.id} ({escape(token.name)}) is revoked")


@group.command("sessions")
def list_sessions(
    as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """List the browsers that are signed in to the dashboard, and with which token each came in."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[tuple[Session, Token]], datetime]:
        return await found.sessions.list(), await found.now()

    sessions, now = ask(found, work)
    if as_json:
        output.show_json([session_record(session, token) for session, token in sessions])
    elif sessions:
        table = output.table("session", "token", "scopes", "began", "last used", "ends")
        for session, token in sessions:
            table.add_row(
                session.id, f"{escape(token.name)} ({token.id})", ", ".join(token.scopes),
                output.when(session.created_at, now), output.when(session.last_used_at, now) or "never",
                output.when(session.expires_at, now),
            )  # fmt: skip
        output.show(table)
    else:
        output.show("No browser is signed in.")


@group.command("end-session")
def end_session(
    ref: Annotated[str, typer.Argument(metavar="ID", help="The session's id.", show_default=False)],
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Sign a browser out of the dashboard. Its token stays valid: revoke that to keep its holder out."""
    found = find(app, database_url=database_url, schema=schema)
    session = ask(found, lambda: found.sessions.end(ref, by=actor()))
    if as_json:
        output.show_json({"id": session.id, "ended": True})
    else:
        output.show(f"session {session.id} is ended")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="token")
