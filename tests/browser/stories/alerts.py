"""SLOs and alerts in all their states: warned of, in breach, within their thresholds, and nothing to measure."""

from __future__ import annotations

from datetime import timedelta

from oncue import Oncue
from oncue.model import AlertState
from tests.browser import history

BRIEF, QUEUE, MAIL = "alerts_brief", "alerts-windows", "alerts-mail"
HOUR = 60


def declare(app: Oncue) -> None:
    """What SLOs are of need not be there."""


async def tell(app: Oncue) -> list[str]:
    await _minutes(app)
    now = await app.now()
    long_ago, lately = now - timedelta(minutes=47), now - timedelta(minutes=1)
    await history.book_of(
        app,
        AlertState("cutoff_rate", BRIEF, 0.034, 0.01, 45, long_ago, long_ago + timedelta(minutes=2), 540,
                   f"34 of 1000 users of {BRIEF} reached their cutoff (3.4%)"),
        AlertState("window_depth", QUEUE, 640.2, 1000, 2, lately,
                   text=f"640 jobs of queue {QUEUE} wait on average (at most 1000), "
                   "and ever more: 12 first, 1290 last"),
        AlertState("saturation", QUEUE, 0.42, 0.8,
                   text=f"all seats of queue {QUEUE} were taken in 42% of the samples (at most 80%)"),
        AlertState("job_duration", BRIEF, 2140.0, 30_000,
                   text=f"95 % of the attempts of {BRIEF} take up to 2140 ms (at most 30000 ms)"),
        AlertState("tick_duration", "planner", 41.3, 300,
                   text="95 % of the planner's ticks take up to 41 ms (budget 300 ms)"),
        AlertState("queue_depth", MAIL, 4210, 1000, 4, now - timedelta(minutes=3), lately,
                   text=f"4210 jobs wait in {MAIL}"),
        AlertState("failed_rate", MAIL, 0.021, 0.1, text=f"21 of 1000 jobs of queue {MAIL} failed (2.1%)"),
        AlertState("running_long", "alerts_report", 5400, 3600, 1, lately,
                   text="a job of alerts_report has run for 1h30m"),
    )  # fmt: skip
    return ["/alerts"]


async def _minutes(app: Oncue) -> None:
    """An hour in which it got worse."""
    await history.minutes_of(app, "tick", "", [{"ms": history.durations(20 + at % 7 * 6)} for at in range(HOUR)])
    await history.minutes_of(
        app, "queue", QUEUE,
        [{"samples": 2, "depth": 2 * max(0, at - 30) ** 2, "running": 20, "full": int(at > 45)} for at in range(HOUR)],
    )  # fmt: skip
    await history.minutes_of(
        app, "window", BRIEF,
        [{"ms": history.durations(300 + 30 * at, 600), "ok": 30, "error": at // 12, "success": {"540": 30},
          "cutoff_reached": {"540": at // 12}} for at in range(HOUR)],
    )  # fmt: skip
    await history.minutes_of(
        app, "totals", MAIL, [{"failed": at // 6, "succeeded": 50 * at} for at in range(HOUR)]
    )  # fmt: skip
