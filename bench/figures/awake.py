"""awake: milliseconds from the creation of a cluster job to the start of a part of it, on another node.

With notifications it is compared to the bare insert-notify-claim path; without them there is a limit: one poll.
"""

from __future__ import annotations

from bench import bare_pickup, oncue_cluster
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_most, limited, plain

POLL_MS, SPARE_MS = 500.0, 150.0


def measure(bench: Bench) -> list[Figure]:
    awake = bench.on_postgres(lambda dsn: oncue_cluster.delays(dsn, bench.settings.cluster_jobs, listen=True)["p50"])
    delays = bench.medians({"bare": _bare(bench), "oncue": awake})
    with bench.server.fresh() as dsn:
        muted = oncue_cluster.delays(dsn, bench.settings.muted_cluster_jobs, listen=False)["p99"]
    return [
        at_most("awake", delays["oncue"], delays["bare"], 2.5),
        limited("awake muted", muted, POLL_MS + SPARE_MS, "ms"),
    ]


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare awake", bench.medians({"bare": _bare(bench)})["bare"], "ms")]


def _bare(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_pickup.p50(dsn, bench.settings.pickups))
