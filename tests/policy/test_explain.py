"""What is said of a job, a slot or a schedule, for every state that it can be in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from oncue.model import PARKED, Attempt, Group, GroupSettings, Job, Lease, Node, Queue, Rate, Revision, Schedule, Slot
from oncue.policy.aging import Rules
from oncue.policy.explain import (
    Cluster,
    Explanation,
    JobFacts,
    LimitFacts,
    ScheduleFacts,
    SlotFacts,
    explain_job,
    explain_schedule,
    explain_slot,
)
from oncue.policy.options import Options, WindowOptions
from oncue.policy.schedules import BY_HAND, DELETED, EDITED, UNDECLARED

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
YESTERDAY = NOW - timedelta(days=1)
ALPHA, BETA = UUID(int=1), UUID(int=2)
AT_MOST_ONCE = Options(delivery="at_most_once").stored()


def after(**parts: float) -> datetime:
    return NOW + timedelta(**parts)


def before(**parts: float) -> datetime:
    return NOW - timedelta(**parts)


def a_node(name: str = "alpha", number: UUID = ALPHA, **fields: Any) -> Node:
    values: dict[str, Any] = {
        "id": number, "name": name, "host": "h", "pid": 1, "boot_id": "b", "version": "0", "queues": ("mail",),
        "tasks": ("send",), "concurrency": 8, "address": None, "started_at": before(hours=1),
        "beat_at": before(seconds=1), "expires_at": after(seconds=14),
    }  # fmt: skip
    return Node(**{**values, **fields})


def a_lease(name: str = "leader", holder: Node | None = None, **fields: Any) -> Lease:
    holder = holder or a_node()
    lease = Lease(name, holder.id, holder.name, 3, before(hours=1), before(seconds=1), after(seconds=14))
    return replace(lease, **fields)


def a_cluster(**fields: Any) -> Cluster:
    return Cluster(**{"now": NOW, "nodes": [a_node()], "leader": a_lease(), "exclusive": None, **fields})


DESERTED = a_cluster(nodes=[], leader=None)


def a_job(**fields: Any) -> Job:
    values: dict[str, Any] = {
        "id": 42, "task": "send", "queue": "mail", "priority": 0, "state": "queued", "reason": None, "args": {},
        "options": Options().stored(), "key": None, "enqueued_by": "system", "created_at": before(minutes=1),
        "updated_at": before(minutes=1), "order_at": before(minutes=1), "visible_at": before(minutes=1),
        "deadline_at": None, "max_runtime": 3600.0, "max_retries": 3, "retry_count": 0, "attempt": 0, "crashes": 0,
        "claim_no": 0, "node_id": None, "claimed_at": None, "run_until": None, "started_at": None,
        "finished_at": None, "cancel_requested_at": None, "result": None, "error": None, "retry_of": None,
    }  # fmt: skip
    return Job(**{**values, **fields})


def about_job(job: Job, cluster: Cluster | None = None, **facts: Any) -> Explanation:
    return explain_job(JobFacts(job, cluster or a_cluster(), **facts))


def text_of(explanation: Explanation, code: str) -> str:
    (found,) = [finding.text for finding in explanation.findings if finding.code == code]
    return found


def suggestion_of(explanation: Explanation, code: str) -> str | None:
    (found,) = [finding.suggestion for finding in explanation.findings if finding.code == code]
    return found


# --- jobs that wait -------------------------------------------------------------------------------------------------


def test_nothing_is_in_the_way() -> None:
    told = about_job(a_job())
    assert told.codes == ["claimable", "priority"]
    assert text_of(told, "claimable") == (
        "Nothing is in its way: it is due since 2030-01-01T11:59:00Z (1m ago) and next in line at alpha."
    )


@pytest.mark.contract("QUE-22")
def test_a_paused_queue() -> None:
    told = about_job(a_job(), paused_at=before(hours=2))
    assert told.codes[0] == "paused_queue"
    assert "paused since 2030-01-01T10:00:00Z (2h ago)" in text_of(told, "paused_queue")
    assert suggestion_of(told, "paused_queue") == "resume it with `oncue queues resume mail`"
    assert "claimable" not in told.codes


@pytest.mark.contract("QUE-22")
@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([], "no_node_alive"),
        ([a_node(expires_at=NOW)], "no_node_alive"),
        ([a_node(queues=("default",))], "no_node_serves_queue"),
        ([a_node(tasks=("other",))], "no_node_knows_task"),
        ([a_node(queues=("default",)), a_node("beta", BETA, tasks=("other",))], "no_node_knows_task"),
    ],
)
def test_nobody_who_could_run_it(nodes: list[Node], code: str) -> None:
    told = about_job(a_job(), a_cluster(nodes=nodes))
    assert told.codes == [code, "priority"]
    assert suggestion_of(told, code)


def test_others_stand_by_for_the_exclusive_worker() -> None:
    beta = a_node("beta", BETA, queues=("default",))
    told = about_job(a_job(), a_cluster(nodes=[a_node(), beta], exclusive=a_lease("exclusive", beta)))
    assert told.codes == ["no_node_serves_queue", "standing_by", "priority"]
    assert text_of(told, "standing_by").startswith("beta is the exclusive worker, since 2030-01-01T11:00:00Z (1h ago)")
    over = about_job(a_job(), a_cluster(nodes=[a_node(), beta], exclusive=a_lease("exclusive", beta, expires_at=NOW)))
    assert over.codes == ["claimable", "priority"]


@pytest.mark.contract("QUE-22")
def test_priority_and_who_is_ahead() -> None:
    told = about_job(a_job(), ahead=12, above=10)
    assert text_of(told, "behind") == "It is behind 12 others of queue mail: 10 of a higher priority and 2 older."
    assert "from 2030-01-01T12:59:00Z (in 59m) on it gains 10 every 5m, up to 100" in text_of(told, "priority")
    assert suggestion_of(told, "behind") == "let it go first: `oncue boost 42 100`"
    assert suggestion_of(about_job(a_job(priority=100), ahead=3, above=3), "behind") is None
    often = about_job(a_job(), aging=Rules(every=60.0, after=120.0, gain=5))
    assert "from 2030-01-01T12:01:00Z (in 1m) on it gains 5 every 1m, up to 100" in text_of(often, "priority")
    assert "aging is off" in text_of(about_job(a_job(), aging=Rules(gain=0)), "priority")


@pytest.mark.contract("QUE-22")
def test_a_job_that_ages() -> None:
    long_ago = {"created_at": before(hours=3), "visible_at": before(hours=3)}
    told = about_job(a_job(priority=85, **long_ago))
    assert "has 100 by 2030-01-01T12:10:00Z (in 10m)" in text_of(told, "priority")
    leaderless = about_job(a_job(**long_ago), a_cluster(leader=a_lease(expires_at=before(hours=1))))
    assert "no leader raises the priority" in text_of(leaderless, "no_leader")
    assert "the highest" in text_of(about_job(a_job(priority=100)), "priority")


def test_all_seats_are_taken() -> None:
    assert "All 8 seats of alpha are taken" in text_of(about_job(a_job(), held=8), "seats_taken")
    assert "seats_taken" not in about_job(a_job(), held=7).codes


def test_its_nodes_begin_nothing_beside_a_job_that_runs_alone() -> None:
    told = about_job(a_job(), alone=[7])
    assert text_of(told, "behind_one_alone").startswith("alpha begins nothing beside job 7, which has to run alone")
    assert "claimable" not in told.codes
    assert "`oncue explain 7`" in str(suggestion_of(told, "behind_one_alone"))


def test_a_suspect() -> None:
    assert "runs like any other" in text_of(about_job(a_job(crashes=1)), "suspect")
    told = about_job(a_job(crashes=2), ahead=5)
    assert told.codes == ["suspect"]
    assert "died under it 2 times, perhaps because of it: at most 8 such jobs" in text_of(told, "suspect")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"crashes": 3}, "has to run alone on its node. An idle node takes it at once; a busy one after 1m"),
        (
            {"crashes": 4, "options": '{"max_crashes":6}'},
            "After 2 more deaths alone it fails as poison",
        ),
        ({"crashes": 3, "state": "running", "claimed_at": NOW}, "waits on its node until everything else there"),
        ({"crashes": 4, "state": "running", "claimed_at": NOW, "started_at": NOW}, "it runs alone on its node"),
    ],
)
def test_a_job_that_has_to_run_alone(fields: dict[str, Any], words: str) -> None:
    told = about_job(a_job(**fields), ahead=5)
    assert words in text_of(told, "waits_to_run_alone")
    assert "behind" not in told.codes


# --- jobs of groups, and of limited queues --------------------------------------------------------------------------


def a_queue(**fields: Any) -> Queue:
    return Queue(**{"name": "mail", "paused_at": None, **dict.fromkeys(COUNTS, 0), **fields})


COUNTS = ("queued", "running", "later", "succeeded", "failed", "cancelled", "skipped")


def about_grouped(
    group: dict[str, Any] | None = None,
    own: GroupSettings | None = None,
    job: dict[str, Any] | None = None,
    **facts: Any,
) -> Explanation:
    """A job of group `tenant:7` of queue `mail`."""
    values: dict[str, Any] = {
        "queue": "mail", "name": "tenant:7", "queued": 1, "running": 0, "limit": None, "rate": None,
        "rated_until": None, "paused_until": None, "has_settings": own is not None,
    }  # fmt: skip
    limits = LimitFacts(a_queue(), None, Group(**{**values, **(group or {})}), own or GroupSettings())
    return about_job(a_job(**{"group": "tenant:7", **(job or {})}), limits=limits, **facts)


def test_nothing_is_in_the_way_of_a_grouped_job() -> None:
    told = about_grouped({"limit": 4, "running": 3, "rate": "1/min", "rated_until": NOW, "paused_until": NOW})
    assert told.subject == "job 42 (send, queue mail, group tenant:7)"
    assert told.codes == ["claimable", "priority"]
    assert "next of group tenant:7 at alpha" in text_of(told, "claimable")


def test_jobs_of_groups_age_too() -> None:
    told = about_grouped(job={"created_at": before(hours=3), "visible_at": before(hours=3)})
    assert text_of(told, "priority").startswith("Its priority is 0; it has waited for over 1h, gains 10 every 5m")
    assert text_of(told, "priority").endswith("Priority counts among the due jobs of its group, before age.")


# --- jobs with an address -------------------------------------------------------------------------------------------


def test_a_job_for_a_node_that_is_there() -> None:
    named = [a_node(named=True), a_node("beta", BETA, named=True)]
    told = about_job(a_job(address="node:beta"), a_cluster(nodes=named), held=3)
    assert told.codes == ["claimable", "priority"]
    assert text_of(told, "claimable").endswith("next in line at beta.")
    full = about_job(a_job(address="node:beta"), a_cluster(nodes=named), held=8)
    assert "All 8 seats of beta are taken" in text_of(full, "seats_taken")
    behind = about_job(a_job(address="node:beta"), a_cluster(nodes=named), ahead=2)
    assert "behind 2 others of queue mail for node:beta: 2 older" in text_of(behind, "behind")


def test_a_job_for_a_node_that_does_not_know_its_task() -> None:
    named = [a_node(named=True), a_node("beta", BETA, named=True, tasks=("other",))]
    told = about_job(a_job(address="node:beta"), a_cluster(nodes=named))
    assert told.codes == ["no_node_knows_task", "priority"]
    assert text_of(told, "no_node_knows_task") == "It may run only on node beta, and beta does not know the task send."


def test_a_job_for_a_node_that_is_absent() -> None:
    told = about_job(a_job(address="node:beta", deadline_at=after(hours=1)), a_cluster(nodes=[a_node(named=True)]))
    assert told.codes == ["no_node_of_that_name", "must_start", "priority"]
    assert text_of(told, "no_node_of_that_name") == (
        "It may run only on node beta, and no live node has that name: alive are alpha."
    )
    assert suggestion_of(told, "no_node_of_that_name") == (
        "start a worker of that name: `oncue worker --name beta --queues mail`"
    )
    numbered = about_job(a_job(address="node:beta~2"), a_cluster(nodes=[a_node(named=True)]))
    assert suggestion_of(numbered, "no_node_of_that_name") == (
        "start another worker of the name beta: `oncue worker --name beta --queues mail`; it is called beta~2 if the "
        "names before it are taken"
    ), "no worker can be given a name with a number"
    nameless = about_job(a_job(address="node:alpha"))
    assert text_of(nameless, "no_node_of_that_name").endswith("no live node has that name: none has one.")
    assert about_job(a_job(address="node:beta"), DESERTED).codes[0] == "no_node_alive"


def test_a_job_for_a_node_that_does_not_serve_its_queue() -> None:
    told = about_job(a_job(queue="hooks", address="node:alpha"), a_cluster(nodes=[a_node(named=True)]))
    assert text_of(told, "no_node_serves_queue") == (
        "It may run only on node alpha, and alpha serves only mail, not queue hooks."
    )
    assert suggestion_of(told, "no_node_serves_queue") == "let that worker serve it: `--queues mail,hooks`"


def test_a_job_for_the_leader() -> None:
    assert text_of(about_job(a_job(address="role:leader")), "claimable").endswith("next in line at alpha.")
    told = about_job(a_job(address="role:leader"), a_cluster(leader=a_lease(expires_at=before(minutes=1))))
    assert text_of(told, "waits_for_leader").startswith(
        "No node has led since 2030-01-01T11:59:00Z (1m ago): it waits for a leader"
    )
    other = a_cluster(
        leader=a_lease(holder=a_node("beta", BETA, queues=("hooks",))),
        nodes=[a_node(), a_node("beta", BETA, queues=("hooks",))],
    )
    told = about_job(a_job(address="role:leader"), other)
    assert text_of(told, "no_node_serves_queue").startswith("It may run only on the leader, and beta serves only hooks")


# --- and limits -----------------------------------------------------------------------------------------------------


def test_a_paused_group() -> None:
    told = about_grouped({"paused_until": after(minutes=10)})
    assert told.codes == ["paused_group", "priority"]
    assert "is paused until 2030-01-01T12:10:00Z (in 10m): nothing of it starts" in text_of(told, "paused_group")
    assert suggestion_of(told, "paused_group") == "resume it with `oncue queues resume mail --group tenant:7`"
    assert "paused until it is resumed" in text_of(about_grouped({"paused_until": PARKED}), "paused_group")
    later = about_grouped({"paused_until": PARKED}, job={"state": "scheduled", "visible_at": after(hours=1)})
    assert later.codes == ["scheduled_for_later", "paused_group"]


@pytest.mark.contract("HOOK-5")
def test_an_open_circuit_breaker() -> None:
    told = about_grouped({"paused_until": after(minutes=2), "trips": 3})
    assert told.codes == ["breaker_open", "priority"]
    assert text_of(told, "breaker_open").startswith(
        "The circuit breaker of tenant:7 is open until 2030-01-01T12:02:00Z (in 2m) (trip 3): one probe goes out then"
    )
    assert suggestion_of(told, "breaker_open") == "send the probe now: `oncue queues resume mail --group tenant:7`"
    probed = about_grouped({"paused_until": before(minutes=1), "trips": 3, "limit": 1, "running": 1})
    assert probed.codes == ["breaker_open", "priority"]
    assert "(trip 3), and a probe runs: the others wait for it" in text_of(probed, "breaker_open")
    by_hand = about_grouped({"paused_until": PARKED, "trips": 1})
    assert by_hand.codes == ["paused_group", "priority"], "an operator's pause is what counts"
    assert about_grouped({"paused_until": before(minutes=1), "trips": 3, "limit": 1}).codes == ["claimable", "priority"]


def test_a_full_group() -> None:
    told = about_grouped({"limit": 4, "running": 4})
    assert told.codes == ["full_group", "priority"]
    assert text_of(told, "full_group") == (
        "4 jobs of group tenant:7 run, and its limit is 4, set for each group of queue mail."
    )
    assert suggestion_of(told, "full_group") == (
        "raise it with `oncue queues limit mail --group tenant:7 --per-group 8`, "
        "or for each group with `oncue queues limit mail --per-group 8`"
    )
    own = about_grouped({"limit": 1, "running": 1}, GroupSettings(limit=1))
    assert text_of(own, "full_group") == ("1 job of group tenant:7 runs, and its limit is 1, set for this group alone.")
    assert suggestion_of(own, "full_group") == "raise it with `oncue queues limit mail --group tenant:7 --per-group 2`"


def test_the_rate_of_a_group() -> None:
    told = about_grouped({"rate": "2/min", "rated_until": after(seconds=20)})
    assert told.codes == ["group_rate", "priority"]
    assert text_of(told, "group_rate") == (
        "The rate of group tenant:7 is 2/min, set for each group of queue mail: "
        "it lets the next job start at 2030-01-01T12:00:20Z (in 20s)."
    )
    assert "for each group with `oncue queues limit mail --rate-per-group 4/min`" in str(
        suggestion_of(told, "group_rate")
    )
    own = about_grouped({"rate": "2/min", "rated_until": after(seconds=20)}, GroupSettings(rate=Rate(2, 60)))
    assert "set for this group alone" in text_of(own, "group_rate")
    assert "each group" not in str(suggestion_of(own, "group_rate"))


def test_behind_others_of_its_group() -> None:
    assert text_of(about_grouped(ahead=3, above=1), "behind") == (
        "It is behind 3 others of group tenant:7: 1 of a higher priority and 2 older."
    )
    rated = about_grouped({"rate": "10/min", "rated_until": NOW}, ahead=30)
    assert text_of(rated, "behind").endswith("30 older. At 10/min that takes 3m at least.")


def test_names_of_groups_are_quoted_for_the_shell() -> None:
    told = about_grouped({"name": "a b; rm", "paused_until": PARKED})
    assert suggestion_of(told, "paused_group") == "resume it with `oncue queues resume mail --group 'a b; rm'`"


def test_a_queue_that_is_full() -> None:
    def about(**fields: Any) -> Explanation:
        return about_job(a_job(), limits=LimitFacts(a_queue(**fields)))

    told = about(running=50, global_limit=50)
    assert told.codes == ["full_queue", "priority"]
    assert text_of(told, "full_queue") == (
        "50 jobs of queue mail run or wait for a seat on their node, and its limit is 50 on all nodes together."
    )
    assert suggestion_of(told, "full_queue") == "raise it with `oncue queues limit mail --global 100`"
    assert about(running=49, global_limit=50, node_limit=50).codes == ["claimable", "priority"]
    assert "its limit is 5 on each node" in text_of(about(running=5, node_limit=5), "full_queue")


def test_the_rate_of_a_queue() -> None:
    told = about_job(a_job(), limits=LimitFacts(a_queue(rate="1/min"), after(seconds=30)), ahead=2)
    assert told.codes == ["queue_rate", "behind", "priority"]
    assert text_of(told, "queue_rate") == (
        "The rate of queue mail is 1/min: it lets the next job start at 2030-01-01T12:00:30Z (in 30s)."
    )
    assert suggestion_of(told, "queue_rate") == "raise it with `oncue queues limit mail --rate 2/min`"
    assert "At 1/min that takes 2m at least." in text_of(told, "behind")
    assert about_job(a_job(), limits=LimitFacts(a_queue(rate="1/min"), NOW)).codes == ["claimable", "priority"]


def test_due_later() -> None:
    told = about_job(a_job(state="scheduled", visible_at=after(hours=1)))
    assert (told.codes, told.status) == (["scheduled_for_later"], "scheduled")
    assert "2030-01-01T13:00:00Z (in 1h)" in text_of(told, "scheduled_for_later")
    assert about_job(a_job(state="scheduled", visible_at=NOW)).codes == ["claimable", "priority"]
    blocked = about_job(a_job(state="scheduled", visible_at=after(hours=1)), DESERTED)
    assert blocked.codes == ["scheduled_for_later", "no_node_alive"]


@pytest.mark.contract("HOOK-5")
def test_a_delivery_that_was_put_off_says_why() -> None:
    put_off = a_job(state="scheduled", visible_at=after(minutes=1), error="https://a.example is slow")
    assert text_of(about_job(put_off), "scheduled_for_later") == (
        "It was put off until 2030-01-01T12:01:00Z (in 1m): https://a.example is slow."
    )


def an_attempt(number: int = 1, outcome: str = "failed", error: str | None = "ValueError: no") -> Attempt:
    return Attempt(42, number, number, ALPHA, before(minutes=5), before(minutes=4), outcome, error)


def test_a_snoozed_job() -> None:
    told = about_job(a_job(state="scheduled", visible_at=after(hours=1)), attempts=[an_attempt(1, "snoozed", None)])
    assert told.codes == ["snoozed", "attempt"]


TRACEBACK = (
    'Traceback (most recent call last):\n  File "shop.py", line 3, in send\nValueError: no\nSee https://example.com'
)


@pytest.mark.contract("QUE-22")
def test_the_next_retry() -> None:
    job = a_job(state="retrying", visible_at=after(seconds=90), retry_count=1, error=TRACEBACK)
    told = about_job(job, attempts=[an_attempt()])
    assert told.codes == ["next_retry", "attempt"]
    assert text_of(told, "next_retry") == (
        "Its last attempt failed: ValueError: no. The next one is due at 2030-01-01T12:01:30Z (in 1m30s); 1 of 3 "
        "retries are used."
    )
    assert text_of(told, "attempt") == (
        "Attempt 1 began at 2030-01-01T11:55:00Z (5m ago) on alpha and ended after 1m: failed: ValueError: no"
    )


def test_waiting_for_its_turn() -> None:
    told = about_job(a_job(state="scheduled", visible_at=PARKED, schedule_id=1, scheduled_for=NOW), in_turn=[40, 41])
    assert told.codes == ["slot_of", "waiting_for_turn"]
    assert "before it runs job 40, 41" in text_of(told, "waiting_for_turn")
    deserted = about_job(a_job(state="scheduled", visible_at=PARKED), DESERTED)
    assert deserted.codes == ["waiting_for_turn", "no_leader", "no_node_alive"]


def test_deadline_and_grace() -> None:
    assert about_job(a_job(deadline_at=after(minutes=1))).codes == ["claimable", "must_start", "priority"]
    assert about_job(a_job(start_by=before(minutes=1))).codes == ["too_late", "priority"]
    assert "too_late" not in about_job(a_job(start_by=before(minutes=1), attempt=1)).codes
    waiting = about_job(a_job(state="scheduled", visible_at=after(hours=1), deadline_at=before(minutes=1)))
    assert waiting.codes == ["scheduled_for_later", "too_late"]
    assert "the leader is about to skip it" in text_of(waiting, "too_late")
    assert "no_leader" in about_job(a_job(start_by=before(minutes=1)), DESERTED).codes
    assert about_job(a_job(cancel_requested_at=NOW)).codes == ["cancel_requested", "priority"]


# --- jobs that run --------------------------------------------------------------------------------------------------


def running(**fields: Any) -> Job:
    values = {"state": "running", "node_id": ALPHA, "claimed_at": before(minutes=2), "run_until": after(hours=1)}
    return a_job(**{**values, **fields})


def test_where_it_runs() -> None:
    told = about_job(running(started_at=before(minutes=1)))
    assert told.codes == ["running_on"]
    assert "on node alpha since 2030-01-01T11:59:00Z (1m ago), attempt 1" in text_of(told, "running_on")
    assert "waits there for a seat" in text_of(about_job(running()), "running_on")


def test_asked_to_stop_and_over_its_time() -> None:
    told = about_job(running(cancel_requested_at=before(seconds=5), run_until=before(seconds=1)))
    assert told.codes == ["running_on", "cancel_requested", "overrun"]


def test_its_node_is_silent() -> None:
    silent = a_node(beat_at=before(seconds=20), expires_at=before(seconds=5))
    told = about_job(running(), a_cluster(nodes=[silent, a_node("beta", BETA)]))
    assert told.codes == ["node_lost"]
    text = text_of(told, "node_lost")
    assert "Node alpha, which holds it, is silent since 2030-01-01T11:59:40Z (20s ago)" in text
    assert "queued again" in text
    assert suggestion_of(told, "node_lost") is None
    once = about_job(running(options=AT_MOST_ONCE), DESERTED)
    assert "at most once" in text_of(once, "node_lost")
    assert suggestion_of(once, "node_lost") == "no other node is alive; start one: `oncue worker`"


# --- jobs that have ended -------------------------------------------------------------------------------------------


def ended(**fields: Any) -> Job:
    values = {"finished_at": before(minutes=1), "started_at": before(minutes=2), "node_id": ALPHA, "attempt": 1,
              "claim_no": 1}  # fmt: skip
    return a_job(**{**values, **fields})


def test_success() -> None:
    told = about_job(ended(state="succeeded"), attempts=[an_attempt()])
    assert told.codes == ["settled"]
    assert text_of(told, "settled") == "It succeeded at 2030-01-01T11:59:00Z (1m ago) on alpha, in attempt 1."


@pytest.mark.contract("QUE-22")
@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"retry_count": 3}, "no_retries_left", "all 3 of its retries"),
        ({"max_retries": 0}, "no_retries_left", "max_retries=0"),
        ({"retry_count": 1}, "given_up", "had 2 left"),
        ({"reason": "poison", "crashes": 5}, "poison", "5 processes died under it, the last 2 while it ran alone"),
        ({"reason": "by_hand"}, "by_hand", "`oncue audit-log --subject job:42` tells who"),
        ({"reason": "worker_startup_recovery"}, "at_most_once", "its worker died"),
    ],
)
def test_why_it_is_not_retried(fields: dict[str, Any], code: str, words: str) -> None:
    told = about_job(ended(state="failed", error="ValueError: no", **fields))
    assert told.codes == ["settled", code]
    assert ("ValueError: no" in text_of(told, "settled")) is (code != "poison"), "of poison, the reason tells all"
    assert words in text_of(told, code)
    assert suggestion_of(told, code) == "start it over with `oncue retry 42`"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"reason": "deadline", "started_at": None}, "by its deadline"),
        ({"reason": "misfire", "started_at": None}, "within the grace"),
        ({"reason": "skipped_timeout", "error": "node_lost"}, "its node was lost"),
        ({"reason": "skipped_timeout", "error": "over its maximum runtime"}, "over its maximum runtime"),
        ({"reason": "cutoff_reached"}, "its day was over before it succeeded"),
        ({"reason": "interrupted"}, "shut down"),
        ({"reason": "nothing new"}, "its handler said so: nothing new"),
    ],
)
def test_why_it_was_skipped(fields: dict[str, Any], words: str) -> None:
    told = about_job(ended(state="skipped", **fields))
    assert told.codes == ["settled"]
    assert words in text_of(told, "settled")


def of_day(cutoff_at: datetime) -> str:
    """The options of a window's job."""
    return replace(Options(), window=WindowOptions(600.0, "user", cutoff_at=cutoff_at)).stored()


