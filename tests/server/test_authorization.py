"""Who may do what: every route with every kind of credential, in every access mode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from oncue import Oncue
from oncue.model import SCOPES
from oncue.server.api import AccessMode
from oncue.server.api.routing import DeclaredRoute
from tests.server.conftest import Api, MakeApi, World, a_shop, a_token, bearer, expired_token, revoked_token

UNKNOWN = f"oncue_aaaaaaaa_{'A' * 43}"
MALFORMED = [
    "Bearer",
    "Bearer ",
    "Bearer nonsense",
    "Basic bG9jYWw6",
    f"Token {UNKNOWN}",
    "\x7f",
    f"Bearer {UNKNOWN} x",
]
INCLUDES = {
    "read": {"read", "operate", "admin"},
    "enqueue": {"enqueue", "admin"},
    "operate": {"operate", "admin"},
    "admin": {"admin"},
}
"""The scopes that are enough for what needs this one."""


def expected_scope(method: str, path: str) -> str:
    """What a route should need, by what it is: said here once more, so that a mistake there is found."""
    if path == "/health":
        return "public"
    if path.startswith("/api/admin/tokens"):
        return "admin"
    if method in ("GET", "HEAD"):
        return "read"
    enqueues = (
        "/api/admin/jobs", "/api/admin/jobs/bulk", "/api/admin/cluster/jobs", "/api/admin/webhooks/{name}/deliveries",
    )  # fmt: skip
    return "enqueue" if path in enqueues else "operate"


def calls(api: Api) -> list[tuple[str, str, str]]:
    """A request for every route: its method, an address, and the scope that it should need."""
    return [
        (method, re.sub(r"\{\w+\}", "7", route.path_format), expected_scope(method, route.path_format))
        for route in api.routes
        for method in sorted(route.methods or ())
    ]


def test_every_route_declares_the_scope_that_it_should_need(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    assert len(api.routes) == len(api.gate.api.routes), "every route is made by `Routes`"
    for route in api.routes:
        assert route.declared is not None, f"{route.path_format} declares no scope"
        assert {expected_scope(method, route.path_format) for method in route.methods or ()} == {route.declared.needs}
    assert len(calls(api)) >= 40


async def test_a_route_that_declares_nothing_cannot_be_reached(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url, own_routes=True)

    async def reached() -> dict[str, str]:
        raise AssertionError("nobody should get here")

    api.gate.api.add_api_route("/new", reached)
    api.gate.api.router.routes.append(Route("/plain", reached))
    api.gate.api.router.routes.append(Mount("/mounted", PlainTextResponse("hello")))
    for path in ("/new", "/plain", "/mounted/deeper"):
        reply = await api.client.get(path, headers=bearer(await a_token(api.app, "admin")))
        assert (reply.status_code, "declares no scope" in reply.text) == (403, True)
    assert any(isinstance(route, DeclaredRoute) and route.declared is None for route in api.gate.api.routes)


async def test_every_route_with_every_credential(make_api: MakeApi, database_url: str) -> None:
    await try_everything(make_api(database_url, AccessMode.TOKEN))


async def test_on_loopback_too_once_there_is_a_token(make_api: MakeApi, sqlite_url: str) -> None:
    await try_everything(make_api(sqlite_url, AccessMode.LOOPBACK), open_to_this_machine=("/health/ready", "/metrics"))


async def try_everything(api: Api, open_to_this_machine: tuple[str, ...] = ()) -> None:
    """Every route with every credential: first all that is refused, and nothing has changed; then what is allowed."""
    good = {scope: await a_token(api.app, scope) for scope in SCOPES}
    bad = [UNKNOWN, await expired_token(api.app), await revoked_token(api.app)]
    refused = [{}, *map(bearer, bad), *({"Authorization": text} for text in MALFORMED)]
    world = World(api.app)
    before = await world.seen()
    bodies: set[str] = set()
    for method, path, needed in [*calls(api), ("GET", "/nowhere", "read"), ("POST", "/", "read")]:
        for headers in refused:
            reply = await api(method, path, headers=headers)
            if needed == "public" or (path in open_to_this_machine and not headers):
                assert reply.status_code == 200
                continue
            assert reply.status_code == 401, (method, path, headers)
            assert reply.headers["www-authenticate"].startswith('Bearer realm="oncue"')
            if headers and method != "HEAD":
                detail = reply.json()["detail"]
                assert f"--scope {needed}`" in detail
                bodies.add(detail.replace(f"--scope {needed}`", ""))
        for scope, token in good.items():
            if needed != "public" and scope not in INCLUDES[needed]:
                reply = await api(method, path, headers=bearer(token))
                assert reply.status_code == (403 if path not in ("/nowhere", "/") else 404), (method, path, scope)
    assert len(bodies) == 1, "an answer tells whether a token is known, expired or revoked"
    assert await world.seen() == before, "somebody who was refused has changed something"
    for method, path, needed in calls(api):
        for scope, token in good.items():
            if needed == "public" or scope in INCLUDES[needed]:
                reply = await api(method, path, headers=bearer(token))
                assert reply.status_code not in (401, 403), (method, path, scope)


async def test_bound_elsewhere_without_tokens_only_health_answers(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url, AccessMode.TOKEN)
    before = await World(api.app).seen()
    for method, path, needed in [*calls(api), ("GET", "/nowhere", "read"), ("BREW", "/health", "read")]:
        reply = await api(method, path)
        assert reply.status_code == (200 if needed == "public" else 401), (method, path)
        if needed != "public" and method != "HEAD":
            assert "oncue token create" in reply.json()["detail"]
    assert await World(api.app).seen() == before


async def test_on_loopback_without_tokens_everything_is_open(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    for method, path, _ in calls(api):
        assert (await api(method, path)).status_code not in (401, 403), (method, path)
    entry = (await api("POST", "/api/admin/queues/mail/pause")).json()
    assert entry["name"] == "mail"
    assert {entry["actor"] for entry in (await api.get("/api/admin/audit-log"))["entries"]} == {"local"}
    reply = await api("POST", "/api/admin/tokens", {"name": "first", "scopes": ["read"]})
    assert reply.status_code == 201
    assert (await api("GET", "/api/admin/jobs")).status_code == 401, "from the first token on, every request needs one"
    assert await api.get("/api/admin/jobs", headers=bearer(reply.json()["token"]))


async def test_a_token_made_elsewhere_shuts_the_access(make_api: MakeApi, database_url: str) -> None:
    api, other = make_api(database_url), make_api(database_url)
    assert (await api("GET", "/api/admin/jobs")).status_code == 200
    token = await a_token(other.app, "read")
    assert (await api("GET", "/api/admin/jobs")).status_code == 401
    await other.app.tokens.revoke("read")
    assert (await api("GET", "/api/admin/jobs", headers=bearer(token))).status_code == 401
    assert (await api("GET", "/api/admin/jobs")).status_code == 401, "without its last token it stays shut"


@pytest.mark.parametrize("path", ["/health/ready", "/metrics"])
async def test_probes_and_scrapes_of_this_machine_go_on_when_there_are_tokens(
    make_api: MakeApi, sqlite_url: str, path: str
) -> None:
    local, elsewhere = make_api(sqlite_url), make_api(sqlite_url, AccessMode.TOKEN)
    await a_token(local.app, "read")
    assert (await local("GET", path)).status_code == 200
    assert (await local("HEAD", path)).status_code == 200
    assert (await local("GET", path, headers={"X-Forwarded-For": "10.0.0.7"})).status_code == 401
    assert (await local("GET", path, headers={"Origin": "https://evil.example"})).status_code == 403
    assert (await local("GET", path, headers=bearer("oncue_wrong"))).status_code == 401
    assert (await elsewhere("GET", path)).status_code == 401


WEB_PAGES = [
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example:8080"},
    {"Host": "localhost.evil.example"},
    {"Host": ""},
    {"Host": "10.0.0.7:8080"},
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:3000"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]
THIS_MACHINE = [
    {"Host": "localhost:8080"},
    {"Host": "LOCALHOST"},
    {"Host": "[::1]:8080"},
    {"Host": "127.1.2.3"},
    {"Origin": "http://127.0.0.1:8080"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"},
    {"Sec-Fetch-Site": "none"},
]


async def test_an_open_server_is_closed_to_web_pages(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    before = await World(api.app).seen()
    for method, path, needed in calls(api):
        for headers in WEB_PAGES if needed != "public" else ():
            assert (await api(method, path, headers=headers)).status_code == 403, (method, path, headers)
    assert await World(api.app).seen() == before
    for headers in THIS_MACHINE:
        assert (await api("GET", "/api/admin/jobs", headers=headers)).status_code == 200, headers
        assert (await api("POST", "/api/admin/queues/mail/pause", headers=headers)).status_code == 200, headers


async def test_what_a_proxy_passes_on_needs_a_token(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Proto", "CF-Connecting-IP"):
        assert (await api("GET", "/api/admin/jobs", headers={name: "10.0.0.7"})).status_code == 401
    token = await a_token(api.app, "read")
    passed_on = {"X-Forwarded-For": "10.0.0.7", "Host": "ops.example", **bearer(token)}
    assert (await api("GET", "/api/admin/jobs", headers=passed_on)).status_code == 200


# --- mounted --------------------------------------------------------------------------------------------------------


async def mounted(app: Oncue, **options: bool) -> httpx.AsyncClient:
    host = Starlette(routes=[Mount("/oncue", app.asgi(**options))])
    return httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://host.example")


async def test_mounted_in_another_application(sqlite_url: str, tmp_path: Path) -> None:
    app = a_shop(sqlite_url, tmp_path)
    async with await mounted(app) as client:
        assert (await client.get("/oncue/health")).status_code == 200
        assert (await client.get("/oncue/api/admin/jobs")).status_code == 401
        headers = bearer(await a_token(app, "admin"))
        reply = await client.post("/oncue/api/admin/jobs", json={"task": "add", "args": {"a": 1}}, headers=headers)
        assert (reply.status_code, reply.headers["location"]) == (201, "/oncue/api/admin/jobs/1")
        shown = await client.get(reply.headers["location"], headers=headers)
        assert shown.json()["enqueued_by"].startswith("token:admin#")
        await client.post("/oncue/api/admin/jobs", json={"task": "add", "args": {"a": 1}}, headers=headers)
        page = (await client.get("/oncue/api/admin/jobs?limit=1", headers=headers)).json()
        assert page["next"] == "/oncue/api/admin/jobs?limit=1&before=2"
        assert (await client.get(page["next"], headers=headers)).json()["jobs"][0]["id"] == 1
        document = (await client.get("/oncue/openapi.json", headers=headers)).json()
        assert document["servers"] == [{"url": "/oncue"}]
    await app.aclose()


async def test_an_application_may_guard_it_itself(sqlite_url: str, tmp_path: Path) -> None:
    app = a_shop(sqlite_url, tmp_path)
    async with await mounted(app, require_token=False) as client:
        own = {"Authorization": "Bearer its own affair"}
        assert (await client.post("/oncue/api/admin/queues/mail/pause", headers=own)).status_code == 200
    assert [entry.actor for entry in await app.audit_log.list()] == ["host"]
    await app.aclose()


async def test_an_application_may_listen_on_loopback_alone(sqlite_url: str, tmp_path: Path) -> None:
    app = a_shop(sqlite_url, tmp_path)
    async with await mounted(app, on_loopback=True) as client:
        assert (await client.get("/oncue/api/admin/jobs", headers={"Host": "localhost:8000"})).status_code == 200
        assert (await client.get("/oncue/api/admin/jobs")).status_code == 403, "its name leads elsewhere"
        await a_token(app, "read")
        await client.post("/oncue/nowhere")  # whatever changes something makes it look again
        assert (await client.get("/oncue/api/admin/jobs", headers={"Host": "localhost:8000"})).status_code == 401
    await app.aclose()


async def test_a_host_that_knows_its_users_names_them(sqlite_url: str, tmp_path: Path) -> None:
    app = a_shop(sqlite_url, tmp_path)
    api = app.asgi(require_token=False)

    async def host(scope: Any, receive: Any, send: Any) -> None:
        await api({**scope, "user": SimpleUser("ada")}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://host.example") as client:
        assert (await client.post("/api/admin/queues/mail/pause")).status_code == 200
    assert [entry.actor for entry in await app.audit_log.list()] == ["host:ada"]
    await app.aclose()


async def test_served_on_its_own_it_closes_what_it_opened(sqlite_url: str, tmp_path: Path) -> None:
    app = a_shop(sqlite_url, tmp_path)
    await app.internals.connected()
    said: list[str] = []
    steps = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, str]:
        return {"type": next(steps)}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        said.append(message["type"])

    await app.asgi()({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert app.internals.connector._connections == {}  # type: ignore[attr-defined]
