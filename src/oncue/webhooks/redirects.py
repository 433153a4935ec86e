"""Redirects: what is asked next, if anything.

A redirect comes from a stranger, so that each next URL is checked as at save and its address by the egress guard.

- 307 and 308 keep method and body.
- 303 becomes a GET without a body: the receiver took the delivery and shows its result elsewhere.
- 301 and 302 are followed for GET and HEAD only. Browsers turn a POST into a GET there; a delivery that arrives without
  its body and counts as delivered is worse than one that failed. Such a response is returned as it is.
- From https to http no redirect is followed.
- At another origin only harmless headers are sent: no credentials, no signature, no client certificate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urljoin

from oncue.errors import InvalidWebhook
from oncue.policy.urls import checked_parts
from oncue.webhooks.transport import NotSent, Request

REDIRECTS = frozenset({301, 302, 303, 307, 308})
HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "content-language", "content-type", "user-agent"})
OF_A_BODY = frozenset({"content-type", "content-language", "content-encoding"})
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE | re.ASCII)


def next_hop(asked: Request, status: int, location: str | None) -> Request | None:
    """What to ask next; None if this response is the one to return. `NotSent` if it leads where no webhook may go."""
    reads = asked.method in ("GET", "HEAD")
    if status not in REDIRECTS or not location or (status in (301, 302) and not reads):
        return None
    here = checked_parts(asked.url)
    try:
        there = checked_parts(_absolute(asked.url, location))
    except ValueError as error:
        reason = str(error).removeprefix("url: ")
        raise NotSent("invalid", f"{here.origin} redirects to a URL that no webhook may have: {reason}") from None
    if here.scheme == "https" and there.scheme == "http":
        raise NotSent("refused", f"{here.origin} redirects from https to {there.origin}, which is not encrypted")
    hop = asked._replace(url=there.url)
    if status == 303 and not reads:
        hop = hop._replace(method="GET", body=None, headers=_without_body(hop.headers))
    return hop if here.origin == there.origin else _without_credentials(hop)


def _absolute(base: str, location: str) -> str:
    # `urljoin` leaves line breaks out and takes a tab for nothing: such a text must not get that far.
    if not location.isprintable() or " " in location or "\\" in location:
        raise InvalidWebhook("url", "it has spaces, backslashes or invisible characters")
    target = location.partition("#")[0]
    # With a scheme it is complete: `urljoin` would take "http:host" for a path of this server, browsers for a host.
    return target if _SCHEME.match(target) else urljoin(base, target)


def _without_body(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in OF_A_BODY}


def _without_credentials(hop: Request) -> Request:
    kept = {name: value for name, value in hop.headers.items() if name.lower() in HARMLESS}
    return hop._replace(headers=kept, certificate=None)
