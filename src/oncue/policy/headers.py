"""The headers that a webhook may send: names and values by RFC 9110, and none that oncue or the connection sets.

No complaint repeats a value, nor a name that is malformed: either may be a secret in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from oncue.errors import InvalidWebhook
from oncue.policy.secrets import is_reference, variable

MOST_HEADERS = 50
MOST_HEADER_BYTES = 8 * 1024
HIDDEN = "(hidden)"
"""What answers show in place of a value. It is no value: an answer that is sent back must not replace one."""

RESERVED = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
RESERVED_PREFIXES = ("proxy-", "webhook-")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"([!-~]([ -~]*[!-~])?)?")


def is_field_value(text: str) -> bool:
    """Whether a text can be the value of a header as it is: printable ASCII, without spaces at its ends."""
    return _VALUE.fullmatch(text) is not None


def checked_headers(headers: object) -> dict[str, str]:
    """The headers of a webhook. Raises InvalidWebhook."""
    if not isinstance(headers, Mapping):
        raise InvalidWebhook("headers", "expected names with values")
    if len(headers) > MOST_HEADERS:
        raise InvalidWebhook("headers", f"expected at most {MOST_HEADERS}, not {len(headers)}")
    taken: dict[str, str] = {}
    for number, (name, value) in enumerate(headers.items(), 1):
        checked = _checked_header_name(name, number)  # first: the complaints about a value repeat the name
        taken[checked] = _checked_value(value, checked)
    _check_together(taken)
    return taken


def _checked_header_name(name: object, number: int) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        expected = "letters, digits and any of !#$%&'*+-.^_`|~"
        raise InvalidWebhook("headers", f"the name of header {number}: expected {expected}")
    # Many servers hand out `a_b` and `a-b` under one name.
    meant = name.lower().replace("_", "-")
    if meant in RESERVED or meant.startswith(RESERVED_PREFIXES):
        raise InvalidWebhook("headers", f"{name:.100} is set by oncue or by the connection, and cannot be chosen")
    if meant == "content-type":
        raise InvalidWebhook("headers", f"{name} is the field content_type of a webhook")
    return name


def _checked_value(value: object, name: str) -> str:
    where = f"the value of {name:.100}"
    if not isinstance(value, str) or not is_field_value(value):
        raise InvalidWebhook("headers", f"{where}: expected printable ASCII, without spaces or line breaks at its ends")
    if value == HIDDEN:
        raise InvalidWebhook(
            "headers", f"{where}: expected the value itself; {HIDDEN} is what answers show in its place"
        )
    if is_reference(value):
        _check_reference(value, where)
    return value


def _check_reference(value: str, where: str) -> None:
    try:
        variable(value, where)
    except ValueError as error:
        raise InvalidWebhook("headers", str(error)) from None


def _check_together(headers: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for name in headers:
        if name.lower() in seen:
            raise InvalidWebhook("headers", f"{name:.100} is there twice")
        seen.add(name.lower())
    size = sum(len(name) + len(value) + len(": \r\n") for name, value in headers.items())
    if size > MOST_HEADER_BYTES:
        raise InvalidWebhook("headers", f"expected at most {MOST_HEADER_BYTES:,} bytes in all, not {size:,}")
