from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncue import Oncue
from oncue.testing import Kit, use


@pytest.fixture
def app() -> Oncue:
    """An application whose database is out of reach: nothing but the kit can make it work."""
    return Oncue("postgresql://nobody@nowhere.invalid/nothing")


@pytest.fixture
def kit(app: Oncue) -> Iterator[Kit]:
    with use(app) as kit:
        yield kit
