"""How slots look: a table of the ledger's rows, or of what an audit says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oncue.cli import output
from oncue.cli.output import escape
from oncue.model import Slot
from oncue.policy.audit import Fate

if TYPE_CHECKING:
    from rich.table import Table

STYLES = {"fired": "green", "manual": "cyan", "coalesced": "dim", "missed": "yellow", "skipped": "yellow"}
PENDING, PROBLEM = "dim", "bold red"


def told(slots: Iterable[Slot]) -> list[Fate]:
    """The ledger's rows as they are, without an audit."""
    return [Fate(slot.scheduled_for, slot.verdict, slot.reason, slot.until, slot.slots, slot) for slot in slots]


def table(fates: Sequence[Fate], tz: str) -> Table:
    """One line for each fate: a slot, or a run of them with their count."""
    columns = ("slot (UTC)", *(() if tz == "UTC" else (f"in {tz}",)), "slots", "verdict", "reason", "job", "outcome")
    made = output.table(*columns, "worker", "took", right=("slots", "job", "took"))
    for fate in fates:
        row = fate.row
        made.add_row(
            *_times(fate, tz), f"{fate.slots:,}", _verdict(fate), escape(_reason(fate)),
            "" if row is None or row.job_id is None else str(row.job_id), _outcome(row),
            "" if row is None else escape(row.worker or ""), output.took(None if row is None else row.duration),
        )  # fmt: skip
    return made


def _times(fate: Fate, tz: str) -> list[str]:
    ends = [fate.scheduled_for, *([] if fate.until is None else [fate.until])]
    utc = " to ".join(output.stamp(instant) for instant in ends)
    return [utc] if tz == "UTC" else [utc, " to ".join(output.local(instant, tz) for instant in ends)]


def _verdict(fate: Fate) -> str:
    return f"[{STYLES.get(fate.verdict, PENDING) if fate.holds else PROBLEM}]{fate.verdict}[/]"


def _reason(fate: Fate) -> str:
    in_the_way = None if fate.row is None else fate.row.blocked_by
    reason = fate.reason or ""
    return reason if in_the_way is None else f"{reason}: job {in_the_way} was in the way"


def _outcome(row: Slot | None) -> str:
    if row is None or row.state is None:
        return ""
    return output.styled(row.state) + (f" ({escape(row.state_reason)})" if row.state_reason else "")
