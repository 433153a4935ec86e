"""The unit files of both services: systemd can read them, and what they start is there and takes these options."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tomllib
from configparser import ConfigParser
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from gunicorn.config import Config
from k2_daily_brief import worker

from oncue.policy.durations import seconds
from tests.examples.conftest import ROOT
from tests.examples.services import UNITS, started_by

EXAMPLE = ROOT / "examples/daily_brief"
SERVICES = ("k2dailybrief-web", "k2dailybrief-worker")


def unit(name: str) -> ConfigParser:
    """A unit file. systemd's own words have capitals, and one may come twice."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((UNITS / f"{name}.service").read_text("utf-8"))
    return parser


@pytest.mark.contract("SLOT-1")
@pytest.mark.parametrize("name", SERVICES)
def test_each_service_has_a_unit_that_starts_a_command_there_is(name: str) -> None:
    found = unit(name)
    command = Path(shlex.split(found["Service"]["ExecStart"])[0])
    ours = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert command.is_absolute()
    assert command.name in ours or entry_points(group="console_scripts", name=command.name)
    assert found["Install"]["WantedBy"] == "multi-user.target"
    assert found["Service"]["Restart"] == "always"


def test_the_page_is_served_by_several_processes_of_uvicorns_worker_class() -> None:
    given = vars(Config().parser().parse_args(started_by("k2dailybrief-web")))
    assert (given["args"], given["workers"]) == (["k2_daily_brief.web.app:app"], 4)
    assert given["worker_class"] == "uvicorn_worker.UvicornWorker"
    stop = seconds(unit("k2dailybrief-web")["Service"]["TimeoutStopSec"])
    assert given["graceful_timeout"] < stop, "systemd would kill what is being answered"


@pytest.mark.contract("SLOT-2")
def test_the_worker_is_exclusive_and_has_time_to_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(worker, "run", lambda arguments: given.append(list(arguments)) or 0)
    monkeypatch.setenv("ONCUE_NODE_NAME", "brief")
    options = started_by("k2dailybrief-worker")
    with pytest.raises(SystemExit, match=r"^0$"):
        worker.main(options)
    assert "--exclusive" in given[-1]
    drain = seconds(options[options.index("--drain-timeout") + 1])
    assert drain < seconds(unit("k2dailybrief-worker")["Service"]["TimeoutStopSec"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    """With a command that exists: it looks for the file too."""
    for name in SERVICES:
        text = (UNITS / f"{name}.service").read_text("utf-8").replace("/opt/k2dailybrief/bin", str(tmp_path))
        (tmp_path / f"{name}.service").write_text(text, "utf-8")
        command = Path(shlex.split(unit(name)["Service"]["ExecStart"])[0]).name
        (tmp_path / command).write_text("#!/bin/sh\n")
        (tmp_path / command).chmod(0o755)
    files = [str(tmp_path / f"{name}.service") for name in SERVICES]
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *files], capture_output=True, text=True
    )
    assert [line for line in answer.stderr.splitlines() if any(name in line for name in SERVICES)] == []
