"""Why a job or a slot ran, waits, was skipped or is missing: from stored facts to plain sentences.

    facts of a job, a slot or a schedule --explain--> findings, each with a code and perhaps a suggestion

The facts are gathered by `oncue/verbs/explaining.py`. Nothing here asks a database or a clock, so that the same facts
always give the same answer, and a test can write down any of them. What is in the way comes first, what has been comes
last.

    findings   what an answer is made of
    cluster    who is alive, who leads, and who could run a job
    limits     which limit, rate or pause of its queue or its group a job waits for
    cluster_jobs   what a cluster job waits for, and of which one a job is a part
    jobs       why a job waits, runs or ended as it did
    queues     why jobs of a queue start, or wait
    revisions  what a schedule was at an instant, and who made it so
    slots      what became of one slot
    schedules  why a schedule does not fire, or when it will
    windows    what became of a subject's day, and how a window stands
"""

from __future__ import annotations

from oncue.policy.explain.cluster import Cluster
from oncue.policy.explain.findings import Explanation, Finding
from oncue.policy.explain.jobs import JobFacts, explain_job
from oncue.policy.explain.limits import LimitFacts
from oncue.policy.explain.queues import QueueFacts, explain_queue
from oncue.policy.explain.schedules import ScheduleFacts, explain_schedule
from oncue.policy.explain.slots import SlotFacts, explain_slot
from oncue.policy.explain.windows import DayFacts, WindowFacts, day_in_question, explain_day, explain_window

__all__ = [
    "Cluster",
    "DayFacts",
    "Explanation",
    "Finding",
    "JobFacts",
    "LimitFacts",
    "QueueFacts",
    "ScheduleFacts",
    "SlotFacts",
    "WindowFacts",
    "day_in_question",
    "explain_day",
    "explain_job",
    "explain_queue",
    "explain_schedule",
    "explain_slot",
    "explain_window",
]
