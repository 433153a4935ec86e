"""The README's table of figures, made from what a full run has found: `python -m bench table`.

Nobody types it: the command replaces what is between the two markers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.settings import BUILD, ROOT, Settings

BEGIN = "<!-- figures: written by `python -m bench table`, not by hand -->\n"
END = "<!-- end of the figures -->\n"
README = ROOT / "README.md"
FIGURES, RUN = BUILD / "bench.json", BUILD / "bench_run.json"
PEERS = {
    "graphile_worker": "graphile-worker", "pgqueuer": "pgqueuer", "procrastinate": "procrastinate", "celery": "Celery",
    "huey": "huey", "apscheduler": "APScheduler on the same database",
}  # fmt: skip

Found = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Run:
    """What a reader must know of the run that the figures come from."""

    cores: int
    postgresql: int
    runs: int
    amounts: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of the table. `figure` is the one that peers are compared under."""

    label: str
    figure: str
    oncue: Callable[[Found], str]
    against: Callable[[Found], str]
    unit: str = ""

    def cells(self, found: Found) -> str:
        others = [self.against(found), *self._peers(found)]
        return f"| {self.label} | {self.oncue(found)} | {'; '.join(other for other in others if other)} |"

    def _peers(self, found: Found) -> list[str]:
        named = ((word, found.get(f"{self.figure} / {peer}")) for peer, word in PEERS.items())
        return [f"{word} {short(one['reference'])}{self.unit}" for word, one in named if one and "reference" in one]


def short(value: float, digits: int = 3) -> str:
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def a_second(name: str, unit: str = "") -> Callable[[Found], str]:
    return lambda found: f"{short(found[name]['value'])} {unit}a second"


def reference(name: str, words: str, unit: str = "") -> Callable[[Found], str]:
    return lambda found: f"{words} {short(found[name]['reference'])}{unit}"


def worst(*names: str) -> Callable[[Found], str]:
    return lambda found: f"{max(found[name]['ratio'] for name in names):.3g} ×"


def says(text: str) -> Callable[[Found], str]:
    return lambda found: text


AMOUNTS = Settings()
MILLIONS = (AMOUNTS.kept_jobs + AMOUNTS.open_jobs) / 1_000_000
ROWS = (
    Row(
        f"one worker process drains {AMOUNTS.drain_jobs:,} empty `async` jobs, history kept", "drain_pg",
        a_second("drain_pg"), reference("drain_pg", "a bare claim-and-settle loop"),
    ),
    Row(
        "two worker processes", "drain_pg_two", a_second("drain_pg_two"),
        lambda found: f"{found['drain_pg_two / one']['ratio']:.3g} × one process",
    ),
    Row(
        "enqueue one by one, each awaited", "enqueue_one", a_second("enqueue_one"),
        reference("enqueue_one", "a bare insert"),
    ),
    Row(
        f"enqueue {AMOUNTS.bulk_jobs:,} in one call", "enqueue_bulk", a_second("enqueue_bulk"),
        reference("enqueue_bulk", "COPY"),
    ),
    Row(
        "from enqueue to the first line of the handler, idle system", "pickup_p50",
        lambda found: f"{short(found['pickup_p50']['value'], 2)} ms",
        lambda found: f"the bare insert-notify-claim path {short(found['pickup_p50']['reference'], 2)} ms", " ms",
    ),
    Row(
        "one worker process on an SQLite file, `synchronous=FULL`", "drain_sqlite", a_second("drain_sqlite"),
        reference("drain_sqlite", "a bare loop"),
    ),
    Row(
        f"pages that a claim of 100 touches, beside {AMOUNTS.many_rows // 1_000_000} million finished or queued jobs",
        "claim_scaling", worst("claim_scaling queued", "claim_scaling finished"),
        says(f"those beside {AMOUNTS.few_rows:,}"),
    ),
    Row(
        "growth of a worker that drains a million jobs", "memory",
        lambda found: f"{max(found['memory']['value'], 0):.0f} MB", says(""),
    ),
    Row(
        f"{AMOUNTS.slots:,} schedules due at one instant, until all are in the ledger with their jobs",
        "slots_per_second", a_second("slots_per_second", "slots "),
        reference("slots_per_second", "bare batched inserts of slots"),
    ),
    Row(
        f"a pass of the scheduler that finds 100 due among {AMOUNTS.schedules:,} schedules", "tick_scaling",
        worst("tick_scaling time"),
        lambda found: (
            f"the time of one among {AMOUNTS.few_schedules:,}; {found['tick_scaling statements']['ratio']:.3g} × the "
            f"statements; {found['tick_scaling pages']['ratio']:.3g} × the pages"
        ),
    ),
    Row(
        "four nodes on a queue of which 50 jobs may run at once, handlers of 10 ms", "global_limit",
        lambda found: (
            f"{short(found['global_limit']['value'])} a second, "
            f"never more than {found['global_limit, most at once']['value']:g} at once"
        ),
        reference("global_limit", "the limit itself allows"),
    ),
    Row(
        f"{AMOUNTS.limited_groups:,} groups (tenants, endpoints) of which 2 jobs each may run at once", "groups",
        a_second("groups drain, limited"), reference("groups drain, limited", "without groups"),
    ),
    Row(
        f"{AMOUNTS.drain_jobs:,} groups of one job each", "groups", a_second("groups drain, of one job"),
        reference("groups drain, of one job", "without groups"),
    ),
    Row(
        f"pages that a claim of 100 touches, beside {AMOUNTS.grouped_rows // 1_000_000} million jobs of groups that "
        "are at their limit", "groups", worst("groups claim without a group", "groups claim of others"),
        says("those without them"),
    ),
    Row(
        "a rate of 1,000 a second over four nodes: the worst second", "groups",
        lambda found: f"{found['groups rate of a group, worst second']['value']:g} % off", says(""),
    ),
    Row(
        f"the slowest of the API's listings, filters and stats, beside {MILLIONS:.1f} million jobs",
        "api_listing", worst("api_listing"), says(f"the time beside {AMOUNTS.few_kept_jobs:,}"),
    ),
)  # fmt: skip


