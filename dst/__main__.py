"""python -m dst [ZONE ...]: compare, write build/dst.json, print a table, judge. QUICK=1 for a short run."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import Pool
from multiprocessing.pool import Pool as Workers
from zoneinfo import available_timezones

from bench import verdict
from bench.settings import BUILD
from bench.verdict import Figure
from dst.examine import Report, examine, examine_windows, examine_windows_of_year, examine_year
from dst.oracle import POLICIES
from dst.subject import WINDOWS, build
from dst.transitions import HOUR, Rules, Transition, find, quiet

FIRST_YEAR, LAST_YEAR = 2020, 2040
START = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
END = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)
QUIET = datetime(2030, 1, 1, tzinfo=UTC)
MARGIN = timedelta(days=5)
SHOWN = 20
# The machine's own choice, on some systems listed among the zones.
NOT_A_ZONE = {"localtime"}
KINDS = (*POLICIES, "every", "windows")
"""What is compared."""

Groups = dict[Rules, list[str]]
Task = Callable[[], Report]


@dataclass(frozen=True)
class Size:
    """A short run finds the transitions in longer strides, and looks at one in so many transitions and rule sets.

    `whole_years` is how many rule sets are followed through a year, at the most.
    """

    stride: timedelta = HOUR
    one_in: int = 1
    whole_years: int | None = None


FULL = Size()
QUICK = Size(stride=timedelta(days=1), one_in=8)
TINY = Size(stride=timedelta(days=1), one_in=1000, whole_years=0)
"""For the tests: one transition, and an ordinary day of a zone that has none."""


def rules_of(name: str, stride: timedelta) -> Rules:
    return find(name, START - MARGIN, END + MARGIN, stride)


def by_rules(workers: Workers, names: Sequence[str], size: Size) -> Groups:
    """Zones that keep the same time throughout these years share the oracle's work."""
    groups: Groups = defaultdict(list)
    for name, rules in zip(names, workers.map(partial(rules_of, stride=size.stride), names, 4), strict=True):
        groups[rules].append(name)
    return groups


def chosen(groups: Groups, size: Size) -> list[tuple[list[str], Transition]]:
    """The zones and the transitions to look at."""
    everything = [
        (names, transition)
        for rules, names in groups.items()
        for transition in rules.transitions
        if START <= transition.at < END
    ]
    return everything[:: size.one_in]


def tasks(groups: Groups, size: Size) -> Iterator[Task]:
    """The transitions, an ordinary day where there are none, and a whole year of each rule set."""
    for names, transition in chosen(groups, size):
        yield partial(examine, names, transition, build)
        yield partial(examine_windows, names, transition, WINDOWS)
    for rules, names in groups.items():
        if not rules.transitions:
            yield partial(examine, names, quiet(rules, QUIET), build, short=True)
            yield partial(examine_windows, names, quiet(rules, QUIET), WINDOWS)
    for number, names in enumerate([*groups.values()][:: size.one_in][: size.whole_years]):
        year = FIRST_YEAR + number % (LAST_YEAR - FIRST_YEAR + 1)
        yield partial(examine_year, names[0], year, build)
        yield partial(examine_windows_of_year, names[0], year, WINDOWS)


def run(task: Task) -> Report:
    return task()


def work(workers: Workers, todo: Sequence[Task]) -> Report:
    total = Report()
    for number, report in enumerate(workers.imap_unordered(run, todo), start=1):
        total.merge(report)
        if number % 100 == 0:
            print(f"{number} of {len(todo)}, {len(total.differences)} differences", file=sys.stderr, flush=True)
    return total


def tell(differences: Sequence[str]) -> None:
    """The first of them on the terminal, all of them in a file."""
    path = BUILD / "dst_differences.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{difference}\n" for difference in differences))
    for difference in differences[:SHOWN]:
        print(difference)
    if len(differences) > SHOWN:
        print(f"... and {len(differences) - SHOWN} more in {path}")


def judged(report: Report, groups: Groups, size: Size, seconds: float) -> list[Figure]:
    """A kind of schedule of which nothing was compared does not hold."""
    transitions = [len(names) for names, _ in chosen(groups, size)]
    return [
        *(
            verdict.limited(f"differences_{kind}", report.differing[kind], 0, f"of {report.compared[kind]:,}")
            if report.compared[kind]
            else verdict.missing(f"differences_{kind}", "nothing was compared", holds=False)
            for kind in KINDS
        ),
        verdict.plain("comparisons", report.compared.total()),
        verdict.plain("rule_sets", len(groups), f"zones with equal time from {FIRST_YEAR} to {LAST_YEAR} are one"),
        verdict.plain("transitions", len(transitions), "of the rule sets, with all expressions"),
        verdict.plain("zones", sum(len(names) for names in groups.values()), "links are zones of their own"),
        verdict.plain("zone_transitions", sum(transitions), "of all zones, with the main expressions"),
        verdict.plain("minutes", seconds / 60),
    ]


def measured(workers: Workers, names: Sequence[str], size: Size) -> tuple[list[Figure], list[str]]:
    """The figures, and the differences in words."""
    begun = time.monotonic()
    groups = by_rules(workers, names, size)
    report = work(workers, list(tasks(groups, size)))
    return judged(report, groups, size, time.monotonic() - begun), report.differences


def main(words: Sequence[str]) -> int:
    size = QUICK if os.environ.get("QUICK") else FULL
    names = sorted(words or available_timezones() - NOT_A_ZONE)
    with Pool() as workers:
        figures, differences = measured(workers, names, size)
    tell(differences)
    verdict.write(figures, BUILD / "dst.json")
    verdict.show(figures)
    return verdict.exit_code(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
