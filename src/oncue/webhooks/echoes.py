"""Endpoints that send back what they got: what is kept of their answers does not tell the headers that are hidden."""

from __future__ import annotations

from collections.abc import Mapping

from oncue.policy.headers import HIDDEN
from oncue.webhooks.secrets import SHOWN_HEADERS
from oncue.webhooks.transport import Response

SHORTEST_SECRET = 8
"""A shorter value is no secret worth its name, and stands in many texts by chance."""


def without_echo(response: Response, headers: Mapping[str, str], sent: Mapping[str, str]) -> Response:
    """The same response, with the values of these headers, as they were sent, hidden in its excerpt.

    Of `Bearer TOKEN` the token alone is hidden too: an endpoint may complain about it.
    """
    values = [sent.get(name, "") for name in headers if name.lower() not in SHOWN_HEADERS]
    words = {word for value in values for word in (value, value.rpartition(" ")[2]) if len(word) >= SHORTEST_SECRET}
    excerpt = response.excerpt
    for word in sorted(words, key=len, reverse=True):
        excerpt = excerpt.replace(word, HIDDEN)
    return response if excerpt == response.excerpt else response._replace(excerpt=excerpt)
