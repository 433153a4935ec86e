"""Whether a process is proved dead: only what the system says for certain counts. The processes here are real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncue import identity

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")

ANOTHER_NAMESPACE = "pid:[1]"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A live process of ours."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.communicate()


def told(child: subprocess.Popen[bytes]) -> str:
    """What this process said of itself when it began."""
    return identity._process_start(str(child.pid))


def die(child: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait until it is dead, but leave its row in the table of processes."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_a_live_process_is_not_gone(child: subprocess.Popen[bytes]) -> None:
    assert told(child)
    assert not identity.is_gone(child.pid, told(child))
    assert not identity.is_gone(os.getpid(), identity.process_start())


@pytest.mark.contract("SLOT-9")
def test_one_that_was_killed_and_reaped_is_gone(child: subprocess.Popen[bytes]) -> None:
    start = told(child)
    die(child)
    child.wait()
    assert identity.is_gone(child.pid, start)


@pytest.mark.contract("SLOT-9")
def test_one_that_is_dead_and_whose_parent_has_not_noticed_is_gone(child: subprocess.Popen[bytes]) -> None:
    start = told(child)
    die(child)
    os.kill(child.pid, 0)  # its number is still taken
    assert identity.is_gone(child.pid, start)


@pytest.mark.contract("SLOT-9")
def test_one_whose_number_has_gone_to_another_is_gone(child: subprocess.Popen[bytes]) -> None:
    namespace, began = told(child).split()
    assert identity.is_gone(child.pid, f"{namespace} {int(began) - 1}")


def unreadable(error: type[OSError]) -> Callable[[str], str]:
    def read(pid: str) -> str:
        raise error(f"/proc/{pid}/stat")

    return read


@pytest.mark.contract("SLOT-9")
@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError, ProcessLookupError, OSError])
def test_one_that_cannot_be_looked_at_is_not_gone(
    child: subprocess.Popen[bytes], error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user's under `hidepid`, where /proc does not even admit that it is there."""
    start = told(child)
    monkeypatch.setattr(identity, "_read_stat", unreadable(error))
    assert not identity.is_gone(child.pid, start)
    die(child)
    child.wait()
    assert identity.is_gone(child.pid, start), "its number is free: that needs no look"


@pytest.mark.parametrize("text", ["", "4711 (python", "4711 (python) S 1"])
def test_a_line_that_makes_no_sense_proves_nothing(
    child: subprocess.Popen[bytes], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = told(child)
    monkeypatch.setattr(identity, "_read_stat", lambda pid: text)
    assert not identity.is_gone(child.pid, start)
    assert identity.process_start() == ""


def test_one_that_may_not_be_signalled_is_not_gone(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = told(child)

    def refused(pid: int, number: int) -> None:
        raise PermissionError(pid)

    monkeypatch.setattr(os, "kill", refused)
    assert not identity.is_gone(child.pid, start)


def test_a_number_of_another_container_says_nothing_here(child: subprocess.Popen[bytes]) -> None:
    _, began = told(child).split()
    die(child)
    child.wait()
    assert not identity.is_gone(child.pid, f"{ANOTHER_NAMESPACE} {began}")


def test_one_that_told_nothing_of_itself_is_never_proved_dead(child: subprocess.Popen[bytes]) -> None:
    die(child)
    child.wait()
    assert not identity.is_gone(child.pid, "")


def test_the_name_of_a_program_may_contain_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = " ".join(map(str, range(4, 23)))
    monkeypatch.setattr(identity, "_read_stat", lambda pid: f"7 (a) Z 1 (b) S {rest}")
    assert identity.process_start().split()[1] == "22"
