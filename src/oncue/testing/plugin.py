"""The pytest plugin: the `oncue` fixture is the test kit of the application under test.

Every pytest run of an environment that has oncue loads this file, so it imports nothing but pytest; the rest comes
when a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.testing.kit import Kit

HOW = "set `oncue_app = module:app` in pytest's configuration, or define a fixture `oncue_app` that returns it"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("oncue_app", "the oncue application under test, as module:app", default="")


@pytest.fixture
def oncue_app(request: pytest.FixtureRequest) -> Oncue:
    """The application under test. Define a fixture of the same name to choose another one."""
    from oncue.cli.finding import imported
    from oncue.errors import ConfigError

    place = str(request.config.getini("oncue_app"))
    if not place:
        pytest.fail(f"which application is under test? {HOW}", pytrace=False)
    try:
        return imported(place, "oncue_app")
    except ConfigError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def oncue(oncue_app: Oncue) -> Iterator[Kit]:
    """The application on an in-memory store, with a clock that the test moves. See oncue.testing."""
    from oncue.testing import use

    with use(oncue_app) as kit:
        yield kit
