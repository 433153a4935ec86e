"""No way around the slots: a task that runs at most once and whose code declares a schedule runs in slots alone. So
does the task of a daily window: a day has one success.

A plain enqueue of such a task is refused. The code of the process that enqueues says so, and where that code does not
declare the schedule (a stub of the task, an older version), the declaration that a worker stored says so.
"""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import quote

from oncue.errors import InvalidJob
from oncue.model import Declaration
from oncue.task import Task


def refuse_declared(task: Task[Any, Any]) -> None:
    """Raise InvalidJob if the task's own code keeps it to the slots of its schedule."""
    if task.window is not None:
        raise window_refusal(task.name)
    if task.schedule is not None and task.delivery == "at_most_once":
        raise refusal(task.name)


def refuse_stored(task: str, declaration: Declaration | None) -> None:
    """Raise InvalidJob if the stored declaration keeps the task to the slots of its schedule."""
    if declaration is None:
        return
    from oncue.policy.schedules import keeps_to_slots, keeps_to_windows

    if keeps_to_windows(declaration):
        raise window_refusal(task)
    if keeps_to_slots(declaration):
        raise refusal(task)


def refusal(name: str) -> InvalidJob:
    shell, address = shlex.quote(name), f"/api/admin/scheduled-jobs/{quote(name, safe='')}/trigger"
    return InvalidJob(
        "task",
        f"{name!r} runs at most once for each slot of its schedule, so it cannot be enqueued. To run it now, in an "
        f"extra slot: `oncue trigger {shell}`, `app.schedules.run_now({name!r})` or POST {address}. To claim one of "
        f"its slots: `oncue trigger {shell} --at INSTANT`, `app.schedules.trigger({name!r}, instant)` or the same "
        'POST with {"at": INSTANT}',
    )


def window_refusal(name: str) -> InvalidJob:
    shell = shlex.quote(name)
    return InvalidJob(
        "task",
        f"{name!r} runs once a day for each subject of its window, so it cannot be enqueued. To run it now for one of "
        f"them: `oncue subjects run {shell} SUBJECT`, or `app.windows.run_now({name!r}, subject)`",
    )
