"""The OpenAPI document tells the truth. That answers are as it says is checked by the client of all these tests."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import TypeAdapter

from oncue.server.api.models.base import LARGEST_ID
from oncue.server.api.problems import KINDS
from oncue.server.api.routing import DeclaredRoute
from tests.server.conftest import Api, MakeApi


def operations(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    document = api.document
    return [(path, method, said) for path, methods in document["paths"].items() for method, said in methods.items()]


async def test_it_is_served_and_complete(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    document = await api.get("/openapi.json")
    assert document == json.loads(json.dumps(api.document))
    known = {
        (route.path_format, method.lower())
        for route in api.routes
        if route.include_in_schema
        for method in route.methods or ()
    }
    assert {(path, method) for path, method, _ in operations(api)} == known
    for path, method, said in operations(api):
        assert said["summary"], path
        assert said["operationId"].isidentifier()
        if path == "/health":
            assert said["security"] == []
            continue
        assert said["security"] == [{"token": []}]
        assert said["x-oncue-scope"] in said["description"]
        assert {"401", "403", "503"} <= set(said["responses"]), path
        if path.startswith("/api"):
            assert "422" in said["responses"]
            assert ("404" in said["responses"]) == ("{" in path), path
        if method == "post":
            assert any(parameter["name"] == "Idempotency-Key" for parameter in said["parameters"]), path
            assert "409" in said["responses"], path
        for status, response in said["responses"].items():
            if status >= "400" and path != "/health/ready":
                assert list(response["content"]) == ["application/problem+json"], (path, status)
    ids = [said["operationId"] for _, _, said in operations(api)]
    assert len(set(ids)) == len(ids)
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_every_reference_leads_somewhere(make_api: MakeApi, sqlite_url: str) -> None:
    document = make_api(sqlite_url).document
    schemas = document["components"]["schemas"]
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference


def bounds(schema: Any) -> dict[str, set[Any]]:
    """All words about bounds in a document, with what they say."""
    words = ("minimum", "maximum", "ge", "le", "gt", "lt")
    found: dict[str, set[Any]] = {word: set() for word in words}
    left = [schema]
    while left:
        part = left.pop()
        left += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        for word in {*words} & {*part} if isinstance(part, dict) else ():
            found[word].add(part[word])
    return found


def test_bounds_are_said_in_the_words_of_json_schema(make_api: MakeApi, sqlite_url: str) -> None:
    found = bounds(make_api(sqlite_url).document)
    assert not any(found[word] for word in ("ge", "le", "gt", "lt")), "nobody reads these"
    assert {100, 1000, LARGEST_ID} <= found["maximum"]
    assert {type(bound) for bound in found["maximum"]} == {int}, "as a float the largest id would be one too many"


def test_the_examples_of_requests_are_accepted(make_api: MakeApi, sqlite_url: str) -> None:
    seen = 0
    for route in make_api(sqlite_url).routes:
        assert isinstance(route, DeclaredRoute)
        if route.body_field is None:
            continue
        adapter = TypeAdapter(route.body_field.field_info.annotation)
        schema = adapter.json_schema()
        for part in (schema, *schema.get("$defs", {}).values()):
            for example in part.get("examples", ()) if "properties" in part else ():
                if part is schema:
                    adapter.validate_python(example)
                    seen += 1
    assert seen >= 8


def test_kinds_of_problems_are_told_apart() -> None:
    assert len({kind.type for kind in KINDS}) == len(KINDS)
    assert len({kind.title for kind in KINDS}) == len(KINDS)
