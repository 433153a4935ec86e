"""`/metrics`, for Prometheus."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from oncue.server.api.documents import refusals
from oncue.server.api.routing import Routes

OPEN = "application/openmetrics-text"
"""For clients that accept it; others get plain text."""


def add(routes: Routes, registry: CollectorRegistry) -> None:
    @routes.probe(
        "/metrics", needs="read", tags=["health"], summary="Metrics for Prometheus", response_class=PlainTextResponse,
        responses={**refusals(), 200: {"content": {OPEN: {"schema": {"type": "string"}}}}},
    )  # fmt: skip
    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # In a thread: it may be a megabyte of text, and the event loop has others to serve.
        text = await asyncio.to_thread(encode, registry)
        return Response(text, headers={"Content-Type": content_type})
