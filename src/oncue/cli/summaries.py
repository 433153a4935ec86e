"""What `oncue --help` says of each command, so that it need not import them all: that takes longer than to read it.

Each line is the first paragraph of the command's own help; a test holds them together.
"""

from __future__ import annotations

SUMMARIES = {
    "worker": "Work on jobs until SIGINT, SIGTERM or SIGHUP.",
    "run": (
        "Work on jobs, show the dashboard and answer the admin API, in one process, until SIGINT, SIGTERM or SIGHUP."
    ),
    "serve": (
        "Show the dashboard and answer the admin API, /health, /health/ready and /metrics until SIGINT, SIGTERM or "
        "SIGHUP. No job is run."
    ),
    "enqueue": "Enqueue a task: `oncue enqueue send_invoice order_id=42 --delay 10m`.",
    "jobs": "List jobs, newest first.",
    "job": "Show one job with all its attempts.",
    "retry": "Start finished jobs over, each with its whole budget of retries.",
    "cancel": "Cancel jobs that wait, and ask those that run to stop.",
    "set-status": "Set the status of jobs by hand: `oncue set-status 17 failed`.",
    "priority": "Set the priority of unfinished jobs.",
    "boost": "Raise the priority of an unfinished job.",
    "windows": "List the windows; or show what a day of one came to, by the minute of the cutoff in UTC.",
    "trigger": "Run a schedule's task by hand.",
    "backfill": "Run the slots of a span of time that no leader has decided.",
    "preview": (
        "Show the next runs of a schedule, or of an expression that is none yet: no database is needed for that."
    ),
    "audit": "Tell what became of every slot that a schedule, or every day that a window's subjects should have had.",
    "explain": "Say why a job waits, runs or ended so; why a schedule does not fire; what became of a slot or a day.",
    "nodes": "List the nodes that hold a lease, or held one until a moment ago.",
    "ping": "Let a worker run a job that does nothing, and tell how long that took. Exit code 4 if no worker ran it.",
    "audit-log": "Show what was changed by hand, newest first: who, what, and from what to what.",
    "prune": "Delete finished jobs and their attempts, in small batches.",
    "migrate": "Create oncue's tables, or bring them up to date. Safe to repeat, and from several places at once.",
    "doctor": "Check settings, database, nodes, queues and jobs, and say what to do. Exit code 4 if a check fails.",
    "simulate": "Simulate an application in virtual time: is it fast enough, and how many nodes does its peak need?",
    "demo": "Watch a few thousand jobs, three workers, and what happens when one of them is killed.",
    "schedules": "List the schedules; `show`, `add`, `edit`, `enable`, `disable` or `remove` one.",
    "webhooks": (
        "List the webhooks; `show`, `add`, `edit`, `test` or `rehearse` one, `deliver` to it, list `executions`."
    ),
    "subjects": (
        "Subjects of a window, for whom it opens: `list`, `show`, `add`, `edit`, `remove`, `import` or `run` them."
    ),
    "queues": "List the queues; `pause`, `resume` or `limit` one, or list its `groups`.",
    "cluster": "List the cluster jobs; `run` one, `show` one node by node, or say which node is the `leader`.",
    "token": "Make, list and revoke the tokens of the API, and end sessions of the dashboard.",
    "alerts": "Print alert rules for Prometheus: `oncue alerts --queue-depth 5000 > oncue.rules.yml`.",
}
"""In the order of the help."""
