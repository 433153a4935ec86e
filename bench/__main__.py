"""python -m bench [bare | peers] [FIGURE ...]: measure, write build/bench.json, print a table, judge.

python -m bench table: write the README's table from the last full run.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType

from bench import database, readme, settings, verdict
from bench.figures import (
    api_listing,
    awake,
    checker,
    claim_scaling,
    drain_pg,
    drain_pg_two,
    drain_sqlite,
    enqueue_bulk,
    enqueue_one,
    global_limit,
    groups,
    hanging,
    hook20,
    isolation,
    memory,
    pages,
    peers,
    pickup_p50,
    sim_days,
    sim_repeat,
    slots_per_second,
    tabs,
    tick_scaling,
    webhooks,
    window_close,
    window_tick,
)
from bench.figures.context import Bench
from bench.oncue_side import NotReady
from bench.verdict import Figure

# In this order they are run and shown.
FIGURES: dict[str, ModuleType] = {
    "drain_pg": drain_pg,
    "drain_pg_two": drain_pg_two,
    "enqueue_one": enqueue_one,
    "enqueue_bulk": enqueue_bulk,
    "pickup_p50": pickup_p50,
    "drain_sqlite": drain_sqlite,
    "claim_scaling": claim_scaling,
    "memory": memory,
    "slots_per_second": slots_per_second,
    "tick_scaling": tick_scaling,
    "global_limit": global_limit,
    "groups": groups,
    "webhooks": webhooks,
    "isolation": isolation,
    "hanging": hanging,
    "hook20": hook20,
    "window_tick": window_tick,
    "window_close": window_close,
    "awake": awake,
    "api_listing": api_listing,
    "pages": pages,
    "tabs": tabs,
    "checker": checker,
    "sim_days": sim_days,
    "sim_repeat": sim_repeat,
}
LONG = frozenset({"hook20"})
"""Those that are measured only when they are named."""

Measure = Callable[[Bench], list[Figure]]


def plan(words: list[str]) -> dict[str, Measure]:
    """What to measure, by name."""
    if words[:1] == ["peers"]:
        return {"peers": peers.measure}
    kind = "bare" if words[:1] == ["bare"] else "measure"
    names = words[1:] if kind == "bare" else words
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known are bare, peers, table, {', '.join(FIGURES)}", file=sys.stderr)
        raise SystemExit(2)
    wanted = names or FIGURES.keys() - LONG
    return {name: getattr(module, kind) for name, module in FIGURES.items() if name in wanted}


def attempt(name: str, measure: Measure, bench: Bench) -> list[Figure]:
    """A figure that breaks counts as missed, and the others are still measured."""
    print(name, file=sys.stderr, flush=True)
    try:
        return measure(bench)
    except NotReady as reason:
        return [verdict.missing(name, str(reason), holds=False)]
    except Exception as error:
        traceback.print_exc()
        return [verdict.missing(name, f"{type(error).__name__}: {error}"[:200], holds=False)]


def main(words: list[str]) -> int:
    if words == ["table"]:
        return readme.main()
    steps, sizes = plan(words), settings.load()
    with database.running_server() as server:
        bench = Bench(server, sizes)
        version = database.version(server)
        figures = [figure for name, step in steps.items() for figure in attempt(name, step, bench)]
    verdict.write(figures, settings.BUILD / "bench.json")
    readme.note_run(readme.Run(os.cpu_count() or 1, version, sizes.runs, readme.amounts_of(sizes)))
    verdict.show(figures)
    return verdict.exit_code(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