@pytest.mark.contract("WIN-6")
def test_no_retry_is_advised_for_a_day_that_is_over() -> None:
    over = ended(state="skipped", subject="ann", reason="cutoff_reached", options=of_day(NOW))
    assert suggestion_of(about_job(over), "settled") is None
    gave_up = ended(state="cancelled", subject="ann", options=of_day(after(minutes=1)))
    assert suggestion_of(about_job(gave_up), "settled") == "run it after all with `oncue retry 42`"


def test_cancelled() -> None:
    assert "before it ran" in text_of(about_job(ended(state="cancelled", started_at=None)), "settled")
    tried = about_job(ended(state="cancelled", started_at=None), attempts=[an_attempt()])
    assert "while it waited for another attempt" in text_of(tried, "settled")
    by_handler = about_job(ended(state="cancelled", reason="no such account"))
    assert "while it ran: no such account" in text_of(by_handler, "settled")


def test_only_the_last_attempts_are_told() -> None:
    attempts = [an_attempt(number) for number in range(1, 9)]
    told = about_job(a_job(state="retrying", visible_at=after(minutes=1), attempt=8), attempts=attempts)
    assert told.codes == ["next_retry", *["attempt"] * 6]
    assert told.findings[1].text == "There were 3 earlier attempts: `oncue job 42` lists them."


