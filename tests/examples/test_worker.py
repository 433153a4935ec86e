"""The command `k2dailybrief-worker`: what it hands to oncue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from k2_daily_brief import database, worker
from sqlalchemy import inspect

from oncue.cli import run


@pytest.fixture
def commands(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands of oncue that the worker has run. All but the work itself are run for real."""
    given: list[Sequence[str]] = []

    def noted(arguments: Sequence[str]) -> int:
        given.append(arguments)
        return 0 if arguments[0] == "worker" else run(arguments)

    monkeypatch.setattr(worker, "run", noted)
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("ONCUE_NODE_NAME", "brief")
    return given


@pytest.mark.parametrize("form", ["--database-url {}", "--database-url={}", "--http --database-url {} --lease 2s"])
@pytest.mark.usefixtures("no_sqlite_file")
def test_what_is_worked_on_is_what_is_migrated(
    form: str, commands: list[Sequence[str]], sqlite_url: str, tmp_path: Path
) -> None:
    wanted = f"sqlite:///{tmp_path / 'wanted.db'}"
    options = form.format(wanted).split()
    with pytest.raises(SystemExit, match=r"^0$"):
        worker.main(options)
    assert [command[0] for command in commands] == ["migrate", "worker"]
    assert list(commands[1][-len(options) :]) == options
    engine = database.connect(wanted)
    assert inspect(engine).has_table("job_runs")
    engine.dispose()
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


@pytest.mark.usefixtures("no_sqlite_file")
def test_an_option_without_its_value_is_refused_before_anything_is_touched(
    commands: list[Sequence[str]], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        worker.main(["--database-url"])
    assert [command[0] for command in commands] == ["migrate"]
    assert list(tmp_path.glob("*.db")) == []
