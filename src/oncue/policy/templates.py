"""Bodies of deliveries. A template is a text with placeholders; nothing in it is evaluated.

    {{id}}               the delivery's id, the same for all its attempts (it is also the header `webhook-id`)
    {{webhook}}          the webhook's name; nothing for a delivery to a bare URL
    {{scheduled_for}}    the slot of its schedule, in UTC; nothing if there is none
    {{created_at}}       when the delivery was asked for, in UTC
    {{payload}}          the payload, as JSON
    {{payload.a.b}}      a field of the payload; nothing if there is no such field

A value cannot break out of the place where it stands. In a JSON body a placeholder outside of quotation marks becomes
a whole JSON value (`null` for nothing), and one inside becomes the contents of that string. In a form it is
percent-encoded, in XML and HTML escaped, in any other text it stands as it is. A JSON template is refused if it would
not be JSON, which no value can change.

Without a template the body is the payload: as JSON, or as it is if it is a text and the content type is not JSON.
Without a payload (or with None for one) the body is a JSON object of id, webhook and scheduled_for. A GET, HEAD or
DELETE has a body only if there is a template for it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from oncue.errors import InvalidWebhook
from oncue.policy.content_types import Syntax, syntax
from oncue.policy.remembering import remembering

LARGEST_TEMPLATE = 64 * 1024
LARGEST_BODY = 4 * 1024 * 1024
MOST_PLACEHOLDERS = 100
PLAIN_NAMES = ("id", "webhook", "scheduled_for", "created_at")
BODILESS_METHODS = frozenset({"GET", "HEAD", "DELETE"})

_PLACEHOLDER = re.compile(r"\{\{(?: *([A-Za-z0-9_.-]{1,200}) *\}\})?")
_ESCAPE_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_FORM_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class DeliveryFacts(NamedTuple):
    """What a body may tell of its delivery."""

    id: str
    webhook: str | None
    scheduled_for: datetime | None
    created_at: datetime
    payload: Any = None


class Placeholder(NamedTuple):
    path: tuple[str, ...]
    in_string: bool
    """Whether it stands inside the quotation marks of a JSON string."""


Pieces: TypeAlias = tuple[str | Placeholder, ...]


def has_body(method: str, template: str | None) -> bool:
    """Whether a request of this method carries a body at all."""
    return template is not None or method not in BODILESS_METHODS


def rendered(method: str, content_type: str, template: str | None, facts: DeliveryFacts) -> bytes | None:
    """The body of a delivery, in UTF-8; half a surrogate pair in a payload becomes a question mark.

    Raises InvalidWebhook if the template is not one that `check_template` lets pass, or the body becomes too large.
    """
    if not has_body(method, template):
        return None
    if template is None:
        return _default(content_type, facts).encode(errors="replace")
    kind = syntax(content_type)
    return _filled(_pieces(template, kind), kind, facts).encode(errors="replace")


def check_template(template: str, content_type: str) -> None:
    """Raises InvalidWebhook, naming the placeholder, if a template cannot be filled in."""
    if len(template.encode(errors="replace")) > LARGEST_TEMPLATE:
        raise InvalidWebhook("body", f"expected at most {LARGEST_TEMPLATE:,} bytes")
    kind = syntax(content_type)
    pieces = _pieces(template, kind)
    if kind == "json":
        _check_json("".join(piece if isinstance(piece, str) else _sample(piece) for piece in pieces))


def _default(content_type: str, facts: DeliveryFacts) -> str:
    if isinstance(facts.payload, str) and syntax(content_type) != "json":
        return facts.payload
    if facts.payload is not None:
        return _json(facts.payload)
    slot = _instant(facts.scheduled_for)
    return _json({"id": facts.id, "webhook": facts.webhook, "scheduled_for": slot})


@remembering(1024)
def _pieces(template: str, kind: Syntax) -> Pieces:
    """A template as its literal parts and its placeholders."""
    pieces: list[str | Placeholder] = []
    at, inside = 0, False
    for found in _PLACEHOLDER.finditer(template):
        literal = template[at : found.start()]
        if kind == "json":
            inside ^= _count_quotes(literal) % 2 == 1
        pieces += [literal, Placeholder(_path(found), inside)]
        at = found.end()
    if len(pieces) > 2 * MOST_PLACEHOLDERS:
        raise InvalidWebhook("body", f"expected at most {MOST_PLACEHOLDERS} placeholders, not {len(pieces) // 2}")
    return *pieces, template[at:]


def _count_quotes(literal: str) -> int:
    """Those that begin or end a string. The check of a sample refuses a backslash outside of strings."""
    return sum(found[0] == '"' for found in _ESCAPE_OR_QUOTE.finditer(literal))


def _path(found: re.Match[str]) -> tuple[str, ...]:
    known = ", ".join(f"{{{{{name}}}}}" for name in (*PLAIN_NAMES, "payload", "payload.FIELD"))
    where = f"at position {found.start() + 1}"
    if found[1] is None:
        raise InvalidWebhook("body", f"expected a placeholder {where}, one of {known}")
    path = tuple(found[1].split("."))
    if not (all(path) if path[0] == "payload" else found[1] in PLAIN_NAMES):
        raise InvalidWebhook("body", f"unknown placeholder {{{{{found[1]}}}}} {where}, expected one of {known}")
    return path


def _sample(placeholder: Placeholder) -> str:
    """The id is always a text, all others may be null. A tilde continues no escape that was begun before it."""
    if placeholder.in_string:
        return "~"
    return '"~"' if placeholder.path == ("id",) else "null"


def _check_json(sample: str) -> None:
    try:
        json.loads(sample, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        expected = "JSON once its placeholders are filled in, as the content type says"
        raise InvalidWebhook(
            "body", f"expected {expected}; placeholders outside of quotation marks are values"
        ) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"Python reads {name}, which is no JSON")


def _filled(pieces: Pieces, kind: Syntax, facts: DeliveryFacts) -> str:
    parts: list[str] = []
    size = 0
    for piece in pieces:
        parts.append(piece if isinstance(piece, str) else _written(piece, kind, facts))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise InvalidWebhook("body", f"expected at most {LARGEST_BODY:,} characters once it is filled in")
    return "".join(parts)


def _written(placeholder: Placeholder, kind: Syntax, facts: DeliveryFacts) -> str:
    value = _found(placeholder.path, facts)
    if kind == "json" and not placeholder.in_string:
        return _json(value)
    return _ESCAPES[kind](_text(value))


def _found(path: tuple[str, ...], facts: DeliveryFacts) -> Any:
    value: Any = getattr(facts, path[0])
    if isinstance(value, datetime):
        return _instant(value)
    for name in path[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return _COMPACT.encode(value)


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _percent_encoded(text: str) -> str:
    return "".join(chr(byte) if byte in _FORM_SAFE else f"%{byte:02X}" for byte in text.encode(errors="replace"))


_ESCAPES: dict[Syntax, Callable[[str], str]] = {
    "json": lambda text: _json(text)[1:-1],
    "form": _percent_encoded,
    "xml": html.escape,
    "text": str,
}