def test_a_retry_by_hand_is_suggested_until_one_goes_on_or_went_well() -> None:
    skipped, queued = a_job(id=45, state="skipped"), a_job(id=59)
    for state, code in (("failed", "no_retries_left"), ("skipped", "settled"), ("cancelled", "settled")):
        job = ended(state=state, retry_count=3)
        assert "`oncue retry 42`" in str(suggestion_of(about_job(job, retries=[skipped]), code))
        for last in (queued, a_job(id=59, state="succeeded")):
            told = about_job(job, retries=[skipped, last])
            assert suggestion_of(told, code) is None
            assert text_of(told, "retried_as") == f"It was retried as job 45 (skipped), 59 ({last.state})."
            hint = suggestion_of(told, "retried_as")
            assert hint == ("`oncue explain 59` tells how that one stands" if last is queued else None)


def test_a_dead_worker_has_its_name() -> None:
    told = about_job(ended(state="succeeded"), a_cluster(nodes=[], names={ALPHA: "the late alpha"}))
    assert "on the late alpha, in attempt 1" in text_of(told, "settled")
    assert str(ALPHA) in text_of(about_job(ended(state="succeeded"), a_cluster(nodes=[])), "settled")


def test_where_it_comes_from() -> None:
    told = about_job(a_job(scheduled_for=NOW, schedule_id=1, retry_of=7), schedule="nightly")
    assert text_of(told, "slot_of") == "It was made for slot 2030-01-01T12:00:00Z of nightly."
    assert text_of(told, "retry_of") == "It was made by hand, to repeat job 7."


