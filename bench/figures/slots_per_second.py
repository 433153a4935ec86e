"""slots_per_second: many schedules due at one instant, until all slots are in the ledger with their jobs."""

from __future__ import annotations

from bench import bare_slots, oncue_slots
from bench.crew import Child
from bench.figures.context import Bench
from bench.timing import Side
from bench.verdict import Figure, at_least, plain

PEER = "apscheduler"


def measure(bench: Bench) -> list[Figure]:
    slots = bench.settings.slots

    def fire(dsn: str) -> float:
        oncue_slots.fill(dsn, slots, slots)
        return float(Child("bench.oncue_slots", "fire", dsn, slots).result()["rate"])

    rivals, absent = bench.firings(PEER)
    rates = bench.medians({"bare": _bare(bench), "oncue": bench.on_postgres(fire), **rivals})
    figures = [at_least("slots_per_second", rates["oncue"], rates["bare"], 0.15)]
    return (
        figures + [at_least(f"slots_per_second / {name}", rates["oncue"], rates[name], 20) for name in rivals] + absent
    )


def bare(bench: Bench) -> list[Figure]:
    return [plain("bare slots_per_second", bench.medians({"bare": _bare(bench)})["bare"], "slots/s")]


def _bare(bench: Bench) -> Side:
    return bench.on_postgres(lambda dsn: bare_slots.insert(dsn, bench.settings.slots))
