"""An application on a database of its own, on each back end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.settings import load

MakeApp = Callable[..., Oncue]


@pytest.fixture
def make_app(tmp_path: Path, runner: asyncio.Runner) -> Iterator[MakeApp]:
    """Makes applications whose settings are these and nothing of the surroundings."""
    made: list[Oncue] = []

    def make(url: str, **settings: Any) -> Oncue:
        app = Oncue(settings=load({"database_url": url, **settings}, environment={}, folder=tmp_path))
        made.append(app)
        return app

    yield make
    for app in made:
        runner.run(app.aclose())
        app.close()


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url)
