"""A request that fails because the database is away: 500 here, as in the origin, where oncue says 503."""

from __future__ import annotations

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncue.server.api.problems import AWAY, MEDIA_TYPE

HERE = 500


class OutagesAs500:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: Message | None = None

        async def told(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_problem(message):
                held = message  # its body says which problem it is, and follows in one piece
                return
            if held is not None:
                start, held, body = held, None, message.get("body", b"")
                if json.loads(body)["type"] == AWAY.type:
                    body = json.dumps({**json.loads(body), "status": HERE}).encode()
                    start = {**start, "status": HERE, "headers": _sized(start["headers"], len(body))}
                await send(start)
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, receive, told)


def _is_problem(message: Message) -> bool:
    kind = dict(message["headers"]).get(b"content-type", b"")
    return bool(message["status"] == AWAY.status and kind.startswith(MEDIA_TYPE.encode()))


def _sized(headers: list[tuple[bytes, bytes]], size: int) -> list[tuple[bytes, bytes]]:
    return [(name, str(size).encode() if name == b"content-length" else value) for name, value in headers]