# --- schedules ------------------------------------------------------------------------------------------------------

HOURLY: dict[str, Any] = {
    "task": "send", "args": "{}", "queue": "mail", "priority": 0, "expression": "0 * * * *", "tz": "UTC",
    "dst": "debian", "missed": "latest", "grace": 300.0, "max_instances": 1, "enabled": True, "reason": None,
}  # fmt: skip


def a_revision(number: int = 1, started_at: datetime = YESTERDAY, **fields: Any) -> Revision:
    values = {**HOURLY, "schedule_id": 1, "revision": number, "started_at": started_at, "changed_by": "ada", **fields}
    return Revision(**values)


def a_schedule(*revisions: Revision, **fields: Any) -> Schedule:
    last = (revisions or (a_revision(),))[-1]
    terms = {name: getattr(last, name) for name in HOURLY}
    values: dict[str, Any] = {
        **terms, "id": 1, "name": "nightly", "description": "", "options": "{}", "max_retries": 3,
        "max_runtime": None, "deadline": None, "declared_by": None, "revision": last.revision,
        "started_at": last.started_at, "version": 1, "cursor": NOW, "next_run_at": after(hours=1),
        "last_run_at": None, "horizon": None, "created_by": "ada", "created_at": before(days=1),
        "updated_at": before(days=1), "deleted_at": None,
    }  # fmt: skip
    return Schedule(**{**values, **fields})


