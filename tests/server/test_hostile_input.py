"""Nothing answers 500 because of its input, and everything that is refused says so in the same way."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from oncue.server.api import AccessMode
from oncue.server.api.intake import LARGEST_BODY
from tests.server.conftest import Api, MakeApi, World, a_token, bearer
from tests.server.test_enqueueing import ADD

JOBS = "/api/admin/jobs"
DEEP = '{"task": "add", "args": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}"
RAW: list[tuple[bytes, int]] = [
    (b"{", 400),
    (b"nonsense", 400),
    (b"\xff\xfe{}", 400),
    (b'{"task": "\xff"}', 400),
    (DEEP.encode(), 400),
    (b"[" * 70 + b"]" * 70, 400),
    (b'{"task": NaN}', 400),
    (b'{"args": {"a": -Infinity}}', 400),
    (b'{"args": {"a": ' + b"9" * 5000 + b"}}", 400),
    (b'{"task": "add", "args": {"a": 1e999}}', 422),
    (b'{"task": "\\u0000"}', 422),
    (b'{"task": "\\ud800"}', 422),
    (b'{"\\ud800": 1}', 422),
    (b'{"\\u0000": 1}', 422),
    (b"[]", 422),
    (b'"text"', 422),
    (b"null", 422),
    (b"7", 422),
    (b"{}" + b" " * LARGEST_BODY, 413),
]
"""Bodies, and what the enqueue route says to them."""

ODD: list[Any] = [
    None, True, -1, 2**63, 10**4000, 1e308, "", "x" * 5000, "\u202e\t", "9999-12-31T23:59:59.999999-23:59",
    "0001-01-01T00:00:00+23:59", "-100000000d", "@every 1ns", [[]], {"a": {}},
]  # fmt: skip


async def test_bodies_that_cannot_be_read(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    for body, status in RAW:
        reply = await api("POST", JOBS, content=body)
        assert reply.status_code == status, (body[:60], reply.text)
        assert reply.headers["content-type"] == "application/problem+json"
    assert await api.app.jobs.list() == []


async def test_a_body_is_json_whatever_it_is_called(api: Api) -> None:
    for kind in (None, "application/x-www-form-urlencoded", "text/plain", "application/octet-stream", "; ;", ""):
        headers = {} if kind is None else {"Content-Type": kind}
        reply = await api("POST", JOBS, content=json.dumps(ADD).encode(), headers=headers)
        assert reply.status_code == 201, kind
    with_mark = await api("POST", JOBS, content=b"\xef\xbb\xbf" + json.dumps(ADD).encode())
    assert with_mark.status_code == 201
    assert (await api("POST", f"{JOBS}/1/cancel", content=b"  ")).status_code == 200


async def test_a_body_that_never_ends_is_cut_off(make_api: MakeApi, sqlite_url: str) -> None:
    api, sent = make_api(sqlite_url), 0

    async def stream() -> Any:
        nonlocal sent
        while True:
            sent += 65536
            yield b" " * 65536

    async def limited() -> Any:
        async for chunk in stream():
            yield chunk
            if sent > 10 * LARGEST_BODY:
                raise AssertionError("nobody stopped reading")

    assert (await api("POST", JOBS, content=limited())).status_code == 413


def properties(api: Api, method: str, path: str) -> list[str]:
    """The names of the fields that a route's body has."""
    operation = api.document["paths"][path][method.lower()]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    names = [ref.rpartition("/")[2] for ref in re.findall(r'"\$ref": "([^"]+)"', json.dumps(content))]
    schemas = api.document["components"]["schemas"]
    return [field for name in names for field in schemas[name].get("properties", {})]


