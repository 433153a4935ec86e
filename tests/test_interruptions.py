"""Wherever a signal interrupts a handler, each `finally` block that it has entered runs, on every version of Python.

The signal comes from a timer that counts the process's own time, so it strikes busy code at any instruction. Every
work says `in` when a `try` or a `with` has begun, and `out` when that has ended. A `finally` block is a single call of
C, because an interruption may also strike inside of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from oncue.process_tasks.child import interrupt

ROUNDS = 5
told: list[str] = []
delays = random.Random(1)


@pytest.fixture(autouse=True)
def interrupting() -> Iterator[None]:
    tracing = sys.gettrace()
    before = signal.signal(signal.SIGVTALRM, lambda number, frame: interrupt(frame, SystemExit))
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)
    sys.settrace(tracing)


def begin() -> None:
    told.append("in")
    signal.setitimer(signal.ITIMER_VIRTUAL, delays.uniform(1e-6, 2e-3))


def loop_on_one_line() -> None:
    total = 0
    try:
        begin()
        while True: total += 1  # noqa: E701  # fmt: skip
    finally:
        told.append("out")


def loop_that_opens_the_try() -> None:
    total = 0
    begin()
    try:
        while True: total += 1  # noqa: E701  # fmt: skip
    finally:
        told.append("out")


def loop_that_does_nothing() -> None:
    try:
        begin()
        while True:
            pass
    finally:
        told.append("out")


def loop_with_a_condition(go_on: bool = True) -> None:
    try:
        begin()
        while go_on:
            pass
    finally:
        told.append("out")


def loop_over_an_iterator() -> None:
    try:
        begin()
        for _ in itertools.count():
            pass
    finally:
        told.append("out")


def loop_of_400_lines() -> None:
    """Its jump is so long that the instruction has a prefix."""
    lines = "".join(f"   total += {number}\n" for number in range(400))
    text = f"def long():\n total = 0\n try:\n  begin()\n  while True:\n{lines} finally:\n  told.append('out')\n"
    names = {"begin": begin, "told": told}
    exec(text, names)
    names["long"]()  # type: ignore[operator]


def calls() -> None:
    def one_more(number: int) -> int:
        return number + 1

    number = 0
    try:
        begin()
        while True:
            number = one_more(number)
    finally:
        told.append("out")


def calls_of_c() -> None:
    try:
        begin()
        while True:
            sorted([len("four"), sum(range(3))])
    finally:
        told.append("out")


def deep_calls(depth: int = 30) -> None:
    if depth:
        return deep_calls(depth - 1)
    loop_on_one_line()


def tries_in_a_try() -> None:
    try:
        begin()
        try:
            told.append("in")
            try:
                told.append("in")
                while True:
                    pass
            finally:
                told.append("out")
        finally:
            told.append("out")
    finally:
        told.append("out")


def many_tries() -> None:
    try:
        begin()
        while True:
            try:
                told.append("in")
                for _ in range(50):
                    pass
            finally:
                told.append("out")
    finally:
        told.append("out")


def many_errors() -> None:
    try:
        begin()
        while True:
            with contextlib.suppress(ValueError):
                raise ValueError
    finally:
        told.append("out")


def loop_in_an_except() -> None:
    try:
        begin()
        try:
            raise ValueError
        except ValueError:
            while True:
                pass
    finally:
        told.append("out")


class Entered:
    def __enter__(self) -> None:
        begin()

    def __exit__(self, *error: object) -> None:
        told.append("out")


def with_an_object() -> None:
    with Entered():
        while True:
            pass


@contextlib.contextmanager
def entered() -> Iterator[None]:
    try:
        begin()
        yield
    finally:
        told.append("out")


def with_a_generator() -> None:
    with entered():
        while True:
            pass


def with_a_lock() -> None:
    lock = threading.Lock()
    try:
        begin()
        with lock:
            while True:
                pass
    finally:
        told.append("still locked" if lock.locked() else "out")


def numbers() -> Iterator[int]:
    try:
        begin()
        number = 0
        while True:
            number += 1
            yield number
    finally:
        told.append("out")


def generator() -> None:
    for _ in numbers():
        pass


def generator_of_a_generator() -> None:
    def inner() -> Iterator[int]:
        told.append("in")
        try:
            yield from numbers()
        finally:
            told.append("out")

    for _ in inner():
        pass


def comprehensions() -> None:
    try:
        begin()
        while True:
            [number for number in range(100) if number % 2]
    finally:
        told.append("out")


def endless_comprehension() -> None:
    try:
        begin()
        {number: number for number in itertools.count() if number < 0}
    finally:
        told.append("out")


def generator_expression() -> None:
    try:
        begin()
        sum(number for number in itertools.count())
    finally:
        told.append("out")


def busy_coroutine() -> None:
    async def busy() -> None:
        loop_that_does_nothing()

    asyncio.run(busy())


def awaiting_coroutine() -> None:
    async def nothing() -> None: ...

    async def busy() -> None:
        try:
            begin()
            while True:
                await nothing()
        finally:
            told.append("out")

    asyncio.run(busy())


def asynchronous_generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        told.append("in")
        try:
            while True:
                yield 1
        finally:
            told.append("out")

    async def busy() -> None:
        try:
            begin()
            async with contextlib.aclosing(numbers()) as found:  # type: ignore[type-var]
                async for _ in found:
                    pass
        finally:
            told.append("out")

    asyncio.run(busy())


@pytest.mark.parametrize(
    "work",
    [
        loop_on_one_line, loop_that_opens_the_try, loop_that_does_nothing, loop_with_a_condition, loop_over_an_iterator,
        loop_of_400_lines, calls, calls_of_c, deep_calls, tries_in_a_try, many_tries, many_errors, loop_in_an_except,
        with_an_object, with_a_generator, with_a_lock, generator, generator_of_a_generator, comprehensions,
        endless_comprehension, generator_expression, busy_coroutine, awaiting_coroutine, asynchronous_generator,
    ],
)  # fmt: skip
def test_every_block_that_was_entered_is_left(work: Callable[[], None]) -> None:
    for _ in range(ROUNDS):
        told.clear()
        with pytest.raises(SystemExit):
            work()
        # One `out` may come without its `in`: a `try` was entered, and had not said so yet.
        assert 0 <= told.count("out") - told.count("in") <= 1, told[-10:]
        assert sys.gettrace() is None
