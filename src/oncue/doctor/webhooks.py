"""What can be wrong with webhooks: who delivers, what their secrets and files need, and which endpoints are down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path

from oncue.doctor.findings import Check, Snapshot, few
from oncue.model import WEBHOOKS_QUEUE, HeldBack, Webhook
from oncue.policy.secrets import is_reference, variable
from oncue.policy.words import plural, took
from oncue.settings import Settings

NEVER_MEANT = {
    "loopback": [ip_network("127.0.0.0/8"), ip_network("::1/128")],
    "link-local": [ip_network("169.254.0.0/16"), ip_network("fe80::/10")],
}
"""Networks whose servers trust their neighbours: this machine's own, and the metadata of a cloud with its keys."""


def checked(snapshot: Snapshot, settings: Settings, environ: Mapping[str, str]) -> list[Check]:
    found = [
        _served(snapshot),
        _variables(snapshot.webhooks, environ),
        _allowed(settings.webhooks_allow),
        _files(snapshot.webhooks, settings.webhooks_tls_dir),
        _breakers([group for group in snapshot.held_back if not group.by_hand], snapshot),
        _alerts(snapshot, settings.alert_webhook),
    ]
    return [check for check in found if check is not None]


def _served(snapshot: Snapshot) -> Check | None:
    waiting = sum(queue.queued + queue.later for queue in snapshot.queues if queue.name == WEBHOOKS_QUEUE)
    if not snapshot.webhooks and not waiting:
        return None
    serving = sum(WEBHOOKS_QUEUE in node.queues for node in snapshot.live)
    text = f"{plural(len(snapshot.webhooks), 'webhook')}, {waiting} deliveries waiting"
    if serving:
        return Check("webhooks", "ok", f"{text}; {plural(serving, 'node')} deliver{'s' if serving == 1 else ''}")
    advice = f"start `oncue worker`, or add {WEBHOOKS_QUEUE} to the queues of one (--queues, ONCUE_QUEUES)"
    return Check("webhooks", "fail" if waiting else "warn", f"{text}; no live node serves {WEBHOOKS_QUEUE}", advice)


def _alerts(snapshot: Snapshot, target: str | None) -> Check | None:
    """Whether the warnings of the SLO watcher have somewhere to go."""
    if target is None or "://" in target or (snapshot.alert_webhook is not None and snapshot.alert_webhook.enabled):
        return None
    is_there = snapshot.alert_webhook is not None
    command = f"enable {target}" if is_there else f"add {target} --url URL"
    advice = f"`oncue webhooks {command}`, or name another one in ONCUE_ALERT_WEBHOOK"
    what = "is disabled" if is_there else "does not exist"
    return Check("alerts", "warn", f"warnings are not delivered: the webhook {target} {what}", advice)


def _variables(webhooks: Sequence[Webhook], environ: Mapping[str, str]) -> Check | None:
    """References that this process could not resolve. Whether a worker can, only its own environment tells."""
    missing: dict[str, str] = {}
    for webhook in webhooks:
        for name in _referred(webhook):
            if not environ.get(name):
                missing.setdefault(name, webhook.name)
    if not missing:
        return None
    text = few([f"{name} ({webhook})" for name, webhook in sorted(missing.items())])
    return Check(
        "secrets", "warn", f"webhooks refer to variables that this environment lacks: {text}",
        "only a worker needs them: run `oncue doctor` with the environment of one to be sure",
    )  # fmt: skip


def _referred(webhook: Webhook) -> Iterator[str]:
    for value in (*webhook.secrets, *webhook.headers.values()):
        if is_reference(value):
            yield variable(value)


def _allowed(items: Sequence[str]) -> Check | None:
    """Exceptions of the egress guard that hardly any webhook needs."""
    from oncue.webhooks.egress import Allowed

    opened = {
        f"{what} ({network if port is None else f'{network}, port {port}'})"
        for network, port in Allowed.parse(items).rules
        for what, forbidden in NEVER_MEANT.items()
        if any(network.version == one.version and network.overlaps(one) for one in forbidden)
    }
    if not opened:
        return None
    return Check(
        "egress", "warn", f"ONCUE_WEBHOOKS_ALLOW lets webhooks call {', '.join(sorted(opened))} addresses",
        "take it out, unless this machine is for development or nothing else answers there",
    )  # fmt: skip


def _files(webhooks: Sequence[Webhook], directory: str | None) -> Check | None:
    wanted = {name: webhook.name for webhook in webhooks for name in (webhook.ca, webhook.certificate) if name}
    if directory is not None and not Path(directory).is_dir():
        advice = "make it on every worker's host, or change the setting"
        return Check("tls", "fail", f"ONCUE_WEBHOOKS_TLS_DIR: there is no directory {directory}", advice)
    absent = sorted(name for name in wanted if directory is None or not (Path(directory) / name).is_file())
    if not absent:
        return None
    text = few([f"{name} ({wanted[name]})" for name in absent])
    where = "ONCUE_WEBHOOKS_TLS_DIR is not set" if directory is None else f"they are not in {directory}"
    return Check(
        "tls", "warn", f"webhooks need TLS files that this process does not find, {where}: {text}",
        "only a worker needs them: run `oncue doctor` on the host of one to be sure",
    )  # fmt: skip


def _breakers(groups: Sequence[HeldBack], snapshot: Snapshot) -> Check | None:
    if not groups:
        return None
    text = few([f"{group.name} ({_until(group, snapshot)})" for group in groups])
    are = "circuit breaker is" if len(groups) == 1 else "circuit breakers are"
    return Check(
        "breakers", "warn", f"{len(groups)} {are} open, deliveries wait: {text}",
        "mend the endpoint; it is tried again by itself, or at once after `oncue queues resume webhooks --group NAME`",
    )  # fmt: skip


def _until(group: HeldBack, snapshot: Snapshot) -> str:
    until = group.paused_until
    left = 0.0 if until is None else (until - snapshot.now).total_seconds()
    return f"trip {group.trips}, next probe in {took(left)}" if left > 0 else f"trip {group.trips}, a probe may go out"
