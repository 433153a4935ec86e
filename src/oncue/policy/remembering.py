"""A cache for what is read off texts that others wrote: a long one is read anew each time, and not kept.

The options of a delivery hold the template of its body, which may be 64 KiB. Thousands of different ones in a cache
would be a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

LONGEST = 4_096
"""Characters of a text that is kept. Few options and templates are longer."""

P = ParamSpec("P")
R = TypeVar("R")
Reader = Callable[Concatenate[str, P], R]


def remembering(count: int) -> Callable[[Reader[P, R]], Reader[P, R]]:
    """Keep what a pure function made of its last `count` short texts. What it is given beside the text is small."""

    def decorated(function: Reader[P, R]) -> Reader[P, R]:
        kept: Reader[P, R] = lru_cache(maxsize=count)(function)

        @wraps(function)
        def read(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return function(text, *args, **kwargs) if len(text) > LONGEST else kept(text, *args, **kwargs)

        return read

    return decorated