def a_row(scheduled_for: datetime = NOW, verdict: Any = "fired", **fields: Any) -> Slot:
    values: dict[str, Any] = {
        "schedule_id": 1, "until": None, "slots": 1, "reason": None, "job_id": None, "blocked_by": None, "revision": 1,
        "decided_at": NOW, "decided_by": ALPHA, "epoch": 3, "state": None, "state_reason": None, "started_at": None,
        "finished_at": None, "worker": None, "error": None,
    }  # fmt: skip
    return Slot(scheduled_for=scheduled_for, verdict=verdict, **{**values, **fields})


def about_schedule(*revisions: Revision, cluster: Cluster | None = None, **facts: Any) -> Explanation:
    revisions = revisions or (a_revision(),)
    schedule = facts.pop("schedule", None) or a_schedule(*revisions)
    return explain_schedule(ScheduleFacts(schedule, revisions, cluster or a_cluster(), **facts))


def test_a_schedule_that_is_as_it_should_be() -> None:
    row = a_row(decided_at=after(seconds=0.3), job_id=42, state="running")
    told = about_schedule(recent=[row])
    assert told.codes == ["not_due_yet", "fired"]
    assert "2030-01-01T13:00:00Z (in 1h)" in text_of(told, "not_due_yet")
    assert "fired at 2030-01-01T12:00:00Z (now), 300ms after its time, as job 42 (running)" in text_of(told, "fired")
    assert suggestion_of(told, "fired") == "`oncue explain 42`"


