"""A process that is watched: its metrics, scraped as often as a test wants, and the alerts that fire on them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import yaml
from prometheus_client import generate_latest

from oncue.engine.counting import take_sample
from oncue.engine.survey import Surveying
from oncue.observe.alerts import Thresholds, rules
from oncue.observe.prometheus import PrometheusMetrics
from oncue.store import Store
from oncue.telemetry import Telemetry
from tests.observe.promql import Query, Scrapes, parse
from tests.store.scene import NOW


def alerts(thresholds: Thresholds | None = None, job: str | None = None) -> dict[str, dict[str, Any]]:
    """The rules by name, as a YAML parser reads them."""
    document = yaml.safe_load(rules(thresholds or Thresholds(), job))
    (group,) = document["groups"]
    found = {rule["alert"]: rule for rule in group["rules"]}
    assert len(found) == len(group["rules"]), "two rules have the same name"
    return found


def queries(thresholds: Thresholds | None = None, job: str | None = None) -> dict[str, Query]:
    return {name: parse(rule["expr"]) for name, rule in alerts(thresholds, job).items()}


class Watch:
    def __init__(self, store: Store | None = None, telemetry: Telemetry | None = None) -> None:
        self.telemetry = telemetry or Telemetry()
        self.metrics = PrometheusMetrics(self.telemetry)
        self.scrapes = Scrapes()
        self.at = NOW.timestamp()
        self._store = store
        self._surveying = None if store is None else Surveying(store, self.telemetry)

    async def look(self, now: datetime) -> None:
        """Let it look at its database, where a leader has just counted, and scrape it."""
        if self._store is not None and self._surveying is not None:
            await take_sample(self._store, now)
            await self._surveying.tick(now)
        self.scrape(now.timestamp() - self.at)

    def scrape(self, after: float = 0.0) -> None:
        """Scrape it so many seconds later."""
        self.at += after
        self.scrapes.add(self.at, generate_latest(self.metrics.registry).decode())

    def firing(self, **thresholds: Any) -> dict[str, list[dict[str, str]]]:
        """The alerts whose condition holds now, each with the labels of what it is about."""
        found = {name: query(self.scrapes, self.at) for name, query in queries(Thresholds(**thresholds)).items()}
        return {name: labels for name, labels in found.items() if labels}