def table(found: Found, run: Run) -> str:
    """What goes between the markers."""
    return "\n".join(
        [
            f"Measured with `make bench` on {run.cores} cores with PostgreSQL {run.postgresql}, "
            f"`synchronous_commit` on, everything durable, each figure the median of {run.runs} runs in",
            "turns with what it is compared to. Absolute numbers are one machine's; the ratios are what counts.",
            "",
            "| | oncue | compared to |",
            "| --- | --- | --- |",
            *(row.cells(found) for row in ROWS),
            "",
        ]
    )


def rewritten(readme: str, block: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{block}{END}{after}"


def note_run(run: Run) -> None:
    RUN.write_text(json.dumps(asdict(run), indent=2) + "\n")


def main() -> int:
    """Write the table from the last run, which must have been a full one."""
    if not FIGURES.exists() or not RUN.exists():
        raise SystemExit("there is no run to make the table from: make bench PEERS=all")
    run = Run(**json.loads(RUN.read_text()))
    found = {figure["name"]: figure for figure in json.loads(FIGURES.read_text())}
    missing = incomplete(found, run)
    if missing:
        raise SystemExit(f"the table needs a full run (make bench PEERS=all); the last one lacks {', '.join(missing)}")
    README.write_text(rewritten(README.read_text("utf-8"), table(found, run)), "utf-8")
    return 0


def incomplete(found: Found, run: Run) -> Sequence[str]:
    """What the last run lacks for the table: the figures of a row, or the amounts that its words name."""
    lacking = [row.figure for row in ROWS if not _is_complete(row, found)]
    amounts = amounts_of(AMOUNTS)
    return lacking + [f"{name}={amounts[name]}" for name in amounts if run.amounts.get(name) != amounts[name]]


def _is_complete(row: Row, found: Found) -> bool:
    try:
        return bool(row.cells(found))
    except KeyError:
        return False


def amounts_of(settings: Settings) -> dict[str, Any]:
    """The sizes of a run: neither who took part nor how often it was repeated."""
    return {name: value for name, value in asdict(settings).items() if name not in ("peers", "runs", "long_runs")}