@pytest.mark.contract("QUE-22")
def test_a_disabled_schedule_names_whoever_disabled_it_first() -> None:
    told = about_schedule(
        a_revision(),
        a_revision(2, before(hours=2), enabled=False, reason=BY_HAND, changed_by="bob"),
        a_revision(3, before(hours=1), enabled=False, reason=BY_HAND, changed_by="eve", priority=5),
    )
    assert (told.codes, told.status) == (["disabled"], "disabled")
    assert "since 2030-01-01T10:00:00Z (2h ago), by bob: disabled by hand" in text_of(told, "disabled")
    assert suggestion_of(told, "disabled") == "`oncue schedules enable nightly`"


@pytest.mark.contract("QUE-22")
@pytest.mark.parametrize(("reason", "code"), [(UNDECLARED, "undeclared"), (DELETED, "deleted")])
def test_a_schedule_that_is_gone(reason: str, code: str) -> None:
    told = about_schedule(a_revision(), a_revision(2, before(hours=2), enabled=False, reason=reason))
    assert told.codes == [code]


@pytest.mark.contract("QUE-22")
def test_nobody_decides() -> None:
    overdue = a_schedule(cursor=before(hours=3), next_run_at=before(hours=2))
    told = about_schedule(schedule=overdue, cluster=a_cluster(nodes=[], leader=a_lease(expires_at=before(hours=3))))
    assert told.codes == ["pending", "no_leader", "no_node_alive"]
    assert text_of(told, "pending").startswith("3 slots came due since 2030-01-01T10:00:00Z (2h ago)")
    assert "No node has led since 2030-01-01T09:00:00Z (3h ago)" in text_of(told, "no_leader")
    assert suggestion_of(told, "no_leader") == "start a worker: `oncue worker`"
    never = about_schedule(cluster=a_cluster(leader=None))
    assert "No node has ever led" in text_of(never, "no_leader")
    assert "log of alpha" in (suggestion_of(never, "no_leader") or "")


