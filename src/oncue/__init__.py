"""oncue: every job on cue, once. One durable job system for Python, on SQLite or PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.client.awaiting import AsyncClient
    from oncue.client.jobs import NewJob
    from oncue.client.plain import Client
    from oncue.engine.context import JobContext, current_job
    from oncue.errors import (
        ApiError,
        Cancel,
        ConfigError,
        Conflict,
        Fail,
        InvalidJob,
        InvalidSchedule,
        InvalidSubject,
        InvalidWebhook,
        JobNotFound,
        NotAllowed,
        NotLeader,
        OncueError,
        Retry,
        RowLocked,
        ScheduleNotFound,
        Skip,
        SlotTaken,
        Snooze,
        StoreBusy,
        StoreUnavailable,
        SubjectNotFound,
        UnknownTask,
        Unreachable,
        WebhookNotFound,
        WrongApplication,
    )
    from oncue.model import ClusterJob, Job, Node, NodeResult, Receipt
    from oncue.policy.priorities import BACKGROUND, CRITICAL_MAX_RETRIES, SCHEDULED, USER_REQUESTED
    from oncue.policy.retry import Exponential, Ladder
    from oncue.policy.triggers import cron
    from oncue.policy.windows import daily
    from oncue.task import Task
    from oncue.tasks.cluster import ClusterTask

__all__ = [
    "BACKGROUND",
    "CRITICAL_MAX_RETRIES",
    "SCHEDULED",
    "USER_REQUESTED",
    "ApiError",
    "AsyncClient",
    "Cancel",
    "Client",
    "ClusterJob",
    "ClusterTask",
    "ConfigError",
    "Conflict",
    "Exponential",
    "Fail",
    "InvalidJob",
    "InvalidSchedule",
    "InvalidSubject",
    "InvalidWebhook",
    "Job",
    "JobContext",
    "JobNotFound",
    "Ladder",
    "NewJob",
    "Node",
    "NodeResult",
    "NotAllowed",
    "NotLeader",
    "Oncue",
    "OncueError",
    "Receipt",
    "Retry",
    "RowLocked",
    "ScheduleNotFound",
    "Skip",
    "SlotTaken",
    "Snooze",
    "StoreBusy",
    "StoreUnavailable",
    "SubjectNotFound",
    "Task",
    "UnknownTask",
    "Unreachable",
    "WebhookNotFound",
    "WrongApplication",
    "cron",
    "current_job",
    "daily",
]

_HOMES = {
    "app": ("Oncue",),
    "client.awaiting": ("AsyncClient",),
    "client.jobs": ("NewJob",),
    "client.plain": ("Client",),
    "engine.context": ("JobContext", "current_job"),
    "model": ("ClusterJob", "Job", "Node", "NodeResult", "Receipt"),
    "policy.priorities": ("BACKGROUND", "CRITICAL_MAX_RETRIES", "SCHEDULED", "USER_REQUESTED"),
    "policy.retry": ("Exponential", "Ladder"),
    "policy.triggers": ("cron",),
    "policy.windows": ("daily",),
    "task": ("Task",),
    "tasks.cluster": ("ClusterTask",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used.

    pytest imports this package in every run of an environment that has oncue, for its plugin: that must cost nothing.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"oncue.{_HOME_OF.get(name, 'errors')}"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
