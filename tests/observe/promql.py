"""As much of PromQL as the alert rules use: read, and worked out on samples that were really scraped.

What it does not know it refuses, so that a rule cannot go unchecked. `increase` is the plain difference: Prometheus
also guesses what happened at the edges of the range.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Value: TypeAlias = "Vector | float"
Expression: TypeAlias = Callable[["Scrapes", float], Any]

LOOKBACK = 300.0
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[+-]\d+)?)(?![\w.])|(?P<duration>\d+[smhd])|(?P<word>[a-zA-Z_]\w*)"
    r'|(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>=~|==|!=|>=|<=|[-+*/<>=(){}\[\],]))'
)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
SETS = ("and", "unless")
AGGREGATIONS = {"max": max, "sum": sum, "min": min}


class Scrapes:
    """What Prometheus would keep. A series that a target shows no more has ended."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, Labels], list[tuple[float, float | None]]] = {}

    def add(self, at: float, text: str, instance: str = "one", job: str = "oncue") -> None:
        target = {("job", job), ("instance", instance)}
        seen = set()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, frozenset({*sample.labels.items(), *target}))
                seen.add(key)
                self._series.setdefault(key, []).append((at, sample.value))
        for key, samples in self._series.items():
            if key not in seen and target <= key[1] and samples[-1][1] is not None:
                samples.append((at, None))

    def matching(self, name: str, matches: Callable[[dict[str, str]], bool]) -> Iterator[tuple[Labels, list[Any]]]:
        for (metric, labels), samples in self._series.items():
            if metric == name and matches(dict(labels)):
                yield labels, samples


@dataclass
class Selector:
    name: str
    matchers: list[tuple[str, str, str]] = field(default_factory=list)
    range: float | None = None
    offset: float = 0.0

    def matches(self, labels: dict[str, str]) -> bool:
        return all(
            re.fullmatch(value, labels.get(name, "")) if sign == "=~" else labels.get(name, "") == value
            for name, sign, value in self.matchers
        )

    def __call__(self, scrapes: Scrapes, at: float) -> Any:
        end = at - self.offset
        begin = end - (LOOKBACK if self.range is None else self.range)
        found = {}
        for labels, samples in scrapes.matching(self.name, self.matches):
            within = [value for moment, value in samples if begin < moment <= end]
            if self.range is not None:
                found[labels] = [value for value in within if value is not None]
            elif within and within[-1] is not None:
                found[labels] = within[-1]
        return found


@dataclass
class Query:
    """An expression that was read, and what it selects."""

    expression: Expression
    selectors: list[Selector]

    def __call__(self, scrapes: Scrapes, at: float) -> list[dict[str, str]]:
        """The labels of everything that it finds."""
        found = self.expression(scrapes, at)
        assert isinstance(found, dict), "an alert needs a vector"
        return [dict(labels) for labels in found]


def parse(text: str) -> Query:
    reader = _Reader(text)
    expression = reader.either()
    assert not reader.tokens, f"{text!r}: what is {reader.tokens[0][1]!r}?"
    return Query(expression, reader.selectors)


class _Reader:
    """Descends from what binds loosest to what binds tightest."""

    def __init__(self, text: str) -> None:
        self.selectors: list[Selector] = []
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text.rstrip()):
            found = TOKEN.match(text, position)
            assert found, f"{text!r}: cannot be read from {position}: {text[position:][:20]!r}"
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            position = found.end()

    def next_is(self, *words: str) -> bool:
        return bool(self.tokens) and self.tokens[0][1] in words and self.tokens[0][0] != "text"

    def take(self, kind: str | None = None, word: str | None = None) -> str:
        assert self.tokens, f"it ends where {word or kind} should come"
        found = self.tokens.pop(0)
        assert kind in (None, found[0]), f"expected a {kind}, not {found[1]!r}"
        assert word in (None, found[1]), f"expected {word!r}, not {found[1]!r}"
        return found[1]

    def either(self) -> Expression:
        left = self.both()
        while self.next_is("or"):
            self.take()
            left = _or(left, self.both())
        return left

    def both(self) -> Expression:
        left = self.comparison()
        while self.next_is(*SETS):
            sign, on = self.take(), self.names() if self.next_is("on") and self.take() else None
            left = _set(left, self.comparison(), sign, on)
        return left

    def comparison(self) -> Expression:
        left = self.quotient()
        while self.next_is(*COMPARISONS):
            left = _compare(left, COMPARISONS[self.take()], self.quotient())
        return left

    def quotient(self) -> Expression:
        left = self.atom()
        while self.next_is("/"):
            self.take()
            left = _divide(left, self.atom())
        return left

    def atom(self) -> Expression:
        kind, word = self.tokens[0] if self.tokens else ("", "")
        if kind == "number":
            number = float(self.take())
            return lambda scrapes, at: number
        if self.next_is("("):
            return self.enclosed()
        if word in AGGREGATIONS:
            self.take()
            by = self.names() if self.take(word="by") else []
            return _aggregate(AGGREGATIONS[word], by, self.enclosed())
        if len(self.tokens) > 1 and self.tokens[1][1] == "(":
            assert word in FUNCTIONS, f"the function {word!r} is not known here"
            self.take()
            return FUNCTIONS[word](self.enclosed())
        return self.selector()

    def enclosed(self) -> Expression:
        self.take(word="(")
        inner = self.either()
        self.take(word=")")
        return inner

    def names(self) -> list[str]:
        self.take(word="(")
        found = [self.take("word")]
        while self.take("sign") == ",":
            found.append(self.take("word"))
        return found

    def selector(self) -> Expression:
        selector = Selector(self.take("word"))
        if self.next_is("{"):
            while self.take("sign") != "}":
                name, sign, text = self.take("word"), self.take("sign"), self.take("text")
                assert sign in ("=", "=~"), sign
                selector.matchers.append((name, sign, re.sub(r"\\(.)", r"\1", text[1:-1])))
        if self.next_is("["):
            self.take()
            selector.range = self.duration()
            self.take(word="]")
        if self.next_is("offset"):
            self.take()
            selector.offset = self.duration()
        self.selectors.append(selector)
        return selector

    def duration(self) -> float:
        text = self.take("duration")
        return int(text[:-1]) * UNITS[text[-1]]