def test_slots_that_cannot_be_worked_out() -> None:
    put_off = a_schedule(cursor=before(hours=3), next_run_at=after(seconds=30))
    assert about_schedule(schedule=put_off).codes == ["put_off"]
    strange = a_revision(tz="Mars/Phobos")
    told = about_schedule(strange, schedule=a_schedule(strange))
    assert told.codes == ["unworkable"]


def test_a_rule_that_is_over() -> None:
    once = a_revision(expression="0 0 1 1 *")
    assert about_schedule(once, schedule=a_schedule(once, cursor=datetime(9998, 12, 1, tzinfo=UTC))).codes == [
        "never_again"
    ]


def test_a_run_is_in_the_way_and_its_queue_is_paused() -> None:
    told = about_schedule(unfinished=[7], paused_at=before(hours=1))
    assert told.codes == ["not_due_yet", "paused_queue", "max_instances"]
    assert suggestion_of(told, "max_instances") == "`oncue explain 7`"
    assert "are not finished (job 7)" in text_of(told, "max_instances")
    both = about_schedule(a_revision(max_instances=2), unfinished=[7, 9])
    assert "are not finished (jobs 7, 9)" in text_of(both, "max_instances")


# --- slots ----------------------------------------------------------------------------------------------------------


def about_slot(at: datetime, *revisions: Revision, cluster: Cluster | None = None, **facts: Any) -> Explanation:
    revisions = revisions or (a_revision(),)
    schedule = facts.pop("schedule", None) or a_schedule(*revisions)
    return explain_slot(SlotFacts(schedule, revisions, at, cluster or a_cluster(), **facts))


def test_a_slot_that_fired_tells_of_its_job() -> None:
    row = a_row(before(hours=1), job_id=42, decided_at=before(minutes=59))
    told = about_slot(before(hours=1), rows=[row], job=JobFacts(ended(state="failed", retry_count=3), a_cluster()))
    assert told.codes == ["fired", "settled", "no_retries_left"]
    assert text_of(told, "fired") == "It fired at 2030-01-01T11:01:00Z (59m ago), 1m after its time, as job 42."


def test_a_slot_outlives_its_job() -> None:
    kept = a_row(NOW, job_id=42, state="failed", worker="alpha", finished_at=NOW, error="ValueError: no")
    told = about_slot(NOW, rows=[kept])
    assert told.codes == ["fired", "settled"]
    assert "Job 42 failed at 2030-01-01T12:00:00Z (now) on alpha: ValueError: no" in text_of(told, "settled")
    assert about_slot(NOW, rows=[a_row(job_id=42)]).codes == ["fired", "job_gone"]


def test_a_slot_by_hand_names_who_asked() -> None:
    row = a_row(verdict="manual", reason="trigger", job_id=42)
    told = about_slot(NOW, rows=[row], job=JobFacts(a_job(enqueued_by="bob"), a_cluster()))
    assert told.codes == ["manual", "asked_by", "claimable", "priority"]
    assert text_of(told, "asked_by") == "bob asked for it."


def test_missed_by_an_outage() -> None:
    row = a_row(before(hours=5), "missed", reason="misfire", until=before(hours=2), slots=4)
    told = about_slot(before(hours=3), rows=[row])
    assert told.codes == ["missed"]
    text = text_of(told, "missed")
    assert "with 3 others from 2030-01-01T07:00:00Z to 2030-01-01T10:00:00Z" in text
    assert "and its grace is 5m" in text
    assert suggestion_of(told, "missed") == "run its task once, in an extra slot: `oncue trigger nightly`"
    none = about_slot(before(hours=3), a_revision(missed="none"), rows=[row])
    assert 'missed="none"' in text_of(none, "missed")


