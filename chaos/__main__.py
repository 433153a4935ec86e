"""python -m chaos [PART ...]: play, write build/chaos.json, print a table, judge.

QUICK=1 plays a small part of it. SEED=7 rolls other dice; the same seed makes the same plan, though not the same
timing.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from math import ceil
from multiprocessing import get_context

from bench import verdict
from bench.settings import BUILD
from bench.verdict import Figure
from chaos import parts
from chaos.parts import FULL, PARTS, QUICK, Act, Order
from chaos.stage import Outcome
from tests import postgres
from tests.process.program import LEASE

AT_ONCE = 3
ENOUGH_TAKEOVERS = 20
"""Fewer are too few for a bar."""
GRACE = 1.0
"""So many seconds after the end of its lease the next leader is elected."""
SHOWN = 20
BARS = {
    "kills": "kills", "zombies": "zombies", "restarts": "restarts", "replies": "replies", "lines": "lines cut",
    "windows": "kills in windows", "cluster": "leaders struck",
}  # fmt: skip
"""For each part, what is counted to see that enough was done."""
PROMISES = {
    "lost_jobs": ("nothing acknowledged is lost",),
    "duplicate_slots": ("a slot is decided once", "every slot is accounted for", "every second is decided once"),
    "double_terminals": ("a job ends once, and stays as it ended", "only the current claim writes"),
    "stuck_jobs": ("nothing is stuck after two leases", "everything ends"),
    "late_writes_accepted": ("a zombie's late writes are rejected",),
    "wrong_days": ("every day has one outcome",),
    "late_successes": ("no success after its cutoff",),
    "wrong_hooks": ("one hook for each cutoff",),
    "wrong_day_counts": ("the counts of a day are those of its users",),
    "wrong_epochs": ("epochs only grow, and each has one holder",),
    "stale_leader_actions": ("a leader action counts under the epoch that leads",),
    "jobs_without_verdict": ("every cluster job has one verdict",),
}


def chosen(words: Sequence[str]) -> tuple[Order, ...]:
    """Everything, or only these parts."""
    unknown = sorted(set(words) - set(PARTS))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known are {', '.join(PARTS)}", file=sys.stderr)
        raise SystemExit(2)
    orders = QUICK if os.environ.get("QUICK") else FULL
    return tuple(order for order in orders if order.part in words or not words)


def seeded() -> int:
    text = os.environ.get("SEED") or "1"
    if not text.isdecimal():
        print(f"SEED: expected a number, not {text!r}", file=sys.stderr)
        raise SystemExit(2)
    return int(text)


def play(pool: Executor, server: postgres.Server, acts: Sequence[Act]) -> tuple[Outcome, Counter[str]]:
    """Play them, a few at a time; what came of it, and how many seconds each part took."""
    total, seconds = Outcome(), Counter[str]()
    played = {pool.submit(parts.carried_out, act, server): act for act in acts}
    for number, future in enumerate(as_completed(played), 1):
        act, (outcome, took) = played[future], future.result()
        total.add(outcome)
        seconds[act.part] += round(took)
        told = ", ".join(f"{count:,} {name}" for name, count in outcome.done.items() if count)
        print(
            f"{number} of {len(acts)}: {act.name}: {took:.0f} s, {len(outcome.faults)} faults; {told}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    return total, seconds


def measured(
    pool: Executor, server: postgres.Server, orders: tuple[Order, ...], seed: int
) -> tuple[list[Figure], list[tuple[str, str]]]:
    """The figures, and the faults in words."""
    begun = time.monotonic()
    total, seconds = play(pool, server, parts.acts(orders, seed))
    return judged(total, orders, seconds, time.monotonic() - begun), total.faults


def judged(total: Outcome, orders: Sequence[Order], seconds: Counter[str], elapsed: float) -> list[Figure]:
    """What must be nought, and how much was done."""
    broken = Counter(promise for promise, _ in total.faults if promise != "kept")
    named = {promise for promises in PROMISES.values() for promise in promises}
    figures = [
        verdict.limited(name, sum(broken[promise] for promise in promises), 0, "")
        for name, promises in PROMISES.items()
    ]
    others = sum(count for promise, count in broken.items() if promise not in named)
    figures.append(verdict.limited("other_faults", others, 0, ""))
    figures.append(
        verdict.plain("longest_wait_seconds", total.longest, "of a killed worker's job, until it ran elsewhere")
    )
    figures += taken_over(total.takeovers)
    for part, counted in BARS.items():
        wanted = sum(order.amount // order.acts * order.acts for order in orders if order.part == part)
        if wanted:
            done, note = total.done[counted], f"{seconds[part]:,} s of acts"
            figures.append(
                Figure(counted.replace(" ", "_"), done, bar=f">= {wanted:,}", holds=done >= wanted, note=note)
            )
    plain = [name for name in sorted(total.done) if name not in BARS.values() and total.done[name]]
    figures += [verdict.plain(name.replace(": ", "_").replace(" ", "_"), total.done[name]) for name in plain]
    return [*figures, verdict.plain("minutes", elapsed / 60)]


def taken_over(takeovers: Sequence[float]) -> list[Figure]:
    """How long the cluster was without a leader, from the end of one to the election of the next."""
    if not takeovers:
        return []
    told = sorted(takeovers)
    middle, late, last = (told[ceil(share * len(told)) - 1] for share in (0.5, 0.99, 1.0))
    bounded = len(told) >= ENOUGH_TAKEOVERS
    return [
        verdict.plain("takeover_p50_seconds", middle, f"of {len(told)}, with leases of {LEASE:g} s"),
        verdict.limited("takeover_p99_seconds", late, LEASE + GRACE, "s")
        if bounded
        else verdict.plain("takeover_p99_seconds", late, "of too few for a bar"),
        verdict.plain("takeover_max_seconds", last),
    ]


def tell(faults: Sequence[tuple[str, str]]) -> None:
    """The first of them on the terminal, all of them in a file."""
    path = BUILD / "chaos_faults.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{promise}: {told}\n" for promise, told in faults))
    for promise, told in faults[:SHOWN]:
        print(f"{promise}: {told}")
    if len(faults) > SHOWN:
        print(f"... and {len(faults) - SHOWN} more in {path}")


def main(words: Sequence[str]) -> int:
    orders, seed = chosen(words), seeded()
    print(f"seed {seed}", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as pool:
        figures, faults = measured(pool, postgres.start(os.getpid()), orders, seed)
    tell(faults)
    verdict.write(figures, BUILD / "chaos.json")
    verdict.show(figures)
    return verdict.exit_code(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
