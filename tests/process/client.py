"""A process that enqueues one job after the other, until it is stopped."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from oncue import StoreUnavailable
from tests.process.program import plain_step, step


def main(pause: float) -> None:
    number = 0
    while True:
        number += 1
        task = (step, plain_step)[number % 2]
        with suppress(StoreUnavailable):  # then nobody knows, and nothing is acknowledged
            if number % 5:
                task.enqueue(0.05)
            else:
                task.using(key=f"{number % 3}").enqueue(0.05)
        time.sleep(pause)


if __name__ == "__main__":
    main(float(sys.argv[1]))