def test_an_instant_within_a_run_need_not_be_a_slot() -> None:
    row = a_row(before(hours=5), "missed", reason="misfire", until=before(hours=2), slots=4)
    assert about_slot(before(hours=2, minutes=30), rows=[row]).codes == ["never_a_slot"]


def test_overtaken_by_an_edit() -> None:
    row = a_row(before(hours=1), "missed", reason=EDITED)
    told = about_slot(before(hours=1), a_revision(), a_revision(2, NOW, changed_by="bob"), rows=[row])
    assert "the schedule was changed by bob at 2030-01-01T12:00:00Z" in text_of(told, "missed")


def test_coalesced() -> None:
    row = a_row(before(hours=1), "coalesced", reason=f"into {NOW.isoformat()}")
    told = about_slot(before(hours=1), rows=[row])
    assert "was coalesced into 2030-01-01T12:00:00Z" in text_of(told, "coalesced")
    assert suggestion_of(told, "coalesced") == "`oncue explain nightly --at 2030-01-01T12:00:00Z`"


def test_skipped_for_a_job_that_was_in_the_way() -> None:
    row = a_row(verdict="skipped", reason="max_instances", blocked_by=7)
    told = about_slot(NOW, rows=[row], in_the_way=a_job(id=7, state="running"))
    assert "max_instances (1)" in text_of(told, "skipped")
    assert "job 7 among them, which is running now" in text_of(told, "skipped")
    assert suggestion_of(told, "skipped") == "`oncue explain 7`"


def test_an_instant_that_never_was_a_slot() -> None:
    told = about_slot(before(minutes=30))
    assert told.codes == ["never_a_slot"]
    assert "near are 2030-01-01T11:00:00Z and 2030-01-01T12:00:00Z" in text_of(told, "never_a_slot")


def test_before_the_schedule_was_made() -> None:
    told = about_slot(before(days=2))
    assert told.codes == ["before_first_revision"]
    assert "made by ada" in text_of(told, "before_first_revision")
    remedy = "`oncue backfill nightly --from 2029-12-30T12:00:00Z --to 2029-12-30T12:00:00Z`"
    assert suggestion_of(told, "before_first_revision") == f"run it all the same: {remedy}"
    assert about_slot(before(days=1)).codes == ["before_first_revision"], "a slot at the very start is not its own"


def test_an_instant_before_the_schedule_was_made_that_is_no_slot_by_any_of_its_rules() -> None:
    at = before(days=2, minutes=30)
    told = about_slot(at)
    assert (told.codes, told.status) == (["never_a_slot", "before_first_revision"], "never_a_slot")
    near = "It is no slot; near are 2029-12-30T11:00:00Z and 2029-12-30T12:00:00Z (`0 * * * *` in UTC)."
    assert text_of(told, "never_a_slot") == near
    assert suggestion_of(told, "before_first_revision") is None, "a backfill would not make it one"
    earlier = about_slot(at, a_revision(expression="30 * * * *"), a_revision(2, before(hours=1)))
    assert earlier.codes == ["before_first_revision"]
    assert suggestion_of(earlier, "before_first_revision") is None, "a backfill goes by the rule of today"
    assert about_slot(at, a_revision(tz="Mars/Phobos")).codes == ["before_first_revision"], "nobody can tell"


def test_nothing_is_made_up_for_where_the_schedule_is_deleted() -> None:
    told = about_slot(before(days=2), schedule=a_schedule(deleted_at=NOW))
    assert suggestion_of(told, "before_first_revision") is None


def test_while_it_was_disabled() -> None:
    revisions = (a_revision(), a_revision(2, before(hours=4), enabled=False, reason=BY_HAND, changed_by="bob"),
                 a_revision(3, before(hours=2)))  # fmt: skip
    told = about_slot(before(hours=3), *revisions)
    assert told.codes == ["disabled"]
    assert text_of(told, "disabled").startswith(
        "The schedule was disabled, since 2030-01-01T08:00:00Z (4h ago), by bob"
    )
    assert suggestion_of(told, "disabled") is None
    assert about_slot(before(hours=4), *revisions).codes == ["unaccounted"], "the last slot before belongs to the first"
    still = about_slot(after(hours=1), *revisions[:2])
    assert suggestion_of(still, "disabled") == "`oncue schedules enable nightly`"


def test_past_the_horizon() -> None:
    told = about_slot(before(hours=3), schedule=a_schedule(horizon=before(hours=2)))
    assert told.codes == ["past_horizon"]


def test_not_due_yet_and_not_decided_yet() -> None:
    assert about_slot(after(hours=1)).codes == ["not_due_yet"]
    pending = about_slot(NOW, schedule=a_schedule(cursor=before(hours=1)), cluster=DESERTED)
    assert (pending.codes, pending.status) == (["pending", "no_leader"], "pending")


def test_a_row_that_somebody_took_away() -> None:
    told = about_slot(before(hours=1))
    assert told.codes == ["unaccounted"]
    assert (suggestion_of(told, "unaccounted") or "").startswith("`oncue audit nightly --from 2030-01-01T11:00:00Z")


def test_names_are_quoted_for_the_shell() -> None:
    strange = a_schedule(name="my job; rm -rf")
    told = about_slot(before(hours=1), schedule=strange, rows=[a_row(before(hours=1), "missed", reason="misfire")])
    assert "`oncue trigger 'my job; rm -rf'`" in (suggestion_of(told, "missed") or "")
