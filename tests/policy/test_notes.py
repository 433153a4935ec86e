"""What the audit log says of a change."""

from __future__ import annotations

from dataclasses import replace

from oncue.model import Limits, Note
from oncue.policy import audit_entries
from tests.policy.test_lifecycle import NOW, a_job
from tests.store.scene import a_schedule


def test_a_job_s_note_has_what_changes_and_nothing_else() -> None:
    job = a_job("failed", priority=7)
    assert audit_entries.of_job("job.priority", "ada", job, priority=50) == Note(
        "ada", "job.priority", "job:1", {"priority": 7}, {"priority": 50}
    )
    again = audit_entries.of_job("job.retry", "ada", job, status="queued", retry_count=0)
    assert (again.before, again.after) == (
        {"status": "failed", "retry_count": 2},
        {"status": "queued", "retry_count": 0},
    )
    asked = audit_entries.of_job("job.cancel", "ada", a_job("running", cancel_requested_at=NOW), cancel_requested=True)
    assert asked.before == {"cancel_requested": True}


def test_a_queue_s_note() -> None:
    assert audit_entries.of_pause("ada", "mail", paused=False)[1:] == (
        "queue.resume", "queue:mail", {"paused": True}, {"paused": False},
    )  # fmt: skip
    limits = audit_entries.of_limits("ada", "mail", Limits(), Limits(5, None))
    none = dict.fromkeys(("globally", "per_node", "per_group", "rate", "rate_per_group"))
    assert (limits.before, limits.after) == (none, {**none, "globally": 5})


def test_a_schedule_s_note_is_whole_when_it_is_made_or_deleted_and_else_the_difference() -> None:
    schedule = a_schedule(args='{"n": 1}')
    made = audit_entries.of_schedule("schedule.create", "ada", None, schedule)
    assert (made.before, made.after["expression"], made.after["args"]) == (None, "* * * * *", {"n": 1})
    gone = audit_entries.of_schedule("schedule.delete", "ada", schedule, None)
    assert (gone.subject, gone.before, gone.after) == ("schedule:report", made.after, None)
    edit = audit_entries.of_schedule("schedule.update", "ada", schedule, replace(schedule, priority=9, version=99))
    assert (edit.before, edit.after) == ({"priority": 0}, {"priority": 9})
