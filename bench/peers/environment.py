"""Installs a peer on first use: a virtual environment, or a folder of node modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from bench.peers.catalog import Peer
from bench.settings import SCRATCH

Install = Callable[[Path, tuple[str, ...]], None]


class Unavailable(RuntimeError):
    """This machine cannot run the peer; the message says why."""


def python_for(peer: Peer) -> str:
    """The interpreter that runs the peer's module."""
    if not peer.python:
        return sys.executable
    home = folder(peer)
    _once(home, peer.python, _install_python)
    return str(home / "bin" / "python")


def node_modules(peer: Peer) -> Path:
    if not shutil.which("npm") or not shutil.which("node"):
        raise Unavailable("node and npm are not installed")
    home = folder(peer)
    _once(home, peer.node, _install_node)
    return home / "node_modules"


def folder(peer: Peer) -> Path:
    return SCRATCH / "envs" / peer.name


def _once(home: Path, packages: tuple[str, ...], install: Install) -> None:
    """Install again only when the wanted packages have changed."""
    stamp, wanted = home / "installed.txt", "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    install(home, packages)
    stamp.write_text(wanted)


def _install_python(home: Path, packages: tuple[str, ...]) -> None:
    venv.create(home, with_pip=True, clear=True)
    _run(home / "bin" / "python", "-m", "pip", "install", "--quiet", *packages)


def _install_node(home: Path, packages: tuple[str, ...]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home, *packages)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"installing failed: {(done.stderr or done.stdout)[-500:].strip()}")
