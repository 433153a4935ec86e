"""The verbs on cluster jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from oncue.client import reading, requests
from oncue.client.requests import Page, Request, checked_key, given, query, segment
from oncue.records.cluster import ClusterJobDetail, ClusterJobRecord, ClusterLeaderRecord

CLUSTER = "/api/admin/cluster"
JOBS = f"{CLUSTER}/jobs"

_job = reading.record(ClusterJobRecord)
_detail = reading.record(ClusterJobDetail)
_leader = reading.record(ClusterLeaderRecord)


def run(
    task: str,
    args: Mapping[str, Any] | None = None,
    *,
    nodes: Sequence[str] | None = None,
    key: str | None = None,
    priority: int | None = None,
    idempotency_key: str | None = None,
) -> Request[ClusterJobDetail]:
    """Create a cluster job: every node does its part, or each of these `nodes`, then the leader acts.

    Raises Conflict, with its `job_id`, if an unfinished job has the key. A server that does not lead is followed to the
    leader, if that is one of the client's `leaders`; else this raises NotLeader, which says who leads.
    """
    named = None if nodes is None else list(nodes)
    told = given({"task": task, "nodes": named, "key": key, "priority": priority}) | {"args": dict(args or {})}
    return Request("POST", JOBS, _detail, body=requests.body(told), key=checked_key(idempotency_key), about="job")


def get(ref: int | UUID) -> Request[ClusterJobDetail]:
    """One cluster job with the parts of its nodes. Raises JobNotFound."""
    return Request("GET", f"{JOBS}/{segment(ref)}", _detail, about="job")


def cluster_jobs(*, before: int | None = None, limit: int = 100) -> Request[list[ClusterJobRecord]]:
    """Cluster jobs without their parts, newest first, up to 1,000; `before` is the id to go on from."""
    return Request("GET", JOBS, requests.rows(_job, "jobs"), query(before=before, limit=limit), about="job")


def all_cluster_jobs(*, page: int = 100) -> Request[Page[ClusterJobRecord]]:
    """Every cluster job without its parts, newest first, fetched page by page as you go on."""
    return Request("GET", JOBS, requests.page(_job, "jobs"), query(limit=page), about="job")


def cluster_leader() -> Request[ClusterLeaderRecord | None]:
    """The node that leads, if one does at this moment."""
    return Request("GET", CLUSTER, _leader_of)


def _leader_of(document: Any) -> ClusterLeaderRecord | None:
    return None if document["leader"] is None else _leader(document["leader"])
