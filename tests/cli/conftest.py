"""The shell without a shell: commands run in this process, workers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.cli import run
from oncue.model import TERMINAL
from oncue.settings import BARE_NAMES
from tests.process.nursery import nursery

SHOP = "tests.cli.shop:app"
DIARY = "tests.cli.diary:app"
BAKERY = "tests.cli.bakery:app"
HOOKS = "tests.cli.hooks:app"
DIGEST = "tests.cli.digest:app"
FLEET = "tests.cli.fleet:app"
APPLICATIONS = (
    *("tests.cli.shop", "tests.cli.diary", "tests.cli.bakery", "tests.cli.hooks", "tests.cli.news", "tests.cli.digest"),
    "tests.cli.fleet",
)
ROOT = Path(__file__).parents[2]
OURS = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
"""Where a process finds this oncue and these tests, whatever else is installed."""
PATIENCE = 60.0


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Shell = Callable[..., Answer]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but those of the test, and an application that nobody has used."""
    for name in tuple(os.environ):
        if name.startswith("ONCUE_") or name in BARE_NAMES.values():
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    for name in APPLICATIONS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def oncue(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Types a command."""

    def typed(*arguments: str) -> Answer:
        for name in APPLICATIONS:
            sys.modules.pop(name, None)
        code = run(arguments)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return typed


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, database_url: str) -> str:
    """The shop on a database of its own, on each back end."""
    monkeypatch.setenv("ONCUE_APP", SHOP)
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def sqlite_shop(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> str:
    """The shop where the back end does not matter."""
    monkeypatch.setenv("ONCUE_APP", SHOP)
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    return sqlite_url


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch, database_url: str) -> str:
    """The diary on a database of its own, on each back end."""
    monkeypatch.setenv("ONCUE_APP", DIARY)
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def sqlite_diary(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> str:
    """The diary where the back end does not matter."""
    monkeypatch.setenv("ONCUE_APP", DIARY)
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    return sqlite_url


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, database_url: str) -> str:
    """The fleet on a database of its own, on each back end."""
    monkeypatch.setenv("ONCUE_APP", FLEET)
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


def on_database(url: str, work: Callable[[Oncue], Awaitable[Any]]) -> Any:
    """Do something to a database in plain Python."""

    async def done() -> Any:
        app = Oncue(url)
        try:
            return await work(app)
        finally:
            await app.aclose()

    return asyncio.run(done())


def work_off(url: str) -> None:
    """Run everything that waits."""
    sys.modules.pop("tests.cli.shop", None)
    from tests.cli.shop import app

    app.override({"database_url": url})

    async def work() -> None:
        async with app.worker():
            while not all(job.state in TERMINAL for job in await app.jobs.list()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await app.aclose()

    asyncio.run(work())


# --- processes ------------------------------------------------------------------------------------------------------

_numbers = count(1)


class Process:
    """A process of `oncue …`, and what it has said so far. Each has a log of its own: several may be in one folder."""

    def __init__(self, folder: Path, url: str, *arguments: str, **environment: str) -> None:
        self._log = folder / f"process{next(_numbers)}.log"
        self._log.touch()
        ours = {**os.environ, "PYTHONPATH": OURS, "DATABASE_URL": url, "ONCUE_APP": SHOP, **environment}
        self.process = nursery().start(["oncue", *arguments], folder, ours, self._log)

    @property
    def said(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            if time.monotonic() > end or (self.process.poll() is not None and not condition()):
                raise AssertionError(
                    f"it did not happen (exit code {self.process.poll()}); the worker said:\n{self.said}"
                )
            time.sleep(0.01)
        return found

    def says(self, text: str) -> None:
        self.until(lambda: text in self.said)

    def ends(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `oncue …` on a database, in a folder of the test's."""
    started: list[Process] = []

    def begin(url: str, *arguments: str, folder: Path = tmp_path, **environment: str) -> Process:
        process = Process(folder, url, *arguments, **environment)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.close()
