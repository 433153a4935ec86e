"""Why jobs of a queue start, or wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncue.model import PARKED, HeldBack, Queue
from oncue.policy.explain import Explanation, QueueFacts, explain_queue
from tests.policy.test_explain import a_cluster, a_node, after, before

QUEUE = Queue("mail", None, 5, 2, 0, 0, 0, 0, 0)


def explained(queue: Queue = QUEUE, **facts: Any) -> Explanation:
    serving = a_node(queues=("mail",))
    return explain_queue(QueueFacts(queue, **{"cluster": a_cluster(nodes=[serving]), **facts}))


def test_an_open_queue() -> None:
    found = explained(oldest=before(seconds=90))
    assert (found.subject, found.status, found.codes) == ("queue mail", "running", ["next_in_turn"])
    assert found.findings[0].text.startswith("5 jobs wait, the oldest for 1m30s: workers take them")


def test_an_empty_queue() -> None:
    found = explained(replace(QUEUE, queued=0, running=0, later=1))
    assert (found.status, found.codes) == ("idle", ["nothing_waits"])
    assert found.findings[0].text == "Nothing waits in it; 1 job of it is due later."


def test_a_paused_queue() -> None:
    found = explained(replace(QUEUE, paused_at=before(minutes=3)))
    assert (found.status, found.codes) == ("paused", ["paused_queue", "jobs_wait"])


def test_no_worker() -> None:
    assert explained(cluster=a_cluster(nodes=[])).codes == ["no_node_alive", "jobs_wait"]
    found = explained(cluster=a_cluster(nodes=[a_node(queues=("other",))]))
    assert (found.status, found.codes) == ("waiting", ["no_node_serves_queue", "jobs_wait"])


def test_limits_rates_and_seats() -> None:
    assert explained(replace(QUEUE, global_limit=2)).codes == ["full_queue", "jobs_wait"]
    assert explained(replace(QUEUE, rate="1/s"), rated_until=after(seconds=5)).codes == ["queue_rate", "jobs_wait"]
    assert explained(is_full=True).codes == ["no_seat", "jobs_wait"]


def test_groups_that_are_held_back() -> None:
    paused = [HeldBack("mail", f"tenant:{number}", 0, PARKED) for number in range(7)]
    found = explained(held_back=[*paused, HeldBack("mail", "erp", 2, after(seconds=30))])
    assert found.codes == ["paused_groups", "breakers_open", "next_in_turn"]
    assert found.findings[0].text.endswith("7 groups that an operator has paused: "
                                           "tenant:0, tenant:1, tenant:2, tenant:3, tenant:4 and 2 more.")  # fmt: skip
