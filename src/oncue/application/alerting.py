"""How a warning of the SLO watcher becomes a delivery: to a webhook of the application, or to a URL."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from oncue.application.internals import Internals
from oncue.application.webhooks import bare_call
from oncue.engine.slo_watcher import AlertNews, Announce
from oncue.errors import InvalidWebhook, WebhookNotFound
from oncue.model import DELIVER, FollowUp
from oncue.task import Call

AUTHOR = "slo"

_log = logging.getLogger("oncue.slo")


def announcer(app: Internals) -> Announce | None:
    """What makes the deliveries, if the settings name where they go (`ONCUE_ALERT_WEBHOOK`)."""
    target = app.settings.alert_webhook
    if target is None:
        return None

    async def announce(news: Sequence[AlertNews]) -> Sequence[FollowUp]:
        try:
            return [call.prepared(**arguments) for call, arguments in [await _call(app, target, one) for one in news]]
        except (WebhookNotFound, InvalidWebhook) as error:  # the log and the metrics tell of it all the same
            _log.error("slo: alerts cannot be delivered to %s: %s", target, error)
            return []

    return announce


async def _call(app: Internals, target: str, one: AlertNews) -> tuple[Call[Any], dict[str, Any]]:
    payload = payload_of(app.name, one)
    if "://" in target:
        return bare_call(app.builtin[DELIVER], target, payload, {}, {"enqueued_by": AUTHOR})
    from oncue.verbs.webhooks import Webhooks

    return await Webhooks(app).call(target, payload, {"enqueued_by": AUTHOR})


def payload_of(application: str, one: AlertNews) -> dict[str, Any]:
    """What the endpoint gets."""
    state = one.state
    return {
        "event": one.event, "application": application, "alert": state.alert, "of": state.of, "value": state.value,
        "threshold": state.threshold, "window_minutes": one.window_minutes, "due_bucket": state.due_bucket,
        "since": None if state.since is None else state.since.isoformat(), "at": one.at.isoformat(), "text": state.text,
    }  # fmt: skip
