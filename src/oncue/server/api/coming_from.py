"""Where a request comes from: this machine, or one behind a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from oncue.policy.urls import leads_here

PASSED_ON = ("forwarded", "x-real-ip", "via", "true-client-ip", "cf-connecting-ip", "x-client-ip")
PASSED_ON_BEGINS = ("x-forwarded-", "x-envoy-")


def was_passed_on(headers: Headers) -> bool:
    """Whether a proxy says that it has passed this request on: the client may be on any machine."""
    return any(name in PASSED_ON or name.startswith(PASSED_ON_BEGINS) for name in headers)


def host_of(headers: Headers) -> str:
    """What the header Host names, without its port."""
    host = headers.get("host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_from_here(scope: Mapping[str, Any]) -> bool:
    """Whether a request came over loopback, as far as that can be known."""
    headers, client = Headers(scope=dict(scope)), scope.get("client")
    return client is not None and leads_here(client[0]) and leads_here(host_of(headers)) and not was_passed_on(headers)
