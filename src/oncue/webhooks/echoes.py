"""Endpoints that send back what they got: what is kept of their answers does not tell the headers that are hidden.

It catches what happens by chance: a page of errors with the request in it, a complaint about a token, an answer that is
no HTTP. An endpoint that wants to tell its own token can do so in other words.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from oncue.policy.headers import HIDDEN
from oncue.webhooks.secrets import SHOWN_HEADERS
from oncue.webhooks.signing import SIGNATURE_HEADER
from oncue.webhooks.transport import LONGEST_KEPT_HEADER, NotSent, Request, Response

SHORTEST_SECRET = 8
"""A shorter value is no secret worth its name, and stands in many texts by chance."""
SHORTEST_BEGINNING = 4
_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")
"""What is written in the same way everywhere."""


def response_without_echo(response: Response, request: Request) -> Response:
    """The same response, with the values of the request's headers hidden in its excerpt and its headers."""
    if not response.excerpt and not response.headers:
        return response
    words = _words(request.headers)
    excerpt = _without(response.excerpt, words, is_cut=response.truncated)
    headers = {
        name: _without(value, words, is_cut=len(value) >= LONGEST_KEPT_HEADER)
        for name, value in response.headers.items()
    }
    return response._replace(excerpt=excerpt, headers=headers)


def failure_without_echo(error: NotSent, request: Request) -> NotSent:
    """The same for a request without an answer: what was no HTTP, or the host of a redirect, may repeat a header."""
    message = _without(error.message, _words(request.headers), is_cut=True)
    return NotSent(error.kind, message, is_ours=error.is_ours)


def _without(text: str, words: Sequence[str], *, is_cut: bool) -> str:
    """A text without these words, in any case. If it is cut off, its end may be the beginning of one."""
    lowered = text.lower()
    for word in words:
        if word.lower() in lowered:
            text = re.sub(re.escape(word), HIDDEN, text, flags=re.IGNORECASE)
            lowered = text.lower()
    begun = max((_begun(lowered, word.lower()) for word in words), default=0) if is_cut else 0
    return text[: len(text) - begun] + HIDDEN if begun else text


def _begun(text: str, word: str) -> int:
    """How many characters at the end of the text are the beginning of this word."""
    for length in range(min(len(word) - 1, len(text)), SHORTEST_BEGINNING - 1, -1):
        if text.endswith(word[:length]):
            return length
    return 0


def _words(sent: Mapping[str, str]) -> list[str]:
    """What must not be told, the longest first: one may be a part of another."""
    values = ((name.lower(), value) for name, value in sent.items())
    words = {word for name, value in values if name not in SHOWN_HEADERS for word in _told_by(name, value)}
    return sorted((word for word in words if len(word) >= SHORTEST_SECRET), key=len, reverse=True)


def _told_by(name: str, value: str) -> Iterator[str]:
    """Of `Bearer TOKEN` the token alone too, and each of several signatures: an endpoint may complain about it."""
    if name == SIGNATURE_HEADER:
        yield from (signature.partition(",")[2] for signature in value.split())
        return
    for word in (value, value.rpartition(" ")[2]):
        yield word
        if not _PLAIN.fullmatch(word):  # as pages of errors write it
            yield json.dumps(word)[1:-1]
            yield html.escape(word)
            yield quote(word, safe="")
