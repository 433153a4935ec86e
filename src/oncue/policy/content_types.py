"""What a body is: its content type, and how a value has to be written in a body of that type."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from oncue.errors import InvalidWebhook

JSON_TYPE = "application/json"
LONGEST_CONTENT_TYPE = 200
Syntax: TypeAlias = Literal["json", "form", "xml", "text"]

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}( ?; ?{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*')
_CHARSET = re.compile(r'; ?charset="?([^";]*)', re.IGNORECASE)


def checked_content_type(content_type: object) -> str:
    """A content type such as `application/json` or `text/plain; charset=utf-8`. Raises InvalidWebhook."""
    fits = isinstance(content_type, str) and len(content_type) <= LONGEST_CONTENT_TYPE
    if not fits or not _CONTENT_TYPE.fullmatch(str(content_type)):
        expected = "a type such as application/json or text/plain; charset=utf-8"
        raise InvalidWebhook("content_type", f"expected {expected}, not {content_type!r:.100}")
    charset = _CHARSET.search(str(content_type))
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8"):
        raise InvalidWebhook("content_type", f"expected the charset utf-8, as all bodies are sent, not {charset[1]!r}")
    return str(content_type)


def syntax(content_type: str) -> Syntax:
    """The rules by which a body of this type is read."""
    kind, _, subtype = content_type.partition(";")[0].strip().lower().partition("/")
    if subtype == "json" or subtype.endswith("+json"):
        return "json"
    if (kind, subtype) == ("application", "x-www-form-urlencoded"):
        return "form"
    return "xml" if subtype in ("xml", "html") or subtype.endswith("+xml") else "text"
