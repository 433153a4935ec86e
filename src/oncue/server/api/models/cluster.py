"""Bodies about cluster jobs."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, StrictStr

from oncue.policy.checks import LONGEST_KEY, LONGEST_NAME
from oncue.records.cluster import ClusterJobRecord
from oncue.server.api.models.base import Arguments, Body, Priority, Record
from oncue.tasks.cluster import MOST_NAMED

NodeName: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_NAME)]


class NewClusterJob(Body):
    """Work for the nodes of the cluster."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"task": "compact", "args": {"level": 2}, "key": "compact"}]}
    )

    task: StrictStr = Field(description="The name of a cluster task that the application declares.")
    args: Arguments = Field(default_factory=dict)
    nodes: list[NodeName] | None = Field(
        None, min_length=1, max_length=MOST_NAMED,
        description="The names of the nodes that take part; null for all that are active, know the task and serve its "
        "queue.",
    )  # fmt: skip
    key: StrictStr | None = Field(
        None, min_length=1, max_length=LONGEST_KEY, description="At most one unfinished job of the task has it."
    )
    priority: Priority | None = None


class ClusterJobPage(Record):
    """Cluster jobs, newest first, without their parts."""

    jobs: list[ClusterJobRecord]
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")
