"""The alert rules for Prometheus, with the thresholds that the operator chose. The rules are in alerts.yml."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from string import Template

from oncue.policy.durations import describe


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When each alert fires. Durations are in seconds."""

    queue_depth: int = 1000
    failed_rate: float = 0.1
    running_for: float = 3600.0
    waiting_for: float = 900.0
    late: float = 60.0
    paused_for: float = 86400.0


class _Rules(Template):
    """The usual `$` is taken: Prometheus has a use for it in the texts of alerts."""

    delimiter = "@"


def rules(thresholds: Thresholds, job: str | None = None) -> str:
    """The rules file. With a `job`, they are only about what Prometheus scrapes under that name."""
    matcher = "" if job is None else f"job={_quoted(job)}"
    text = _Rules(files("oncue.observe").joinpath("alerts.yml").read_text("utf-8")).substitute(
        job=matcher,
        job_and=f"{matcher}," if matcher else "",
        queue_depth=thresholds.queue_depth,
        failed_rate=_number(thresholds.failed_rate),
        failed_text=f"{_number(thresholds.failed_rate * 100)} %",
        running_for=_number(thresholds.running_for),
        running_text=describe(thresholds.running_for),
        waiting_for=_number(thresholds.waiting_for),
        waiting_text=describe(thresholds.waiting_for),
        late=_number(thresholds.late),
        late_text=describe(thresholds.late),
        paused_for=_number(thresholds.paused_for),
        paused_text=describe(thresholds.paused_for),
    )
    return text.replace("{}", "")  # what selects everything needs no braces


def _quoted(text: str) -> str:
    """A text as a string of PromQL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(value: float) -> str:
    return f"{value:.12g}"
