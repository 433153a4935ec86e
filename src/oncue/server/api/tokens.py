"""API tokens: making, listing and revoking them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Path
from starlette.requests import Request

from oncue.records.access import TokenRecord, token_record
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import SECRET
from oncue.server.api.identity import Caller
from oncue.server.api.models.control import CreatedToken, NewToken, TokenList
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "/api/admin/tokens"
TAG = "tokens"

TokenId = Annotated[str, Path(description="The token's id, or its name if no other has it.", examples=["k3x2m7qa"])]


def add(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, needs="admin", **looking(TAG, "List the tokens", TokenList))
    async def list_tokens() -> Answer:
        """All of them, the revoked and the expired too, oldest first. Their secrets are not kept."""
        return Answer({"tokens": [token_record(token) for token in await app.tokens.list()]})

    @routes.post(PREFIX, needs="admin", keeping=SECRET, **changing(TAG, "Make a token", CreatedToken, 409, status=201))
    async def create_token(request: Request, body: NewToken, by: Caller) -> Answer:
        """The answer has the credential in it, which is told once and kept nowhere."""
        token, text = await app.tokens.create(body.name, body.scopes, expires=body.expires, by=by)
        headers = {"Location": f"{request.scope['path']}/{token.id}", "Cache-Control": "no-store"}
        return Answer({**token_record(token), "token": text}, 201, headers=headers)

    @routes.delete(f"{PREFIX}/{{id}}", needs="admin", **changing(TAG, "Revoke a token", TokenRecord, 404, 409))
    async def revoke_token(id: TokenId, by: Caller) -> Answer:
        """From the next request on it is refused."""
        return Answer(token_record(await app.tokens.revoke(id, by=by)))
