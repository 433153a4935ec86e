"""The admin API of a small shop, asked without a socket. Every answer is held against what the routes declare."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from oncue import Oncue
from oncue.model import Scope
from oncue.server import health
from oncue.server.api import AccessMode, auth, routing
from oncue.server.api.models.base import ProblemDocument
from oncue.server.api.routing import DeclaredRoute
from oncue.settings import load
from tests.server.routes_kept import KeptRoutes, kept_routes, own_gate

HERE = "http://127.0.0.1:8080"
DOCUMENT: dict[str, Any] = {}


def a_shop(url: str, folder: Path) -> Oncue:
    """An application with settings of its own."""
    app = Oncue(settings=load({"database_url": url}, environment={}, folder=folder))

    @app.task
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(queue="mail", max_retries=0)
    async def boom(text: str = "bang") -> None:
        raise ValueError(text)

    @app.task
    async def report(slot: datetime, pages: int = 1) -> str:
        return f"{pages} pages of {slot:%Y-%m-%d}"

    @app.task(key=lambda subreddit_id: f"community:{subreddit_id}")
    async def crawl(subreddit_id: int) -> None: ...

    return app


class Api:
    """A client that trusts nothing: an answer must be one that its route declares, and look as it declares."""

    def __init__(
        self,
        app: Oncue,
        access: AccessMode = AccessMode.LOOPBACK,
        base_url: str = HERE,
        kept: KeptRoutes | None = None,
    ) -> None:
        """Without `kept` the routes are its own, and a test may change them."""
        self.app = app
        self.gate = own_gate(app, access) if kept is None else kept.gate(app, access)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.gate), base_url=base_url)

    @property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document. It takes a while to make, and is the same for all."""
        if not DOCUMENT:
            DOCUMENT.update(self.gate.api.openapi())
        return DOCUMENT

    @property
    def routes(self) -> list[DeclaredRoute]:
        return [route for route in self.gate.api.routes if isinstance(route, DeclaredRoute)]

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        reply = await self.client.request(method, path, **options)
        self._check(reply)
        return reply

    async def get(self, path: str, **options: Any) -> Any:
        """What a path shows."""
        reply = await self("GET", path, **options)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def _check(self, reply: httpx.Response) -> None:
        assert reply.status_code != 500, reply.text
        if reply.request.method == "HEAD":
            return  # it has no body
        url = reply.request.url
        sent = url.raw_path.partition(b"?")[0]
        scope = {"type": "http", "method": reply.request.method, "path": url.path, "raw_path": sent, "root_path": ""}
        scope["headers"] = []
        route = routing.find(self.gate.api.routes, scope).route
        if reply.status_code >= 400 and reply.headers["content-type"] == "application/problem+json":
            document = ProblemDocument.model_validate(reply.json())
            assert document.status == reply.status_code
            assert document.instance == url.path or "\x00" in url.path
        if isinstance(route, DeclaredRoute) and route.include_in_schema and reply.status_code != 405:
            self._check_declared(route, reply)

    def _check_declared(self, route: DeclaredRoute, reply: httpx.Response) -> None:
        method, status = reply.request.method.lower(), str(reply.status_code)
        operation = self.document["paths"][route.path_format][method]
        declared = operation["responses"].get(status)
        assert declared is not None, f"{method} {route.path_format} answers {status}, which it does not declare"
        kind = reply.headers["content-type"].partition(";")[0]
        assert kind in declared["content"], f"{method} {route.path_format} answers {status} as {kind}"
        if reply.status_code < 400 and kind == "application/json":
            TypeAdapter(route.response_model).validate_json(reply.content)


class World:
    """What changes of a database that nobody was allowed to touch: to be compared before and after."""

    def __init__(self, app: Oncue) -> None:
        self._app = app

    async def seen(self) -> tuple[Any, ...]:
        app, store = self._app, (await self._app.internals.connected()).store
        queues = [
            (queue.name, queue.paused_at, queue.global_limit, queue.node_limit) for queue in await app.queues.list()
        ]
        tokens = [(token.id, token.revoked_at) for token in await app.tokens.list()]
        return (await app.jobs.list(), await app.schedules.list(), queues, tokens, await store.audit_log.page())


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    let_take_time(monkeypatch)


def let_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does get an answer may take its time: on a busy machine it does."""
    for module, name in (
        (routing, "READ_SECONDS"), (routing, "CHANGE_SECONDS"), (auth, "GATE_SECONDS"), (health, "DATABASE_SECONDS"),
        (health, "BACKLOG_SECONDS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 60.0)


MakeApi = Callable[..., Api]


@pytest.fixture
def make_api(runner: asyncio.Runner, tmp_path: Path) -> Iterator[MakeApi]:
    """Makes the API of a shop on a database."""
    made: list[Api] = []
    taken: list[KeptRoutes] = []

    def make(
        url: str, access: AccessMode = AccessMode.LOOPBACK, *, base_url: str = HERE, own_routes: bool = False
    ) -> Api:
        if not own_routes:
            taken.append(kept_routes())
        made.append(Api(a_shop(url, tmp_path), access, base_url, None if own_routes else taken[-1]))
        return made[-1]

    async def close() -> None:
        for api in made:
            await api.client.aclose()
            await api.app.aclose()

    yield make
    runner.run(close())
    for kept in taken:
        kept.put_back()


@pytest.fixture
def api(make_api: MakeApi, database_url: str) -> Api:
    """The API of a shop on each back end, open to this machine."""
    return make_api(database_url)


async def a_token(app: Oncue, *scopes: Scope) -> str:
    """A credential with these scopes."""
    return (await app.tokens.create("-".join(scopes), scopes))[1]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def expired_token(app: Oncue) -> str:
    """A credential that was good for everything until a second ago."""
    (token, text), store = await app.tokens.create("expired", ["admin"]), (await app.internals.connected()).store
    ended = (await app.now()) - timedelta(seconds=1)
    await store.tokens.add(dataclasses.replace(token, id="expiredx", expires_at=ended))
    await app.tokens.revoke(token.id)
    return text.replace(token.id, "expiredx")


async def revoked_token(app: Oncue) -> str:
    token, text = await app.tokens.create("revoked", ["admin"])
    await app.tokens.revoke(token.id)
    return text
