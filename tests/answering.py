"""A store of which some verbs are answered by a test."""

from __future__ import annotations

from typing import Any


class Answering:
    """Passes on what it does not answer itself: `Answering(store, jobs=Answering(store.jobs, apply=apply))`."""

    def __init__(self, inner: Any, **answers: Any) -> None:
        self._inner = inner
        self.__dict__.update(answers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
