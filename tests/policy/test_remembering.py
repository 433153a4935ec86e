"""Caches of what is read off texts: they are bounded in bytes, and not only in number."""

from __future__ import annotations

import tracemalloc

from oncue.policy import options
from oncue.policy.content_types import JSON_TYPE
from oncue.policy.deliveries import Form, carried, form_of
from oncue.policy.remembering import LONGEST, remembering
from oncue.policy.retry import Ladder
from oncue.policy.templates import check_template


def test_short_texts_are_read_once_and_long_ones_each_time() -> None:
    read: list[str] = []

    @remembering(2)
    def length(text: str) -> int:
        read.append(text)
        return len(text)

    for text in ("a", "x" * (LONGEST + 1)):
        assert [length(text), length(text)] == [len(text)] * 2
    assert read == ["a", *["x" * (LONGEST + 1)] * 2]


def test_thousands_of_large_templates_take_no_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            template = f'{{"{number}": "{"é" * 30_000}{{{{id}}}}"}}'
            check_template(template, JSON_TYPE)
            told = carried(Form(body=template), Ladder("30s")).options
            assert form_of(told).body == template
            assert options.longest(told) == options.max_runtime(told) == 75.0
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
