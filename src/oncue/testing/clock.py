"""The clock of a test: it stands still until the test moves it."""

from __future__ import annotations

from datetime import timedelta

from oncue.clock import VirtualClock
from oncue.policy.durations import Duration, seconds


class Clock(VirtualClock):
    """Time as oncue sees it inside a test. It begins at the host's time; `advance` and `advance_to` move it."""

    def advance(self, by: Duration) -> None:
        """Move on by a duration: `"10m"`, seconds, or a timedelta."""
        super().advance(timedelta(seconds=seconds(by, "by")))
