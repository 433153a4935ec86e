"""What is asked of the API: values only, made by the verbs and sent by whoever waits for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from uuid import UUID

from oncue.errors import InvalidJob
from oncue.policy.durations import Duration

T = TypeVar("T")

About: TypeAlias = Literal["job", "schedule", "webhook", "subject", "token", "anything"]
Query: TypeAlias = tuple[tuple[str, str], ...]

LONGEST_KEY = 255


class Page(NamedTuple, Generic[T]):
    """Some rows of a listing, and what to ask for the next ones; None after the last."""

    rows: list[T]
    next: Query | None


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Query = ()
    body: bytes | None = None
    key: str | None = None
    """The caller's own idempotency key; without one, a POST gets a fresh one."""
    about: About = "anything"
    """What is not there if the answer is 404, and what is refused if a field is wrong."""
    is_long: bool = False
    """Whether the server takes its time for it, and is given that."""
    is_probe: bool = False
    """Whether it asks how things are at this moment: it is not asked again, and 503 is an answer too."""
    gone_is_done: bool = False
    """Whether 404, after a try whose answer was lost, means that this try did it."""
    moved_to: Request[T] | None = None
    """What to ask after such a 404, if the lost try may have given the thing another name."""

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def changes(self) -> bool:
        return self.method != "GET"


def segment(value: int | str | UUID) -> str:
    """Something's name, as a part of a path."""
    return quote(str(value), safe="")


def query(**wanted: Any) -> Query:
    """What is given of this; `from_` is `from`, which no argument can be called."""
    return tuple((name.rstrip("_"), str(value)) for name, value in wanted.items() if value is not None)


def given(document: Mapping[str, Any]) -> dict[str, Any]:
    """What of this is not None: absent is the server's own default."""
    return {name: value for name, value in document.items() if value is not None}


def body(document: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(document, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJob("args", f"expected values that JSON has; {error}") from None


def checked_key(key: str | None) -> str | None:
    """An idempotency key that a header can carry; the server expects the same."""
    if key is not None and not (1 <= len(key) <= LONGEST_KEY and all("!" <= character <= "~" for character in key)):
        raise InvalidJob("idempotency_key", f"expected 1 to {LONGEST_KEY} visible ASCII characters, not {key!r:.100}")
    return key


def seconds(value: Duration | None) -> str | float | None:
    """A duration as the API takes it, which is how people write it."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def moment(value: datetime | str | None) -> str | None:
    """An instant as the API takes it. What is a text already (`-2h`, `now`) is for the server to read."""
    return value.isoformat() if isinstance(value, datetime) else value


def page(read: Callable[[Any], T], name: str) -> Callable[[Any], Page[T]]:
    """Reads a page of a listing. Only what `next` asks for counts: its address is the server's, and may not be ours."""

    def read_page(document: Any) -> Page[T]:
        link = document.get("next")
        following = None if link is None else tuple(parse_qsl(urlsplit(link).query, keep_blank_values=True))
        return Page(rows(read, name)(document), following)

    return read_page


def rows(read: Callable[[Any], T], name: str) -> Callable[[Any], list[T]]:
    return lambda document: [read(row) for row in document[name]]


def refs(values: Iterable[int | UUID]) -> list[int | str]:
    return [value if isinstance(value, int) else str(value) for value in values]


def _plain(value: Any) -> Any:
    """Values that JSON does not have, written as the tasks' own type hints read them."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} is none of them")
