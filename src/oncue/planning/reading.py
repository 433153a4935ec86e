"""What was typed for tasks: `send_email=200ms,*=1s`, in a list, with hints where a name is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from oncue.model import Limits

T = TypeVar("T")

EVERYTHING_ELSE = "*"
SHARE = "expected a share such as 2% or 0.02"
MOST = 1_000_000
LIMIT = "expected a number of jobs at once such as 5, or 2/node"


def pairs(
    texts: Iterable[str], known: Sequence[str], kind: str = "task", queues: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Names and values, in the order in which they were written. Raises ValueError.

    `queues` says which queue each task uses, for those who take the one for the other.
    """
    found = []
    for entry in entries(texts):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name or not value:
            raise ValueError(f"expected {kind}=value, not {entry!r:.100}")
        if name != EVERYTHING_ELSE:
            _check_kind(name, known, queues or {})
            check_known(name, known, kind)
        found.append((name, value))
    return found


def check_known(name: str, known: Sequence[str], kind: str) -> None:
    """Raises ValueError, with the name that was meant if there is one like it."""
    if name not in known:
        raise ValueError(f"there is no {kind} {name!r}{_hint(name, known, kind)}")


def _check_kind(name: str, known: Sequence[str], queues: Mapping[str, str]) -> None:
    tasks = [task for task, queue in sorted(queues.items()) if queue == name]
    if tasks and name not in known:
        raise ValueError(f"expected the name of a task; {name!r} is a queue, of: {', '.join(tasks)}")


def entries(texts: Iterable[str]) -> list[str]:
    """What stands between commas and ends of lines. From a # on, a line is a remark."""
    lines = [line.partition("#")[0] for text in texts for line in text.splitlines()]
    return [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]


def by_name(written: Iterable[tuple[str, T]], names: Sequence[str]) -> dict[str, T]:
    """What was written for each of these names, or for `*`, over which a name wins. Raises ValueError."""
    told: dict[str, T] = {}
    for name, value in written:
        if name in told:
            raise ValueError(f"expected {name} once, not twice")
        told[name] = value
    return {
        name: told[name] if name in told else told[EVERYTHING_ELSE]
        for name in names
        if name in told or EVERYTHING_ELSE in told
    }


def share(text: str) -> float:
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{SHARE}, between nothing and all; not {text!r:.100}")
    return value


def limits(written: Iterable[tuple[str, str]]) -> dict[str, Limits]:
    """How many jobs of each queue may run at once, on all nodes together and on each."""
    found: dict[str, Limits] = {}
    for queue, text in written:
        if queue == EVERYTHING_ELSE:
            raise ValueError(f"{LIMIT}, for one queue each; not for all")
        number, slash, node = text.partition("/")
        if not number.strip().isdecimal() or (slash and node.strip() != "node"):
            raise ValueError(f"{LIMIT}; not {text!r:.100}")
        known, most = found.get(queue, Limits()), int(number)
        if most < 1:
            raise ValueError(f"{LIMIT}; with none at once its jobs would never run")
        if most > MOST:
            raise ValueError(f"{LIMIT}, {MOST:,} at most; not {text!r:.100}")
        if (known.per_node if slash else known.globally) is not None:
            raise ValueError(f"expected {queue} once{' for each node' if slash else ''}, not twice")
        found[queue] = Limits(known.globally, most) if slash else Limits(most, known.per_node)
    return found


def _hint(name: str, known: Sequence[str], kind: str) -> str:
    near = get_close_matches(name, known, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are: {', '.join(sorted(known))}" if known else f"; the application declares no {kind}s"
