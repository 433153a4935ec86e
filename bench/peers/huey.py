"""huey: SqliteHuey in WAL mode with fsync, no results kept, one worker thread."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import logging
import threading

from huey import SqliteHuey

from bench import child


def queue(path: str, fsync: bool) -> SqliteHuey:
    return SqliteHuey(filename=path, fsync=fsync, journal_mode="wal", results=False)


def fill(path: str, jobs: str) -> None:
    """Filling is not measured, so it need not wait for the disk."""
    huey = queue(path, fsync=False)

    @huey.task(name="noop")
    def noop() -> None: ...

    for _ in range(int(jobs)):
        noop()


def drain(path: str, jobs: str) -> None:
    huey, finished = queue(path, fsync=True), threading.Event()
    meter = child.Meter(int(jobs), finished.set)

    @huey.task(name="noop")
    def noop() -> None:
        meter.count()

    # Tried with 1, 2, 4 and 8 threads, three runs each: one was the fastest.
    consumer = huey.create_consumer(workers=1, worker_type="thread", periodic=False, check_worker_health=False)
    consumer.start()
    finished.wait()
    consumer.stop()
    child.answer(rate=meter.rate())


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    child.dispatch({"fill": fill, "drain": drain})
