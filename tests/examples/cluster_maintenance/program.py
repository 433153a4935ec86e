"""The command `cluster_maintenance`, the nodes that it starts, and what the database says of them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cluster_maintenance import manifest
from cluster_maintenance.fleet import Fleet, Started

from oncue import ClusterJob, Oncue
from tests.examples.conftest import ROOT
from tests.examples.services import clean_environment
from tests.process.processes import until

T = TypeVar("T")

PATH = f"{ROOT / 'examples/cluster_maintenance/src'}:{ROOT / 'src'}:{ROOT}"
LEASE = "2s"


class Program:
    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.folder = folder / "maintenance"
        self.manifest = self.folder / "manifest"
        self.fleet = Fleet(self.folder)
        self.app = Oncue(url)
        self._cwd = folder
        theirs = {name: value for name, value in clean_environment().items() if not name.startswith("MAINTENANCE_")}
        ours = {"DATABASE_URL": url, "PYTHONPATH": PATH, "ONCUE_LOG_LEVEL": "info"}
        self.environment = {**theirs, **ours, **environment}

    def close(self) -> None:
        for started in self.fleet.alive():
            started.send(signal.SIGKILL)
        self.app.close()

    # --- the command ------------------------------------------------------------------------------------------------

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "cluster_maintenance", *arguments]
        return subprocess.Popen(
            command, cwd=self._cwd, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end; what it says."""
        process = self.start(*arguments)
        said, _ = process.communicate()
        assert process.returncode == code, f"{arguments} ended with {process.returncode}:\n{said}\n{self.logs}"
        return said

    def up(self, nodes: int) -> str:
        return self.run("up", "--nodes", str(nodes), "--port", "0", "--lease", LEASE)

    def node(self, name: str) -> Started:
        return next(started for started in self.fleet.all() if started.name == name)

    # --- the database -----------------------------------------------------------------------------------------------

    def jobs(self) -> list[ClusterJob]:
        """Newest first, with the results of their parts."""
        return [self.app.wait(self.app.cluster.get(one.id)) for one in self.app.wait(self.app.cluster.list())]

    def leader(self) -> str:
        def name() -> str | None:
            found = self.app.wait(self.app.cluster.leader())
            return None if found is None else found.name

        return str(self.until(name, "a node leads"))

    def published(self, cluster: ClusterJob) -> list[Path]:
        """The generations that carry the uid of a job."""
        uid = str(cluster.job.uid)
        return [path for path in manifest.generations(self.manifest) if uid in path.read_text("utf-8")]

    def until(self, condition: Callable[[], T], wanted: str) -> T:
        return until(condition, wanted, lambda: self.logs)

    @property
    def logs(self) -> str:
        return "\n".join(f"--- {one.name}\n{self.fleet.last_words(one.name)}" for one in self.fleet.all())
