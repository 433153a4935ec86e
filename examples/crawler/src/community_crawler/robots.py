"""robots.txt (RFC 9309): what a site lets us fetch, and how fast. Pure: text in, rules out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

PATH = "/robots.txt"
LONGEST_DELAY = 60.0
"""A site that wants longer pauses than this gets these."""


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules for us: (allowed, pattern) in the order of the file, and the pause that the site asks for."""

    rules: tuple[tuple[bool, str], ...] = ()
    delay: float | None = None

    def allows(self, path: str) -> bool:
        """The longest rule that fits decides, and of two equally long ones the friendlier."""
        if path == PATH:
            return True
        fitting = [(len(pattern), allowed) for allowed, pattern in self.rules if _fits(pattern, path)]
        return max(fitting)[1] if fitting else True


@lru_cache(maxsize=256)
def parse(text: str, agent: str) -> Robots:
    """The rules for a product such as `community-crawler`: its own groups, else those for everybody."""
    groups = list(_groups(text))
    ours = [lines for agents, lines in groups if agent.lower() in agents]
    if not ours:
        ours = [lines for agents, lines in groups if "*" in agents]
    lines = [line for group in ours for line in group]
    rules = tuple((field == "allow", value) for field, value in lines if field != "crawl-delay" and value)
    delays = [delay for field, value in lines if field == "crawl-delay" and (delay := _delay(value)) is not None]
    return Robots(rules, max(delays, default=None))


def _groups(text: str) -> Iterator[tuple[set[str], list[tuple[str, str]]]]:
    """Each group's agents and its lines. Several agents in a row share the lines that follow."""
    agents: set[str] = set()
    lines: list[tuple[str, str]] = []
    for field, value in _fields(text):
        if field == "user-agent":
            if lines:
                yield agents, lines
                agents, lines = set(), []
            agents.add(value.partition("/")[0].strip().lower())
        elif field in ("allow", "disallow", "crawl-delay") and agents:
            lines.append((field, value))
    if lines:
        yield agents, lines


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        field, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield field.strip().lower(), value.strip()


def _delay(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return min(seconds, LONGEST_DELAY) if seconds >= 0 else None


def _fits(pattern: str, path: str) -> bool:
    """Whether a pattern with `*` for anything and `$` for the end fits the beginning of a path."""
    ends = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    position = len(first)
    for number, piece in enumerate(rest, 1):
        if ends and number == len(rest):
            return len(path) - position >= len(piece) and path.endswith(piece)
        found = path.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return not ends or position == len(path)
