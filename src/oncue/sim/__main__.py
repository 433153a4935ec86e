"""python -m oncue.sim jobs 0-199: live through these seeds, and tell what was not kept of the promises.

    jobs        random work under random faults
    limits      the same, on a queue that may run three jobs at once
    groups      jobs in groups of queues, with limits, rates and pauses that change
    schedules   schedules, and operators who meddle with them
    deliveries  webhooks that are delivered to and edited, endpoints of all manners
    windows     daily windows of subjects in many zones, troubles around their cutoffs, outages of up to days
    cluster     cluster jobs on nodes that come and go, leaders that die around their decisions
    days        a day of a cluster's life, with a fault in every hour

`windows 0 --users 2000 --days 30` lives through a month of so many users instead, with a crash or a late call around
every cutoff.

A seed that raises an alarm tells its whole story again whenever it is asked, and `--history FILE` writes it down.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from oncue.sim.checker import Violation, report
from oncue.sim.cluster import simulate_cluster
from oncue.sim.days import simulate_days
from oncue.sim.deliveries import simulate_deliveries
from oncue.sim.groups import simulate_groups
from oncue.sim.runs import simulate, simulate_schedules
from oncue.sim.windows import Population, outcomes_of, simulate_population, simulate_windows
from oncue.sim.world import World

RUNS: dict[str, Callable[[int], tuple[World, list[Violation]]]] = {
    "jobs": simulate,
    "limits": lambda seed: simulate(seed, limit=3),
    "groups": simulate_groups,
    "schedules": simulate_schedules,
    "deliveries": simulate_deliveries,
    "windows": simulate_windows,
    "cluster": simulate_cluster,
    "days": simulate_days,
}


def seeds(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        found = range(0)
    if not found:  # no alarm would be raised, and nothing would be shown by that
        raise argparse.ArgumentTypeError(f"{text!r}: expected a seed, or a range of them such as 0-199")
    return found


def writable(text: str) -> Path:
    """A file to be written in the end, tried before anything takes its time."""
    path = Path(text)
    try:
        path.open("a").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file that can be written; {error.strerror}") from None
    return path


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        "python -m oncue.sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("seeds", type=seeds, help="one, or a range such as 0-199")
    parser.add_argument("--history", type=writable, metavar="FILE", help="write the events of the last seed here")
    parser.add_argument("--log", action="store_true", help="show what the nodes log")
    parser.add_argument("--users", type=positive, help="windows: a population of so many users, in forty zones")
    parser.add_argument("--days", type=positive, default=30, help="for so many days")
    asked = parser.parse_args()
    if asked.users is not None and asked.run != "windows":
        parser.error("--users: only the run `windows` has users")
    logging.disable(logging.NOTSET if asked.log else logging.CRITICAL)
    broken = 0
    for seed in asked.seeds:
        world, violations = _lived(asked, seed)
        if asked.history is not None:
            world.history.save(asked.history)
        world.close()
        print(f"{asked.run} {seed}: {len(world.history.events)} events, {world.history.digest()[:16]}")
        if asked.users is not None:
            print(", ".join(f"{count} {what}" for what, count in outcomes_of(world).items()))
        if violations:
            broken += 1
            print(report(violations))
    print(f"{_counted(len(asked.seeds), 'seed')}, {_counted(broken, 'alarm')}")
    return 1 if broken else 0


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1")
    return int(text)


def _lived(asked: argparse.Namespace, seed: int) -> tuple[World, list[Violation]]:
    if asked.users is None:
        return RUNS[asked.run](seed)
    return simulate_population(seed, Population(asked.users, asked.days))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


if __name__ == "__main__":
    sys.exit(main())
