"""The test kit: run an application's jobs inside a test, on a real store in memory, with a clock that the test moves.

    with oncue.testing.use(app) as kit:
        sign_up("ada@example.org")
        kit.assert_enqueued(send_welcome, "ada@example.org")
        assert kit.drain() == {"succeeded": 1}

With pytest, take the `oncue` fixture instead. Nothing here starts a thread, sleeps or opens a connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncue.testing.clock import Clock
    from oncue.testing.kit import Kit, use
    from oncue.testing.webhooks import EndpointAnswer, Sent

__all__ = ["Clock", "EndpointAnswer", "Kit", "Sent", "use"]

_HOMES = {
    "EndpointAnswer": "oncue.testing.webhooks", "Clock": "oncue.testing.clock", "Kit": "oncue.testing.kit",
    "Sent": "oncue.testing.webhooks", "use": "oncue.testing.kit",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the pytest plugin next door must cost nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
