"""What Prometheus and OpenTelemetry make of the events of windows, and of the SLO watcher's state."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from oncue.model import AlertBook, AlertState
from oncue.observe import open_telemetry
from oncue.observe.prometheus import PrometheusMetrics
from oncue.store import Store
from oncue.telemetry import Telemetry
from tests.observe.watch import Watch
from tests.store.scene import NOW, after, enter, lead


def tell(telemetry: Telemetry) -> None:
    emit = telemetry.emit
    counts = {"users_scanned": 3, "eligible_in_window": 2, "enqueued": 2, "cutoff_finalized": 1}
    emit("sched.tick.stop", {"duration_ms": 250.0}, **counts)
    emit("sched.queue.depth", {"depth": 7}, today="2030-01-01", queue="windows", in_flight=2, max_concurrency=2)
    emit("sched.executor.in_flight", {"in_flight": 2}, max_concurrency=3, queue="windows")
    emit("sched.job.stop", {"duration_ms": 1500.0}, result="ok", window="digest")
    emit("sched.job.stop", {"duration_ms": 2500.0}, result="error", error_class="llm", window="digest")
    day: dict[str, Any] = {"due_bucket": 540, "today": "2030-01-01", "window": "digest"}
    emit("sched.finalize", {}, status="success", reason=None, **day)
    emit("sched.finalize", {}, status="cutoff_reached", reason="added_late", **day)
    told: dict[str, Any] = {"alert": "saturation", "of": "windows", "window_minutes": 15, "due_bucket": None}
    emit("slo.breach", {"value": 0.9, "threshold": 0.8}, since=NOW, text="", **told)


@pytest.mark.contract("WIN-15")
def test_prometheus_hears_of_windows() -> None:
    telemetry = Telemetry()
    value = PrometheusMetrics(telemetry).registry.get_sample_value
    tell(telemetry)
    assert value("oncue_window_tick_seconds_sum") == 0.25
    attempt = {"window": "digest", "result": "error", "error_class": "llm"}
    assert value("oncue_window_attempt_seconds_sum", attempt) == 2.5
    assert value("oncue_window_days_total", {"window": "digest", "status": "success"}) == 1
    assert value("oncue_window_days_total", {"window": "digest", "status": "added_late"}) == 1
    queue = {"queue": "windows"}
    assert (value("oncue_window_in_flight", queue), value("oncue_window_max_concurrency", queue)) == (2, 3)
    assert value("oncue_window_depth", queue) == 7
    assert value("oncue_slo_warnings_total", {"event": "breach"}) == 1


@pytest.mark.contract("WIN-17", "QUE-20")
async def test_every_process_tells_how_the_alerts_stand(store: Store) -> None:
    watch, node = Watch(store), await enter(store)
    states = (
        AlertState("saturation", "windows", 0.9, 0.8, 3, NOW, NOW),
        AlertState("predicted_misses", "digest", 0, 3),
        AlertState("queue_depth", "mail", 2000, 1000, 3, NOW, NOW),
    )
    epoch = (await lead(store, node)).epoch
    await watch.look(NOW)
    assert "OncueWindowSlo" not in watch.firing()
    assert await store.alerts.write(AlertBook(0, None, states), NOW, node=node, epoch=epoch)
    await watch.look(after(seconds=15))
    found = watch.firing()
    assert found["OncueWindowSlo"] == [{"job": "oncue", "alert": "saturation", "of": "windows"}]
    assert "OncueWindowPredictedMisses" not in found
    value = watch.metrics.registry.get_sample_value
    labels = {"alert": "queue_depth", "of": "mail"}
    assert [value(f"oncue_alert_{name}", labels) for name in ("active", "value", "threshold")] == [1, 2000, 1000]
    late = states[1]._replace(value=214, breaches=3, warned_at=NOW, due_bucket=540)
    assert await store.alerts.write(AlertBook(1, None, (late,)), after(minutes=1), node=node, epoch=epoch)
    await watch.look(after(seconds=30))
    found = watch.firing()
    assert found["OncueWindowPredictedMisses"] == [{"job": "oncue", "of": "digest"}]
    assert "OncueWindowSlo" not in found


@pytest.mark.contract("WIN-15")
def test_open_telemetry_hears_of_windows() -> None:
    reader, telemetry = InMemoryMetricReader(), Telemetry()
    provider = MeterProvider([reader])
    open_telemetry.OpenTelemetryMetrics(provider.get_meter("oncue")).subscribe(telemetry)
    tell(telemetry)
    data = reader.get_metrics_data()
    assert data is not None
    ((scope,),) = (resource.scope_metrics for resource in data.resource_metrics)
    points = {metric.name: list(metric.data.data_points) for metric in scope.metrics}
    assert set(points) == {
        "sched.tick.duration", "sched.job.duration", "sched.finalize", "sched.queue.depth", "sched.executor.in_flight",
        "slo.breach",
    }  # fmt: skip
    errors = [point for point in points["sched.job.duration"] if point.attributes["result"] == "error"]
    assert [(point.sum, dict(point.attributes)) for point in errors] == [
        (2500, {"window": "digest", "result": "error", "error_class": "llm"})
    ]
    provider.shutdown()


def test_open_telemetry_is_heard_once_and_without_it_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry, asked = Telemetry(), []
    usual = api.get_meter
    monkeypatch.setattr(api, "get_meter", lambda *args: asked.append(args) or usual(*args))
    assert open_telemetry.subscribe(telemetry)
    assert open_telemetry.subscribe(telemetry)
    assert len(asked) == 1
    monkeypatch.setattr(api, "get_meter", lambda *_: object())  # an API that lacks what is needed
    assert not open_telemetry.subscribe(Telemetry())
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    other = Telemetry()
    assert not open_telemetry.subscribe(other)
    assert not other.wants("sched.job.stop")
