"""The settings, complaints that name the variable, and the unit file."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from cluster_maintenance import command
from cluster_maintenance.settings import Settings, SettingsError, load

from tests.examples.conftest import ROOT

UNIT = ROOT / "examples/cluster_maintenance/systemd/cluster-maintenance.service"


def test_without_any_variable_everything_is_below_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "maintenance"
    assert load({"MAINTENANCE_WRITES": " "}) == Settings(folder, folder / "manifest", 50.0, 5)


def test_each_variable_is_read() -> None:
    given = {
        "MAINTENANCE_FOLDER": "/a", "MAINTENANCE_MANIFEST": "/b", "MAINTENANCE_WRITES": "0", "MAINTENANCE_KEEP": "3"
    }  # fmt: skip
    assert load(given) == Settings(Path("/a"), Path("/b"), 0.0, 3)


@pytest.mark.parametrize("name", ["MAINTENANCE_WRITES", "MAINTENANCE_KEEP"])
@pytest.mark.parametrize("value", ["many", "-1", "1e9", "nan"])
def test_a_value_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: expected a number") as refused:
        load({name: value})
    assert refused.value.exit_code == 2


def test_the_unit_starts_a_node_by_the_name_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (line for line in UNIT.read_text("utf-8").splitlines() if line.startswith("ExecStart="))
    program, *options = shlex.split(line.partition("=")[2])
    assert Path(program).name == command.NAME
    given: list[list[str]] = []
    monkeypatch.setattr(command, "oncue", lambda arguments: given.append(list(arguments)) or 0)
    with pytest.raises(SystemExit, match=r"^0$"):
        command.main(options)
    assert given[0][0] == "migrate"
    assert given[1] == ["worker", "--app", command.APP, "--name", "%H"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    text = UNIT.read_text("utf-8").replace("/opt/cluster-maintenance/bin", str(tmp_path))
    (tmp_path / UNIT.name).write_text(text, "utf-8")
    (tmp_path / command.NAME).write_text("#!/bin/sh\n")
    (tmp_path / command.NAME).chmod(0o755)
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", str(tmp_path / UNIT.name)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert [line for line in answer.stderr.splitlines() if "cluster-maintenance" in line] == []
