"""The worker as its command starts it, except that one function never returns from a certain call.

That is where a test wants it killed. Arguments: the job, a file to make when it is there, options of the worker.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from k2_daily_brief import clustering, ingestion, retention, worker

MIDDLES = {
    "rss_ingestion": (ingestion, "keep", 2),
    "event_clustering": (clustering, "_count", 3),
    "retention_cleanup": (retention, "_is_loose", 1),
}
"""One feed is written and the next is not; a link is inserted, not counted; clusters are deleted and articles not."""


def hold(job: str, mark: Path) -> None:
    module, name, call = MIDDLES[job]
    original, calls = getattr(module, name), 0

    def held(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            mark.touch()
            time.sleep(600)
        return original(*arguments)

    setattr(module, name, held)


if __name__ == "__main__":
    hold(sys.argv[1], Path(sys.argv[2]))
    worker.main(sys.argv[3:])
