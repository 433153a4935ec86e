"""What kind of failure an exception is, for telemetry: of the request, the model, its answer, or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

ErrorClasses: TypeAlias = Mapping[type[BaseException], str]
UNKNOWN: Final = "unknown"
MOST_CAUSES = 20
CLASSES: Final = ("req", "llm", "parse", UNKNOWN)


def checked_error_classes(given: Any) -> ErrorClasses:
    """The map that a task declares. Raises ValueError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f'error_classes: expected a mapping such as {{TimeoutError: "req"}}, not {given!r:.100}')
    for kind, name in given.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ValueError(f"error_classes: expected classes of exceptions, not {kind!r:.100}")
        if name not in CLASSES:
            raise ValueError(f"error_classes: expected one of {', '.join(CLASSES)}, not {name!r:.100}")
    return dict(given)


def error_class(error: BaseException, classes: ErrorClasses) -> str | None:
    """The class of an exception: what its attribute `error_class` says, what the task's map says, or the same of the
    exception that it was raised from; None if none of them says anything."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < MOST_CAUSES:
        chain.append(link)
        told = _attribute(link) or _mapped(type(link), classes)
        if told is not None:
            return told if told in CLASSES else UNKNOWN
        link = link.__cause__
    return None


def _attribute(error: BaseException) -> str | None:
    """An exception of the application's may do anything when it is asked for an attribute."""
    try:
        told = getattr(error, "error_class", None)
    except Exception:
        return None
    return None if told is None else str(told)


def _mapped(kind: type[BaseException], classes: ErrorClasses) -> str | None:
    """The nearest base class counts."""
    return next((classes[base] for base in kind.__mro__ if base in classes), None)
