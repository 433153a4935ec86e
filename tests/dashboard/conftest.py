"""A door to the dashboard on a copy of the stories' database."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.server.api import AccessMode
from tests import postgres
from tests.dashboard.kit import HERE, Door
from tests.dashboard.told import Told, tell
from tests.server.routes_kept import KeptRoutes, kept_routes

MakeDoor = Callable[..., Door]


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory, worker_id: str, sqlite_template: Path) -> Told:
    """Told once in a run of the tests: its workers share the file."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "stories"
    folder.mkdir(exist_ok=True)
    with postgres.alone(folder / "lock"):
        return tell(folder, sqlite_template)


@pytest.fixture
def make_door(runner: asyncio.Runner) -> Iterator[MakeDoor]:
    """Makes doors to applications; both are closed with the test."""
    made: list[Door] = []
    taken: list[KeptRoutes] = []

    def make(app: Oncue, access: AccessMode = AccessMode.TOKEN, *, at: str = HERE, prefix: str = "") -> Door:
        taken.append(kept_routes())
        made.append(Door(app, taken[-1], access, at=at, prefix=prefix))
        return made[-1]

    async def close() -> None:
        for door in made:
            await door.client.aclose()
            await door.app.aclose()

    yield make
    runner.run(close())
    for kept in taken:
        kept.put_back()


@pytest.fixture
def copy(told: Told, tmp_path: Path) -> Callable[..., Path]:
    """Makes a copy of the stories' database."""

    def make(name: str = "copy.db") -> Path:
        return Path(shutil.copyfile(told.file, tmp_path / name))

    return make


@pytest.fixture
def story_door(told: Told, copy: Callable[..., Path], make_door: MakeDoor, runner: asyncio.Runner) -> Door:
    """A door to a copy of the stories' database, at the instant of the copy."""
    app = told.application(copy())
    runner.run(told.held_still(app))
    return make_door(app)


Options = dict[str, Any]
