"""The examples of docs/api.md work as they stand, one after the other."""

from __future__ import annotations

import shlex
from pathlib import Path

import httpx

from oncue import Oncue
from oncue.server.api import AccessMode
from oncue.server.api.problems import KINDS
from oncue.settings import load
from oncue.verbs.schedules.declaring import Declaring
from tests.server.conftest import Api

GUIDE = Path(__file__).parents[2] / "docs/api.md"


def blocks(language: str) -> list[str]:
    fenced = GUIDE.read_text("utf-8").split("```")[1::2]
    return [text for kind, _, text in (block.partition("\n") for block in fenced) if kind == language]


async def curl(api: Api, line: str, token: str) -> httpx.Response:
    """What curl would get; with a body, it sends a POST and calls it a form."""
    words, method, body, headers, url = shlex.split(line.replace("$TOKEN", token))[1:], "", None, {}, ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-d":
                body = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case word:
                url = f"http://{word}"
    if body is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return await api(method or ("GET" if body is None else "POST"), url, content=body, headers=headers)


async def test_every_example(sqlite_url: str, tmp_path: Path) -> None:
    names: dict[str, Oncue] = {}
    exec(next(block for block in blocks("python") if "send_invoice" in block), names)
    app = names["app"]
    app.configure(load({"database_url": sqlite_url}, environment={}, folder=tmp_path))
    await Declaring(app.internals).synchronise()
    api = Api(app, AccessMode.LOOPBACK, "http://localhost:8080")
    lines = [line for block in blocks("") for line in block.splitlines() if line.startswith("curl")]
    with_token = [line for line in lines if "$TOKEN" in line]
    for line in [line for line in lines if line not in with_token]:
        reply = await curl(api, line, "")
        assert reply.status_code in (200, 201), (line, reply.text)
    _, token = await app.tokens.create("shop", ["enqueue", "read"])
    for line in with_token:
        assert (await curl(api, line, token)).status_code == 200, line
    assert len(lines) > 30
    await api.client.aclose()
    await app.aclose()


def test_every_route_and_every_problem_is_told_of(sqlite_url: str) -> None:
    text = GUIDE.read_text("utf-8")
    for kind in KINDS:
        assert f"`{kind.type}`" in text, kind.type
    for route in Api(Oncue(sqlite_url)).routes:
        ending = route.path_format.rpartition("}")[2] or route.path_format.partition("{")[0].rstrip("/")
        assert ending in text, route.path
