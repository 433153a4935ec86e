"""How many jobs to claim ahead of the seats that will run them."""

from __future__ import annotations

AHEAD_SECONDS = 0.1
AHEAD_IN_LIMITED_SECONDS = 0.05
"""The same for a queue with a limit: an operator who looks at it sees hardly more running than that allows."""


def buffer_target(ended: int, elapsed: float, ceiling: int, ahead: float = AHEAD_SECONDS) -> int:
    """What will end in the next tenth of a second, or in `ahead` seconds, at the present rate.

    Short jobs need a full buffer to keep the seats busy during a claim. Long jobs need none: a job that waits here
    could be running on another node, and would come under suspicion if this process died.
    """
    if elapsed <= 0:
        return 0
    return min(ceiling, int(ended / elapsed * ahead))


def shortage(seats: int, busy: int, target: int) -> int:
    """How many to claim now: nothing until half of the buffer is gone, so that claims stay large."""
    missing = seats + target - busy
    return missing if missing >= max(1, target // 2) else 0
