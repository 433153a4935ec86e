"""The worker as its command starts it."""

from __future__ import annotations

from k2_daily_brief import worker

if __name__ == "__main__":
    worker.main()