# --- what the parts come to -----------------------------------------------------------------------------------------


def _kept(labels: Labels, names: list[str] | None) -> Labels:
    return labels if names is None else frozenset(pair for pair in labels if pair[0] in names)


def _or(left: Expression, right: Expression) -> Expression:
    return lambda scrapes, at: {**right(scrapes, at), **left(scrapes, at)}


def _set(left: Expression, right: Expression, sign: str, on: list[str] | None) -> Expression:
    def worked_out(scrapes: Scrapes, at: float) -> Vector:
        others = {_kept(labels, on) for labels in right(scrapes, at)}
        return {k: v for k, v in left(scrapes, at).items() if (_kept(k, on) in others) is (sign == "and")}

    return worked_out


def _compare(left: Expression, holds: Callable[[float, float], bool], right: Expression) -> Expression:
    def worked_out(scrapes: Scrapes, at: float) -> Vector:
        bound = right(scrapes, at)
        assert isinstance(bound, float), "only a comparison with a number is known here"
        return {labels: value for labels, value in left(scrapes, at).items() if holds(value, bound)}

    return worked_out


def _divide(left: Expression, right: Expression) -> Expression:
    def worked_out(scrapes: Scrapes, at: float) -> Vector:
        below = right(scrapes, at)
        return {
            labels: value / below[labels] if below[labels] else float("nan")
            for labels, value in left(scrapes, at).items()
            if labels in below
        }

    return worked_out


def _aggregate(function: Callable[[Any], float], by: list[str], inner: Expression) -> Expression:
    def worked_out(scrapes: Scrapes, at: float) -> Vector:
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner(scrapes, at).items():
            groups.setdefault(_kept(labels, by), []).append(value)
        return {labels: function(values) for labels, values in groups.items()}

    return worked_out


def _increase(inner: Expression) -> Expression:
    def grown(values: list[float]) -> float:
        # A counter that falls was born again with its process.
        return sum(b - a if b >= a else b for a, b in pairwise(values))

    return lambda scrapes, at: {k: grown(values) for k, values in inner(scrapes, at).items() if len(values) > 1}


def _rate(inner: Expression) -> Expression:
    assert isinstance(inner, Selector)
    assert inner.range
    increase, length = _increase(inner), inner.range
    return lambda scrapes, at: {labels: value / length for labels, value in increase(scrapes, at).items()}


def _min_over_time(inner: Expression) -> Expression:
    return lambda scrapes, at: {labels: min(values) for labels, values in inner(scrapes, at).items() if values}


def _changes(inner: Expression) -> Expression:
    def counted(values: list[float]) -> float:
        return float(sum(a != b for a, b in pairwise(values)))

    return lambda scrapes, at: {labels: counted(values) for labels, values in inner(scrapes, at).items() if values}


def _absent(inner: Expression) -> Expression:
    return lambda scrapes, at: {} if inner(scrapes, at) else {frozenset(): 1.0}


FUNCTIONS: dict[str, Callable[[Expression], Expression]] = {
    "increase": _increase, "rate": _rate, "min_over_time": _min_over_time, "absent": _absent, "changes": _changes,
}  # fmt: skip
