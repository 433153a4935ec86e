"""Starts measured child processes, lets them warm up, fires one starting shot and collects their answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from bench.settings import ROOT

PATIENCE = 900.0


class ChildFailed(RuntimeError):
    """A child ended without the expected word; the message ends with what it wrote to stderr."""


class Child:
    def __init__(
        self, module: str, *words: object, python: str = sys.executable, env: Mapping[str, str] | None = None
    ) -> None:
        self.module = module
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the child)
        self.process = subprocess.Popen(
            [python, "-m", module, *map(str, words)],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        # A peer that loses a job would wait for it for ever.
        self.guard = threading.Timer(PATIENCE, self.process.kill)
        self.guard.daemon = True
        self.guard.start()

    def wait_ready(self) -> None:
        while (line := self._line()) != "ready":
            if not line:
                raise self._failure("ended before it was ready")

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """The child's JSON answer; some peers print a banner of their own around it."""
        lines = [line for line in self._rest().splitlines() if line.startswith('{"')]
        if not lines:
            raise self._failure("ended without an answer")
        self._close()
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer

    def done(self) -> None:
        """Wait for a child that has nothing to answer."""
        self._rest()
        self._close()

    def stop(self) -> None:
        self.guard.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream:
                stream.close()

    def _rest(self) -> str:
        output, _ = self.process.communicate()
        self.guard.cancel()
        if self.process.returncode != 0:
            raise self._failure(f"exit code {self.process.returncode}")
        return output

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def _failure(self, what: str) -> ChildFailed:
        self.process.wait()
        self.errors.seek(0)
        failure = ChildFailed(f"{self.module}: {what}\n{self.errors.read()[-3000:]}")
        self._close()
        return failure


def race(children: Iterable[Child]) -> list[dict[str, Any]]:
    """Start together, answer together."""
    crew = list(children)
    try:
        for child in crew:
            child.wait_ready()
        for child in crew:
            child.go()
        return [child.result() for child in crew]
    finally:
        for child in crew:
            child.stop()


def rate(answers: list[dict[str, Any]], jobs: int | None = None) -> float:
    """Jobs per second from the first start to the last end; answers carry jobs, started and ended (ns).

    `jobs` is how many there were to do, if that is known: a rate of fewer would mean nothing.
    """
    done = sum(answer["jobs"] for answer in answers)
    if jobs is not None and done != jobs:
        raise ChildFailed(f"{done} of {jobs} jobs were done")
    started = min(answer["started"] for answer in answers)
    ended = max(answer["ended"] for answer in answers)
    return float(done / ((ended - started) / 1e9))
