"""Every outcome under every delivery, and what is final."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.errors import Conflict
from oncue.model import (
    PARKED,
    STATES,
    TERMINAL,
    WAITING,
    Cancelled,
    Change,
    Claim,
    Delivery,
    Failed,
    Job,
    Lost,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    State,
    Succeeded,
    TimedOut,
)
from oncue.policy import lifecycle
from oncue.policy.options import Options
from oncue.policy.retry import Ladder

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
ENDED = NOW + timedelta(seconds=10)


def a_claim(delivery: Delivery = "at_least_once", **fields: object) -> Claim:
    claim = Claim(
        id=1,
        task="send",
        queue="default",
        priority=0,
        args="{}",
        options=Options(delivery=delivery, retry=Ladder("30s", "2m", "10m")).stored(),
        created_at=NOW,
        visible_at=NOW,
        deadline_at=None,
        claimed_at=NOW,
        started_at=None,
        claim_no=4,
        attempt=2,
        retry_count=1,
        max_retries=3,
        crashes=0,
        cancel_requested=False,
    )
    return claim._replace(**fields)  # type: ignore[arg-type]


def settled(
    outcome: Outcome, *, started: bool = True, delivery: Delivery = "at_least_once", **fields: object
) -> Change:
    claim = a_claim(delivery, **fields)
    return lifecycle.settle(lifecycle.Ended(claim, outcome, NOW if started else None, ENDED), Random(1))


def a_job(state: State, **fields: object) -> Job:
    finished = ENDED if state in TERMINAL else None
    values: dict[str, object] = {
        **dict.fromkeys(Job.__slots__),
        "id": 1,
        "options": "{}",
        "state": state,
        "claim_no": 4,
        "attempt": 2,
        "retry_count": 2,
        "crashes": 1,
        "visible_at": NOW,
        "started_at": NOW,
        "finished_at": finished,
        "error": "it broke",
    }
    return Job(**{**values, **fields})  # type: ignore[arg-type]


# outcome, state and reason at_least_once, state and reason at_most_once
TABLE: list[tuple[Outcome, tuple[State, str | None], tuple[State, str | None]]] = [
    (Succeeded("1"), ("succeeded", None), ("succeeded", None)),
    (Succeeded(None, "result too large"), ("succeeded", "result too large"), ("succeeded", "result too large")),
    (Failed("it broke"), ("retrying", None), ("retrying", None)),
    (Failed("it broke", final=True), ("failed", None), ("failed", None)),
    (TimedOut("over its maximum runtime"), ("retrying", None), ("skipped", "skipped_timeout")),
    (Lost(), ("queued", None), ("skipped", "skipped_timeout")),
    (Lost("worker_startup_recovery"), ("queued", None), ("failed", "worker_startup_recovery")),
    (Released(), ("queued", None), ("skipped", "interrupted")),
    (Snoozed(30.0), ("scheduled", None), ("scheduled", None)),
    (Skipped("nothing to do"), ("skipped", "nothing to do"), ("skipped", "nothing to do")),
    (Cancelled(), ("cancelled", "cancelled"), ("cancelled", "cancelled")),
]


@pytest.mark.contract("QUE-8", "QUE-9")
@pytest.mark.parametrize(("outcome", "at_least_once", "at_most_once"), TABLE)
def test_every_outcome_leads_to_one_state(
    outcome: Outcome, at_least_once: tuple[State, str | None], at_most_once: tuple[State, str | None]
) -> None:
    repeatable, single = settled(outcome), settled(outcome, delivery="at_most_once")
    assert (repeatable.state, repeatable.reason) == at_least_once
    assert (single.state, single.reason) == at_most_once


def test_the_table_has_every_outcome() -> None:
    assert {type(outcome) for outcome, _, _ in TABLE} == set(lifecycle._SETTLERS)


@pytest.mark.parametrize("outcome", [outcome for outcome, _, _ in TABLE])
@pytest.mark.parametrize("started", [True, False])
def test_every_change_is_guarded_by_the_claim_it_came_from(outcome: Outcome, started: bool) -> None:
    change = settled(outcome, started=started)
    assert (change.id, change.from_state, change.claim_no) == (1, "running", 4)
    assert change.ended_at == ENDED
    assert change.started_at == (NOW if started else None)
    assert change.attempt == 2 + started
    assert (change.outcome is not None) == started


@pytest.mark.contract("QUE-4", "QUE-8")
def test_a_failure_uses_up_a_retry_and_waits_for_its_step() -> None:
    change = settled(Failed("it broke"))
    assert (change.state, change.retry_count, change.outcome, change.error) == ("retrying", 2, "failed", "it broke")
    assert change.visible_at == ENDED + timedelta(minutes=2)


def test_a_failure_may_choose_its_own_delay() -> None:
    assert settled(Failed("it broke", delay=7.0)).visible_at == ENDED + timedelta(seconds=7)


@pytest.mark.contract("QUE-4", "QUE-8")
def test_four_attempts_in_all_then_it_has_failed() -> None:
    states = [settled(Failed("it broke"), retry_count=used).state for used in range(5)]
    assert states == ["retrying", "retrying", "retrying", "failed", "failed"]


@pytest.mark.contract("QUE-9")
def test_an_overlong_attempt_uses_up_a_retry() -> None:
    assert settled(TimedOut("too long"), retry_count=3).state == "failed"
    assert settled(TimedOut("too long"), retry_count=2).retry_count == 3


@pytest.mark.parametrize("outcome", [Lost(), Released(), Snoozed(30.0)])
def test_what_is_nobody_s_fault_costs_no_retry(outcome: Outcome) -> None:
    assert settled(outcome, retry_count=3).retry_count == 3
    assert settled(outcome, retry_count=3).state not in TERMINAL


def test_a_snoozed_job_comes_back_after_its_delay_and_others_at_once() -> None:
    assert settled(Snoozed(30.0)).visible_at == ENDED + timedelta(seconds=30)
    assert settled(Released()).visible_at == settled(Lost()).visible_at == ENDED


def test_a_postponed_job_comes_back_without_an_attempt() -> None:
    change = settled(Snoozed(30.0, begun=False))
    assert (change.state, change.outcome, change.attempt, change.started_at) == ("scheduled", None, 2, None)
    assert change.visible_at == ENDED + timedelta(seconds=30)


def test_an_at_most_once_job_that_never_started_is_simply_given_back() -> None:
    change = settled(Released(), started=False, delivery="at_most_once")
    assert (change.state, change.outcome) == ("queued", None)


@pytest.mark.contract("QUE-9")
def test_a_lost_attempt_is_recorded_with_its_cause() -> None:
    assert settled(Lost()).outcome == "node_lost"
    assert settled(Lost("worker_startup_recovery")).outcome == "worker_startup_recovery"


def test_after_five_crashes_a_job_is_poison() -> None:
    *before, last = (settled(Lost(), crashes=crashes) for crashes in range(5))
    told = [(change.state, change.crashes, change.isolation) for change in before]
    assert told == [("queued", 1, 0), ("queued", 2, 1), ("queued", 3, 2), ("queued", 4, 2)]
    assert (last.state, last.reason, last.crashes) == ("failed", "poison", 5)
    assert last.error == "its process died under it 5 times, the last 2 while it ran alone"


def test_what_had_not_begun_is_neither_charged_nor_counted() -> None:
    change = settled(Lost(), crashes=3, started=False)
    assert (change.state, change.crashes, change.isolation, change.attempt, change.outcome) == ("queued", 3, 2, 2, None)


def test_only_a_crash_raises_suspicion() -> None:
    assert all(settled(outcome, crashes=1).crashes <= 1 for outcome, _, _ in TABLE if not isinstance(outcome, Lost))


def test_a_job_that_is_given_back_or_handled_is_kept_apart_as_before() -> None:
    assert [settled(Released(), crashes=crashes).isolation for crashes in range(5)] == [0, 0, 1, 2, 2]
    taken_away = lifecycle.by_hand(a_job("running", crashes=4, claimed_at=NOW), "queued", ENDED)
    started_over = lifecycle.revive(a_job("failed", crashes=5), ENDED)
    assert taken_away is not None
    assert started_over is not None
    assert (taken_away.crashes, taken_away.isolation) == (4, 2)
    assert (started_over.crashes, started_over.isolation) == (0, 0)


@pytest.mark.parametrize("outcome", [Failed("it broke"), TimedOut("too long"), Snoozed(30.0)])
def test_a_job_whose_process_survived_it_is_under_suspicion_no_more(outcome: Outcome) -> None:
    assert settled(outcome, crashes=2).crashes == 0


@pytest.mark.parametrize("outcome", [Failed("it broke"), TimedOut("too long"), Lost()])
def test_a_cancelled_job_is_not_tried_again(outcome: Outcome) -> None:
    change = settled(outcome, cancel_requested=True)
    assert (change.state, change.reason) == ("cancelled", "cancelled")


def test_a_job_that_succeeded_despite_a_request_to_cancel_has_succeeded() -> None:
    assert settled(Succeeded(), cancel_requested=True).state == "succeeded"


def test_a_claim_that_must_not_start() -> None:
    assert lifecycle.refusal(a_claim(), NOW) is None
    assert lifecycle.refusal(a_claim(cancel_requested=True), NOW) == Cancelled()
    assert lifecycle.refusal(a_claim(deadline_at=NOW), NOW) == Skipped("deadline")
    assert lifecycle.refusal(a_claim(deadline_at=ENDED), NOW) is None


@pytest.mark.contract("SLOT-10")
def test_what_waits_is_ended_as_a_claim_of_it_would_be_refused() -> None:
    offsets = (None, -1, 0, 1)
    ended = 0
    for state, attempt, deadline, grace in product(sorted(WAITING), (0, 1), offsets, offsets):
        times = {
            name: None if offset is None else NOW + timedelta(microseconds=offset)
            for name, offset in (("deadline_at", deadline), ("start_by", grace))
        }
        refused = lifecycle.refusal(a_claim(attempt=attempt, **times), NOW)
        change = lifecycle.expire(a_job(state, attempt=attempt, **times), NOW)
        assert (None if change is None else Skipped(change.reason or "")) == refused
        if change is not None:
            ended += 1
            assert (change.from_state, change.claim_no, change.state, change.outcome) == (state, 4, "skipped", None)
            assert (change.attempt, change.started_at, change.ended_at) == (attempt, None, NOW)
        assert lifecycle.expire(a_job(state, attempt=attempt, visible_at=PARKED, **times), NOW) is None
    assert ended == 3 * (8 + 2 + 8)


def test_only_what_waits_expires_and_what_was_to_be_cancelled_is() -> None:
    late = NOW - timedelta(hours=1)
    for state in STATES:
        assert (lifecycle.expire(a_job(state, deadline_at=late), NOW) is not None) == (state in WAITING)
    change = lifecycle.expire(a_job("queued", cancel_requested_at=NOW, deadline_at=late), NOW)
    assert change is not None
    assert (change.state, change.reason, change.error) == ("cancelled", "cancelled", "it broke")


def test_a_lost_attempt_began_when_it_was_seen_to_or_when_it_was_claimed() -> None:
    assert lifecycle.lost(a_claim(), ENDED) == lifecycle.Ended(a_claim(), Lost("node_lost"), NOW, ENDED)
    assert lifecycle.lost(a_claim(crashes=1), ENDED).started_at is None, "from then on it is on record if it began"
    seen = a_claim(started_at=NOW + timedelta(seconds=3))
    assert lifecycle.lost(seen, ENDED).started_at == lifecycle.overran(seen, ENDED).started_at == seen.started_at
    assert lifecycle.overran(seen, ENDED).outcome == TimedOut("over its maximum runtime")


def test_a_new_job_is_queued_if_it_is_due_and_scheduled_if_not() -> None:
    assert lifecycle.entry_state(NOW, NOW) == "queued"
    assert lifecycle.entry_state(ENDED, NOW) == "scheduled"


@pytest.mark.parametrize("state", STATES)
def test_only_a_waiting_job_can_be_cancelled_outright(state: State) -> None:
    change = lifecycle.cancel(a_job(state), ENDED)
    if state not in WAITING:
        assert change is None
    else:
        assert change is not None
        assert (change.from_state, change.claim_no, change.state) == (state, 4, "cancelled")
        assert (change.ended_at, change.started_at, change.outcome) == (ENDED, None, None)


@pytest.mark.contract("QUE-14")
@pytest.mark.parametrize("state", STATES)
def test_only_a_finished_job_can_be_revived(state: State) -> None:
    change = lifecycle.revive(a_job(state), ENDED)
    if state not in TERMINAL:
        assert change is None
    else:
        assert change is not None
        assert (change.from_state, change.claim_no, change.state) == (state, 4, "queued")
        assert (change.retry_count, change.crashes, change.attempt, change.visible_at) == (0, 0, 2, ENDED)
        assert change.outcome == state


def test_a_job_that_never_started_leaves_no_attempt_when_revived() -> None:
    change = lifecycle.revive(a_job("cancelled", started_at=None), ENDED)
    assert change is not None
    assert change.outcome is None


WAITS, RUNS, ENDED_STATES = sorted(WAITING), ["running"], sorted(TERMINAL)
BY_HAND: dict[tuple[str, str], str] = {
    **{(state, wanted): "changed" for state in WAITS for wanted in ("succeeded", "failed")},
    **{(state, "queued"): "unchanged" for state in WAITS},
    **{("running", wanted): "changed" for wanted in ("queued", "succeeded", "failed")},
    **{(state, "queued"): "changed" for state in ENDED_STATES},
    **{(state, state): "unchanged" for state in (*WAITS, *ENDED_STATES)},
}
"""From which state to which; what is not here is a conflict."""


def handled(job: Job, wanted: State) -> tuple[str, Change | None]:
    try:
        change = lifecycle.by_hand(job, wanted, ENDED)
    except Conflict:
        return "conflict", None
    return ("unchanged" if change is None else "changed"), change


@pytest.mark.contract("QUE-12")
@pytest.mark.parametrize("wanted", STATES)
@pytest.mark.parametrize("state", STATES)
def test_every_status_by_hand(state: State, wanted: State) -> None:
    outcome, _ = handled(a_job(state), wanted)
    assert outcome == BY_HAND.get((state, wanted), "conflict")


@pytest.mark.contract("QUE-12")
def test_whoever_wants_what_cannot_be_is_told_what_can() -> None:
    for state, wanted, words in (
        ("queued", "running", "a status by hand is never running; only a worker that claims a job makes it so"),
        ("running", "running", "a status by hand is never running"),
        ("queued", "skipped", "by hand it becomes queued, succeeded or failed, not skipped"),
        ("running", "cancelled", "cancel it instead"),
        ("succeeded", "failed", "that is final; it can only be queued again"),
    ):
        with pytest.raises(Conflict, match=f"job 1 is {state}: .*{words}"):
            lifecycle.by_hand(a_job(state), wanted, ENDED)  # type: ignore[arg-type]


@pytest.mark.contract("QUE-12")
def test_what_was_asked_to_stop_or_may_run_once_is_not_queued_again_while_it_runs() -> None:
    asked = a_job("running", cancel_requested_at=NOW)
    once = a_job("running", schedule_id=7, options=Options(delivery="at_most_once").stored())
    for job in (asked, once):
        with pytest.raises(Conflict, match="set it to failed, then retry it"):
            lifecycle.by_hand(job, "queued", ENDED)
        assert lifecycle.by_hand(job, "failed", ENDED) is not None
    repeatable = a_job("running", schedule_id=7, options=Options().stored())
    assert lifecycle.by_hand(repeatable, "queued", ENDED) is not None


@pytest.mark.contract("QUE-12")
@given(
    state=st.sampled_from(STATES),
    wanted=st.sampled_from(STATES),
    outcome=st.sampled_from([outcome for outcome, _, _ in TABLE]),
    started_at=st.sampled_from([None, NOW]),
    numbers=st.tuples(*[st.integers(0, 9)] * 4),
    cancel_requested_at=st.sampled_from([None, NOW]),
)
def test_a_change_by_hand_fences_whatever_is_under_way(
    state: State,
    wanted: State,
    outcome: Outcome,
    started_at: datetime | None,
    numbers: tuple[int, ...],
    cancel_requested_at: datetime | None,
) -> None:
    claim_no, attempt, retry_count, crashes = numbers
    job = a_job(
        state, claim_no=claim_no, attempt=attempt, retry_count=retry_count, crashes=crashes, claimed_at=NOW,
        started_at=started_at, cancel_requested_at=cancel_requested_at,
    )  # fmt: skip
    _, change = handled(job, wanted)
    if change is None:
        return
    assert (change.id, change.from_state, change.claim_no) == (job.id, state, claim_no)
    assert change.state == wanted in ("queued", "succeeded", "failed")
    assert change.reason == (None if wanted == "queued" else "by_hand")
    assert (change.ended_at is not None) or state in TERMINAL
    if state == "running":
        late = lifecycle.settle(lifecycle.Ended(a_claim(claim_no=claim_no), outcome, NOW, ENDED), Random(1))
        assert (late.from_state, late.claim_no) != (change.state, change.claim_no), "its guard holds no more"
        assert (change.attempt, change.started_at, change.retry_count) == (attempt + 1, NOW, retry_count)
        assert change.outcome == ("by_hand" if wanted == "queued" else wanted)
        assert change.crashes == crashes
    elif state in WAITING:
        assert (change.attempt, change.started_at, change.outcome) == (attempt, None, None)
    else:
        assert change == lifecycle.revive(job, ENDED)


@given(
    outcome=st.sampled_from([outcome for outcome, _, _ in TABLE]),
    delivery=st.sampled_from(["at_least_once", "at_most_once"]),
    started=st.booleans(),
    retry_count=st.integers(0, 9),
    crashes=st.integers(0, 9),
    cancel_requested=st.booleans(),
)
def test_a_settled_claim_never_runs_on(
    outcome: Outcome, delivery: Delivery, started: bool, retry_count: int, crashes: int, cancel_requested: bool
) -> None:
    change = settled(
        outcome,
        started=started,
        delivery=delivery,
        retry_count=retry_count,
        crashes=crashes,
        cancel_requested=cancel_requested,
    )
    assert change.state != "running"
    assert change.retry_count in (retry_count, retry_count + 1)
    assert change.state in TERMINAL or change.visible_at >= ENDED
    assert change.result is None or change.state == "succeeded"
