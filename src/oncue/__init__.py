"""oncue: every job on cue, once. One durable job system for Python, on SQLite or PostgreSQL."""

__version__ = "0.1.0"

from oncue.app import Oncue
from oncue.engine.context import JobContext, current_job
from oncue.errors import (
    Cancel,
    ConfigError,
    Conflict,
    InvalidJob,
    JobNotFound,
    OncueError,
    Retry,
    Skip,
    Snooze,
    StoreBusy,
    StoreUnavailable,
    UnknownTask,
)
from oncue.model import Job, Receipt
from oncue.policy.priorities import BACKGROUND, SCHEDULED, USER_REQUESTED
from oncue.policy.retry import Exponential, Ladder
from oncue.task import Task

__all__ = [
    "BACKGROUND",
    "SCHEDULED",
    "USER_REQUESTED",
    "Cancel",
    "ConfigError",
    "Conflict",
    "Exponential",
    "InvalidJob",
    "Job",
    "JobContext",
    "JobNotFound",
    "Ladder",
    "Oncue",
    "OncueError",
    "Receipt",
    "Retry",
    "Skip",
    "Snooze",
    "StoreBusy",
    "StoreUnavailable",
    "Task",
    "UnknownTask",
    "current_job",
]
