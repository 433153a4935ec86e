"""What the program of a child process does on its own; with its worker it is tested in tests/engine/test_processes."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from oncue.process_tasks.child import interrupt

told: list[str] = []
begun = threading.Event()


@pytest.fixture
def soon() -> Iterator[threading.Thread]:
    """Once it is started, a signal interrupts the work a moment after that has begun."""
    tracing, told[:] = sys.gettrace(), []
    begun.clear()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: interrupt(frame, SystemExit))
    thread = threading.Thread(target=disturb)
    yield thread
    thread.join()
    signal.signal(signal.SIGUSR1, before)
    sys.settrace(tracing)


def disturb() -> None:
    begun.wait()
    time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGUSR1)


def endless() -> None:
    total = 0
    try:
        begun.set()
        while True: total += 1  # noqa: E701  # fmt: skip
    finally:
        told.append("finally")


def conditional(go_on: bool = True) -> None:
    try:
        begun.set()
        while go_on:
            pass
    finally:
        told.append("finally")


def computing(go_on: bool = True) -> None:
    total = 0
    try:
        begun.set()
        while go_on:
            total += sum(range(10))
    except SystemExit:
        told.append("except")
        raise
    finally:
        told.append("finally")


def counting() -> None:
    try:
        begun.set()
        for _ in itertools.count():
            pass
    finally:
        told.append("finally")


def nested() -> None:
    try:
        endless()
    finally:
        told.append("outer finally")


def sleeping() -> None:
    try:
        begun.set()
        time.sleep(60)
    finally:
        told.append("finally")


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (endless, ["finally"]),
        (conditional, ["finally"]),
        (computing, ["except", "finally"]),
        (counting, ["finally"]),
        (nested, ["finally", "outer finally"]),
        (sleeping, ["finally"]),
    ],
)
def test_an_interruption_runs_every_finally(
    soon: threading.Thread, work: Callable[[], None], expected: list[str]
) -> None:
    def interrupted() -> None:
        soon.start()
        work()

    with pytest.raises(SystemExit):
        interrupted()
    assert told == expected
