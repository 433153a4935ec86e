"""What operators and callers do to jobs and queues that exist. Every change is conditional on what was read.

A change by hand goes into the audit log, in the transaction that makes it: who it was `by`, and what was before.

looking   jobs and their attempts, queues, nodes, the audit log
changing  cancel a job, retry it, set its status or its priority
many      the same to many jobs, each for itself
queues    pause, resume and limit queues; delete what finished long ago
"""

from __future__ import annotations

from oncue.operations.looking import LARGEST_OFFSET
from oncue.operations.many import MOST_AT_ONCE, Handled, Many
from oncue.operations.queues import Queues

__all__ = ["LARGEST_OFFSET", "MOST_AT_ONCE", "Handled", "Operations"]


class Operations(Many, Queues):
    """The verbs on jobs, queues and nodes. In plain code: `app.wait(app.cancel(7))`."""