async def test_every_field_of_every_route_with_odd_values(make_api: MakeApi, database_url: str) -> None:
    api = make_api(database_url)
    await api("POST", JOBS, ADD)
    await api("POST", "/api/admin/scheduled-jobs", {"name": "s", "cron_expression": "@yearly", **ADD})
    asked = 0
    for route in api.routes:
        path = re.sub(r"\{\w+\}", "1", route.path_format)
        for method in sorted(route.methods or ()):
            fields = properties(api, method, route.path_format) if method in ("POST", "PUT") else []
            for field in fields:
                for value in ODD:
                    text = json.dumps({field: value})
                    reply = await api(method, path, content=text.encode())  # the client itself checks for 500
                    assert reply.status_code < 500, (method, path, text[:80])
                    asked += 1
    assert asked > 500
    assert (await api("GET", JOBS)).status_code == 200


async def test_odd_addresses(make_api: MakeApi, postgres_url: str) -> None:
    api = make_api(postgres_url)
    await api("POST", "/api/admin/scheduled-jobs", {"name": "s", "cron_expression": "@yearly", **ADD})
    odd = [
        "%00",
        "%ff%fe",
        "%ED%A0%80",
        "%F0%9F%92%A9",
        "-1",
        "0",
        "9" * 40,
        "..",
        "%2e%2e%2f",
        "a" * 3000,
        "%0a",
        "'--",
    ]
    before = await World(api.app).seen()
    for route in api.routes:
        if "GET" not in (route.methods or ()):
            continue
        for value in odd:
            path = re.sub(r"\{\w+\}", value, route.path_format)
            query = "&".join(f"{field.alias}={value}" for field in route.dependant.query_params)
            for where in {path, f"{re.sub('{.*?}', '1', route.path_format)}?{query}"}:
                reply = await api("GET", where)
                assert reply.status_code < 500, where
    assert await World(api.app).seen() == before


ODD_QUERIES = ["%00=1", "status=%00", "limit=1&limit=%00", "unknown=1", "status=queued&Status=x", "=1"]


@pytest.mark.parametrize("query", ODD_QUERIES)
async def test_odd_queries_are_refused(make_api: MakeApi, sqlite_url: str, query: str) -> None:
    api = make_api(sqlite_url)
    reply = await api("GET", f"{JOBS}?{query}")
    assert (reply.status_code, reply.json()["type"]) == (422, "/problems/invalid-field")
    assert reply.json()["errors"][0]["field"] != ""
    assert (await api("GET", f"/health?{query}")).status_code == 200, "a probe may add what it likes"


async def test_headers_of_whoever_is_let_in(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url, AccessMode.TOKEN)
    token = bearer(await a_token(api.app, "admin"))
    for name, value in (("Host", "["), ("Host", "\xff"), ("Content-Length", "x"), ("Content-Type", "\xff;=")):
        for number, body in enumerate((ADD, {**ADD, "priority": 1})):
            key = {"Idempotency-Key": f"{name}{value!a}{number}"}
            headers = {**token, **key, name: value.encode("latin-1")}
            reply = await api("POST", JOBS, content=json.dumps(body).encode(), headers=headers)
            assert reply.status_code == 201, (name, value)


async def test_unknown_paths_and_methods(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    for path in ("/", "/nowhere", "/api/admin", f"{JOBS}/", "/docs", "/redoc", "//", "/health/", "/%00"):
        assert (await api("GET", path)).status_code == 404, path
    reply = await api("PATCH", f"{JOBS}/1/status")
    assert (reply.status_code, reply.headers["allow"]) == (405, "PUT")
    reply = await api("DELETE", JOBS)
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, POST")
    assert (await api("DELETE", f"{JOBS}/bulk")).headers["allow"] == "POST", "it is not a job that could be shown"
    assert (await api("OPTIONS", JOBS)).status_code == 405


async def test_a_bug_is_told_without_its_traceback(
    make_api: MakeApi, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = make_api(sqlite_url)

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    api.app.queues.list = broken  # type: ignore[assignment, method-assign]
    reply = await api.client.get("/api/admin/queues")
    assert (reply.status_code, reply.json()["type"]) == (500, "/problems/internal-error")
    assert "secret" not in reply.text
    assert "Traceback" not in reply.text
    assert "ZeroDivisionError: the secret of the house" in caplog.text
