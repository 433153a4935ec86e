"""What can go wrong in a clean history, one thing at a time, and which promise it breaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from oncue.sim.history import moment
from tests.sim.story import A_MOMENT, SECOND, Story, later

Spoil = Callable[[Story], object]


class Case(NamedTuple):
    promise: str
    says: str
    spoil: Spoil


CASES: list[Case] = []


def breaks(promise: str, says: str) -> Callable[[Spoil], Spoil]:
    def declare(spoil: Spoil) -> Spoil:
        CASES.append(Case(promise, says, spoil))
        return spoil

    return declare


# --- jobs -----------------------------------------------------------------------------------------------------------


@breaks("nothing acknowledged is lost", "job 1 was acknowledged and is not there")
def lost(story: Story) -> None:
    del story.rows[1]
    story.find("prune").fields["jobs"] = 0


@breaks("nothing acknowledged is lost", "job 9 was acknowledged and is not there")
def pruned_before_its_end(story: Story) -> None:
    del story.rows[9]
    story.drop(story.find("change", id=9))


@breaks("nothing acknowledged is lost", "job 1 was refused and is there")
def refused_and_there(story: Story) -> None:
    answer = story.find("enqueue.ok", ids=[1, 2])
    story.change_event(answer, kind="enqueue.fail")


@breaks("nothing acknowledged is lost", "job 1 was acknowledged as 2")
def answered_for_another(story: Story) -> None:
    story.find("enqueue.ok", ids=[1, 2]).fields["standing"][0] = 2


@breaks("nothing acknowledged is lost", "job 8 was acknowledged and is not there")
def pruned_too_early(story: Story) -> None:
    story.find("prune").fields["before"] = story.find("change", id=8).fields["ended_at"]


@breaks("a key has one unfinished job", "share the key 'k'")
def two_of_a_key_in_the_end(story: Story) -> None:
    for job_id in (3, 6):
        story.rows[job_id]["state"] = "queued"


@breaks("a key has one unfinished job", "job 6 took the key 'k' of an unfinished job")
def two_of_a_key_for_a_while(story: Story) -> None:
    story.move(story.find("job", id=6), after=story.find("claim", id=3, claim_no=2))


@breaks("a key has one unfinished job", "job 3 took the key 'k' of an unfinished job")
def a_retry_that_takes_a_key(story: Story) -> None:
    story.move(story.find("job", id=6), after=story.find("change", id=3, state="cancelled"))


@breaks("a duplicate stands for an unfinished job", "job 64 was left out for job 3, which had ended")
def left_out_for_the_dead(story: Story) -> None:
    story.duplicate(64, standing=3)


@breaks("a job ends once, and stays as it ended", "job 1 was written after its end")
def ended_twice(story: Story) -> None:
    story.rows[1] |= {"state": "running"}
    story.change("a", 1, "failed")


@breaks("a row is what was written last", "the row of job 1 differs in retry_count")
def another_row(story: Story) -> None:
    story.rows[1]["retry_count"] = 2


@breaks("a row is what was written last", "the row of job 1 differs in finished_at")
def another_end(story: Story) -> None:
    story.rows[1]["ended_at"] += 1


@breaks("a row is what was written last", "the row of job 6 differs in error")
def another_error(story: Story) -> None:
    story.find("change", id=6).fields["error"] = "no connection"


@breaks("a row is what was written last", "the row of job 1 differs in started_at")
def another_start(story: Story) -> None:
    story.rows[1]["started_at"] += 1


@breaks("a row is what was asked for", "job 1 was asked for with other args")
def anothers_arguments(story: Story) -> None:
    story.rows[1]["args"] = {"order": 7}


@breaks("a row is what was asked for", "job 10 was asked for with other deadline_at")
def a_deadline_that_moves(story: Story) -> None:
    story.rows[10]["deadline_at"] += SECOND


@breaks("every attempt is on record", "the attempt of job 2 under claim 1 is not on record")
def an_attempt_nobody_knows_of(story: Story) -> None:
    story.attempts[2] = []
    story.find("prune").fields["before"] = later(0)


@breaks("every attempt is on record", "an attempt of job 1 under claim 1 is on record")
def an_attempt_too_many(story: Story) -> None:
    story.attempts[1] = [1]


@breaks("a row is what was written last", "job 9 is succeeded and nobody wrote that")
def an_end_from_nowhere(story: Story) -> None:
    story.drop(story.find("change", id=9))


@breaks("only the current claim writes", "a stale write to job 4 was accepted")
def a_late_write(story: Story) -> None:
    story.find("change", id=4, accepted=False).fields["accepted"] = True


@breaks("only the current claim writes", "a stale write to job 4 was accepted")
def a_write_under_an_old_claim(story: Story) -> None:
    story.find("change", id=4, state="succeeded").fields["claim_no"] = 1


@breaks("only the current claim writes", "claim 1 of job 1 was settled twice")
def settled_twice(story: Story) -> None:
    change = story.find("change", id=1)
    story.put(change, "a", "change", **change.fields)


@breaks("only the current claim writes", "job 1 was written under claim 1, which nobody has")
def written_without_a_claim(story: Story) -> None:
    story.drop(story.find("claim", id=1), story.find("start", id=1))


@breaks("only stale writes are rejected", "a current write to job 1 was rejected")
def a_good_write_that_is_rejected(story: Story) -> None:
    change = story.find("change", id=1)
    story.put(story.find("outcome", id=1), "a", "change", **{**change.fields, "accepted": False})


@breaks("claim_no grows with every claim", "job 4 was claimed twice under one number")
def claimed_twice(story: Story) -> None:
    story.find("claim", id=4, claim_no=2).fields["claim_no"] = 1


@breaks("claim_no grows with every claim", "claim_no of job 4 went back")
def a_number_that_goes_back(story: Story) -> None:
    story.find("claim", id=4).fields["claim_no"] = 3


@breaks("claim_no grows with every claim", "the row of job 4 forgot a claim")
def a_forgotten_claim(story: Story) -> None:
    story.rows[4]["claim_no"] = 1


@breaks("a job is claimed only when it waits", "job 4 was claimed while it was running")
def claimed_while_it_runs(story: Story) -> None:
    story.drop(story.find("change", id=4, accepted=True))


@breaks("a job is claimed only when it waits", "job 2 was claimed before its time")
def claimed_early(story: Story) -> None:
    story.find("change", id=2, state="retrying").fields["visible_at"] += 5 * SECOND


@breaks("an at-most-once attempt is not repeated", "job 4 is attempted again")
def tried_again_after_a_crash(story: Story) -> None:
    story.find("job", id=4).fields["options"] = '{"delivery":"at_most_once"}'


@breaks("an at-most-once attempt is not repeated", "job 2 is attempted again")
def tried_again_after_a_time_out(story: Story) -> None:
    story.find("job", id=2).fields["options"] = '{"delivery":"at_most_once"}'
    story.find("outcome", id=2).fields["outcome"] = "TimedOut"


@breaks("what is cut short ends as its delivery says", "job 4 (node_lost) is skipped, reason skipped_timeout")
def dropped_after_a_crash(story: Story) -> None:
    story.find("change", id=4).fields.update(state="skipped", reason="skipped_timeout", outcome="skipped")


@breaks("what is cut short ends as its delivery says", "job 7 (TimedOut) is skipped, reason misfire")
def ended_for_another_reason(story: Story) -> None:
    story.find("change", id=7).fields["reason"] = "misfire"


@breaks("what is cut short ends as its delivery says", "job 9 (Released) is skipped, reason interrupted")
def dropped_at_a_shutdown(story: Story) -> None:
    story.find("outcome", id=9).fields["outcome"] = "Released"
    story.find("change", id=9).fields.update(state="skipped", reason="interrupted", outcome="skipped")


@breaks("what is cut short ends as its delivery says", "job 9 (TimedOut) is skipped, reason skipped_timeout")
def dropped_for_being_overlong(story: Story) -> None:
    overrun = {"reason": "skipped_timeout", "outcome": "skipped", "error": "over its maximum runtime"}
    story.find("change", id=9).fields.update(state="skipped", **overrun)


@breaks("attempts are counted as they begin", "job 2 went from 1 to 3 attempts")
def counted_twice(story: Story) -> None:
    story.find("change", id=2, claim_no=2).fields["attempt"] = 3


@breaks("attempts are counted as they begin", "an attempt of job 2 was not counted")
def not_counted(story: Story) -> None:
    story.find("change", id=2, claim_no=1).fields.update(outcome=None, attempt=0)


# --- attempts -------------------------------------------------------------------------------------------------------


@breaks("nothing starts after the end", "job 1 was claimed after its end")
def claimed_after_its_end(story: Story) -> None:
    story.rows[1]["state"] = "queued"
    story.claim("a", 1)


@breaks("nothing starts after the end", "job 1 was started after its end")
def started_after_its_end(story: Story) -> None:
    story.start("a", 1)


@breaks("attempts of one job never overlap under valid leases", "two attempts of job 4 ran at once")
def at_once(story: Story) -> None:
    """The node that was taken for dead is alive, its lease too."""
    story.drop(story.find("crash"), story.find("lease.end"))
    story.events[:] = [e for e in story.events if e.node != "b" or e.kind != "lease"]
    story.put(story.find("boot"), "b", "lease", until=later(1000))


@breaks("a claim is good for one attempt", "claim 1 of job 1 was started 2 times")
def started_twice(story: Story) -> None:
    start = story.find("start", id=1)
    story.put(start, "a", "start", **start.fields)


@breaks("what an attempt came to is what is written", "an attempt of job 1 came to Succeeded, not to queued")
def a_success_that_is_forgotten(story: Story) -> None:
    story.find("change", id=1).fields["state"] = "queued"


@breaks("what an attempt came to is what is written", "an attempt of job 1 came to Succeeded, not to queued")
def a_rescue_of_ones_own(story: Story) -> None:
    """A node that is alive has no right to believe that it is lost."""
    story.find("change", id=1).fields.update(state="queued", outcome="node_lost", error="node_lost")


@breaks("nothing is cut off before its time", "job 1 was cut off after 0.06 s of 60")
def cut_off_early(story: Story) -> None:
    story.find("job", id=1).fields["options"] = '{"max_runtime":60}'
    story.find("change", id=1).fields["error"] = "over its maximum runtime"


@breaks("nothing is cut off before its time", "job 1 may take for ever, and was cut off")
def cut_off_without_a_limit(story: Story) -> None:
    story.find("job", id=1).fields["options"] = '{"max_runtime":null}'
    story.find("change", id=1).fields["error"] = "over its maximum runtime"


@breaks("retries keep to their policy", "job 2 was retried outside of its budget of 0")
def beyond_the_budget(story: Story) -> None:
    story.find("job", id=2).fields["max_retries"] = 0


@breaks("retries keep to their policy", "job 2 is retried after 0.06 s, not 48 to 72 s")
def in_the_wrong_unit(story: Story) -> None:
    told = story.find("change", id=2, state="retrying").fields
    told["visible_at"] = told["ended_at"] + 60_000


@breaks("retries keep to their policy", "job 4 was charged a retry without one")
def a_rescue_that_costs_a_retry(story: Story) -> None:
    story.find("change", id=4).fields["retry_count"] = 1


@breaks("retries keep to their policy", "job 6 failed with retries left")
def given_up_early(story: Story) -> None:
    story.find("change", id=6).fields["reason"] = None


@breaks("retries keep to their policy", "job 1 snoozes for another time than it asked for")
def woken_early(story: Story) -> None:
    change = story.find("change", id=1)
    story.find("outcome", id=1).fields.update(outcome="Snoozed", delay=5.0)
    change.fields.update(state="scheduled", outcome="snoozed", visible_at=change.fields["ended_at"] + SECOND)


@breaks("retries keep to their policy", "job 6 failed with retries left")
def given_up_at_the_first_time_out(story: Story) -> None:
    story.find("outcome", id=6).fields["outcome"] = "TimedOut"
    story.find("change", id=6).fields["reason"] = None


@breaks("retries keep to their policy", "job 3 was started over without its whole budget")
def started_over_with_half_a_budget(story: Story) -> None:
    story.find("change", id=3, state="queued").fields["retry_count"] = 2


@breaks("cohorts are small", "a ran a cohort of 9")
def a_large_cohort(story: Story) -> None:
    story.suspects("a", 2, *range(70, 79))


@breaks("alone means alone", "a ran something beside a job that has to be alone")
def company_for_one_alone(story: Story) -> None:
    story.suspects("a", 3, 70)
    story.suspects("a", 0, 71)


@breaks("alone means alone", "a ran something beside a job that has to be alone")
def one_that_has_to_be_alone_in_company(story: Story) -> None:
    story.suspects("a", 0, 70)
    story.suspects("a", 4, 71)


@breaks("what may have killed its process begins on record", "job 4 began, and that was not on record")
def begun_off_the_record(story: Story) -> None:
    story.drop(story.find("begin", id=4))


@breaks("poison takes two deaths alone", "job 4 started after 5 crashes")
def poison_that_starts(story: Story) -> None:
    story.find("start", id=4, claim_no=2).fields["crashes"] = 5


@breaks("poison takes two deaths alone", "job 4 goes on after 5 crashes")
def poison_that_goes_on(story: Story) -> None:
    story.find("claim", id=4).fields["crashes"] = 4
    story.find("change", id=4).fields["crashes"] = 5


@breaks("poison takes two deaths alone", "job 1 was called poison too early")
def poison_too_early(story: Story) -> None:
    story.find("change", id=1).fields["reason"] = "poison"


@breaks("poison takes two deaths alone", "job 1 is poison after 0 deaths alone")
def poison_in_company(story: Story) -> None:
    story.find("change", id=1).fields.update(reason="poison", crashes=5)


@breaks("a death is charged to those that had begun", "job 4 had not begun, and was charged with a death")
def charged_though_it_had_not_begun(story: Story) -> None:
    story.find("claim", id=4).fields["crashes"] = 1
    story.find("change", id=4).fields["crashes"] = 2


@breaks("a death is charged to those that had begun", "job 4 had begun, and was not charged with a death")
def a_crash_that_is_not_counted(story: Story) -> None:
    story.find("change", id=4).fields["crashes"] = 0


@breaks("a death is charged to those that had begun", "job 4 is never poison, and was charged with a death")
def charged_though_it_never_is(story: Story) -> None:
    story.find("job", id=4).fields["options"] = '{"max_crashes":null}'


@breaks("a rescue is prompt", "job 4 was rescued 1")
def a_slow_rescue(story: Story) -> None:
    last = [event for event in story.events if event.kind == "lease" and event.node == "b"][-1]
    last.fields["until"] -= 10 * SECOND


@breaks("only a lost node's jobs are rescued", "job 4 went from 0 to 2 crashes")
def two_crashes_at_once(story: Story) -> None:
    story.find("change", id=4).fields["crashes"] = 2


@breaks("only a lost node's jobs are rescued", "job 4 was taken from a node that is alive")
def rescued_from_the_living(story: Story) -> None:
    rescue = story.find("change", id=4)
    story.drop(story.find("lease.end"))
    last = [event for event in story.events if event.kind == "lease" and event.node == "b"][-1]
    last.fields["until"] = rescue.at + SECOND


# --- queues ---------------------------------------------------------------------------------------------------------


@breaks("the best job is claimed first", "job 1 was claimed before job 2")
def the_lesser_first(story: Story) -> None:
    story.find("job", id=2).fields["priority"] = 50


@breaks("the best job is claimed first", "job 1 was claimed before job 2")
def the_younger_first(story: Story) -> None:
    story.find("job", id=1).fields["order_at"] += SECOND


@breaks("the best job is claimed first", "job 1 was claimed before job 2")
def the_raised_one_later(story: Story) -> None:
    story.put(story.find("job", id=2), "operator", "priority", id=2, priority=10)


@breaks("a paused queue hands out nothing", "job 1 was claimed from a paused queue")
def claimed_from_a_paused_queue(story: Story) -> None:
    story.move(story.find("pause"), after=story.find("enqueue.ok", ids=[1, 2]))


@breaks("a limited queue keeps its limit", "4 attempts ran at once in the queue default, 3 may")
def one_too_many(story: Story) -> None:
    _crowd(story, 4)


@breaks("a limited queue keeps its limit", "3 attempts ran at once in the queue default, 2 may")
def one_too_many_for_a_lower_limit(story: Story) -> None:
    story.tell("world", "limit", queue="default", globally=2)
    story.wait(20)
    _crowd(story, 3)


@breaks("a limited queue keeps its limit", "6 attempts ran at once in the queue default, 5 may")
def one_too_many_for_a_higher_limit(story: Story) -> None:
    _crowd(story, 3)
    story.tell("world", "limit", queue="default", globally=5)
    _crowd(story, 3, first=200)


def _crowd(story: Story, count: int, first: int = 100) -> None:
    for job_id in range(first, first + count):
        story.enqueue(job_id)
        story.claim("a", job_id)
        story.start("a", job_id)


# --- groups and rates -----------------------------------------------------------------------------------------------


def _in_a_group(story: Story, *ids: int, group: str = "a") -> None:
    """Jobs of a group that are claimed as soon as they are there."""
    for job_id in ids:
        story.enqueue(job_id, group=group)
        story.rows[job_id]["group"] = group
        story.claim("a", job_id)


def _limits(story: Story, **limits: object) -> None:
    told = {"per_group": None, "rate": None, "rate_per_group": None, **limits}
    story.tell("operator", "limits", queue="default", **told)


def _settings(story: Story, **settings: object) -> None:
    told = {"limit": None, "rate": None, "paused_until": None, **settings}
    story.tell("operator", "group", queue="default", group="a", **told)


@breaks("a group keeps its limit", "2 jobs of the group a ran at once, 1 may")
def one_too_many_of_a_group(story: Story) -> None:
    _limits(story, per_group=1)
    _in_a_group(story, 200, group="b")
    _in_a_group(story, 201, 202)


@breaks("a group keeps its limit", "3 jobs of the group a ran at once, 2 may")
def one_too_many_for_its_own_limit(story: Story) -> None:
    _limits(story, per_group=1)
    _settings(story, limit=2)
    _in_a_group(story, 201, 202, 203)


@breaks("a paused group hands out nothing", "job 201 was claimed from the paused group a")
def claimed_from_a_paused_group(story: Story) -> None:
    _settings(story, paused_until=story.now + 2 * SECOND)
    _in_a_group(story, 200, group="b")
    _in_a_group(story, 201)


@breaks("a group keeps its rate", "job 202 of the group a was claimed faster than its rate")
def faster_than_its_rate(story: Story) -> None:
    _limits(story, rate_per_group=(10, 1))
    _in_a_group(story, 200, 201, 202)
    begun = story.find("claim", id=200).fields["claimed_at"]
    story.find("claim", id=201).fields["claimed_at"] = begun + SECOND // 10
    story.find("claim", id=202).fields["claimed_at"] = begun + SECOND // 7


@breaks("a queue keeps its rate", "job 201 of the queue default was claimed faster than its rate")
def faster_than_the_rate_of_the_queue(story: Story) -> None:
    _limits(story, rate=(1, 1))
    story.wait(5)
    _in_a_group(story, 200, 201)


@breaks("turns without a job are given back", "1 turns of the queue default were neither used nor given back")
def turns_kept(story: Story) -> None:
    story.wait(60)
    story.tell("a", "turns", queue="default", turns=2)
    _in_a_group(story, 200)
    story.tell("a", "turns", queue="default", turns=2)


@breaks("the groups of a queue take turns", "the group b had its turn, and a was claimed from 6 times")
def passed_over(story: Story) -> None:
    _limits(story)
    story.wait(60)
    story.enqueue(200, group="b")
    for job_id in range(201, 208):
        _in_a_group(story, job_id)


@breaks("of an idle group only its settings stay", "the group a is idle and not forgotten")
def not_forgotten(story: Story) -> None:
    story.groups = {("default", "a"): {"limit": None, "rate": None, "paused_until": None}}


@breaks("of an idle group only its settings stay", "the group a has other settings in the end: (None, None, None)")
def settings_lost(story: Story) -> None:
    _settings(story, limit=1)
    story.groups = {}


@breaks("of an idle group only its settings stay", "2 notes of what happened in groups were never read")
def not_read(story: Story) -> None:
    story.groups, story.wakeups = {}, 2


# --- cancels --------------------------------------------------------------------------------------------------------


@breaks("what is to be cancelled does not begin", "job 15 was started though it was to be cancelled")
def begun_though_cancelled(story: Story) -> None:
    story.put(story.find("claim", id=15, claim_no=2), "a", "start", id=15, claim_no=2, crashes=0)


@breaks("what is to be cancelled does not begin", "a claim of job 15 does not know of its cancel")
def a_forgotten_cancel(story: Story) -> None:
    story.find("claim", id=15, claim_no=2).fields["cancel_requested"] = False


@breaks("what is to be cancelled does not begin", "job 3 is to be cancelled, and nobody asked for that any more")
def an_old_cancel(story: Story) -> None:
    story.find("claim", id=3, claim_no=2).fields["cancel_requested"] = True


@breaks("what is to be cancelled does not begin", "job 14 was started by a node that had been told to stop it")
def begun_after_it_was_told(story: Story) -> None:
    story.move(story.find("stop", id=14), after=story.find("claim", id=14))


@breaks("a cancel is heard in time", "nobody told job 63 within 2 s that it was cancelled")
def an_unheard_cancel(story: Story) -> None:
    story.wait(60)
    story.enqueue(63)
    story.claim("a", 63)
    story.start("a", 63)
    story.cancel(63)
    story.wait(10)


# --- operations -----------------------------------------------------------------------------------------------------


@breaks("an answer tells the truth", "a call failed and had effects")
def failed_and_done(story: Story) -> None:
    op = story.find("claim", id=1).fields["op"]
    story.change_event(story.find("claim.ok", op=op), kind="claim.fail")


@breaks("an answer tells the truth", "a call had effects after its answer")
def answered_before_it_was_done(story: Story) -> None:
    change = story.find("change", id=1)
    story.move(change, after=story.find("apply.ok", op=change.fields["op"]))


@breaks("an answer tells the truth", "a call was answered and did nothing")
def answered_and_not_done(story: Story) -> None:
    story.drop(story.find("change", id=4, accepted=False))


@breaks("an answer tells the truth", "the jobs [9] were acknowledged before they were written")
def acknowledged_before_the_commit(story: Story) -> None:
    story.move(story.find("job", id=9), after=story.find("enqueue.ok", ids=[9]))


@breaks("nothing happens that nobody asked for", "no call 999 waits for this")
def done_without_being_asked(story: Story) -> None:
    story.find("change", id=1).fields["op"] = 999


@breaks("nothing happens that nobody asked for", "no call")
def answered_twice(story: Story) -> None:
    answer = story.find("apply.ok")
    story.put(answer, answer.node, "apply.unknown", **answer.fields)


@breaks("nothing happens that nobody asked for", "job 77 was not asked for")
def written_under_another_number(story: Story) -> None:
    story.find("job", id=9).fields["id"] = 77


@breaks("only the living act", "b acts after its death")
def a_ghost_that_starts(story: Story) -> None:
    story.put(story.find("lease.end"), "b", "start", id=4, claim_no=1, crashes=0)


@breaks("only the living act", "b acts after its death")
def a_ghost_that_calls(story: Story) -> None:
    story.put(story.find("lease.end"), "b", "claim.invoke", op=999)


@breaks("a claim whose reply was lost is not run", "job 5 was started without its claim")
def run_without_an_answer(story: Story) -> None:
    story.put(story.find("claim", id=5), "b", "start", id=5, claim_no=1, crashes=0)


@breaks("a claim whose reply was lost is not run", "job 1 was started by another node")
def run_by_another(story: Story) -> None:
    story.change_event(story.find("start", id=1), node="b")


# --- slots ----------------------------------------------------------------------------------------------------------


@breaks("a slot is decided once", "was decided twice")
def decided_twice(story: Story) -> None:
    slot = story.find("slot", verdict="skipped")
    story.put(slot, "a", "slot", **slot.fields)


@breaks("a slot is decided once", "was decided twice")
def in_a_run_too(story: Story) -> None:
    story.find("slot", verdict="fired").fields["until"] = later(120)


@breaks("a slot and its job are written together", "was decided without its job 11")
def without_its_job(story: Story) -> None:
    story.drop(story.find("job", id=11))


@breaks("a slot and its job are written together", "was decided without its job 11")
def in_two_transactions(story: Story) -> None:
    story.find("job", id=11).fields["op"] = 999


@breaks("a slot and its job are written together", "fired without a job")
def fired_for_nothing(story: Story) -> None:
    story.find("slot", verdict="skipped").fields["verdict"] = "fired"


@breaks("a slot and its job are written together", "job 1 of often belongs to no slot")
def a_job_of_no_slot(story: Story) -> None:
    story.rows[1]["schedule"] = 1


@breaks("no slot is decided early", "was decided before its time")
def early(story: Story) -> None:
    story.find("slot", verdict="skipped").fields.update(at=later(180), until=later(180))


@breaks("no more runs than max_instances", "fired while [11] were unfinished")
def side_by_side(story: Story) -> None:
    slot = story.find("slot", verdict="fired")
    again = story.put(slot, "a", "slot", **{**slot.fields, "at": later(30), "until": later(30), "job": 12})
    story.move(again, after=story.find("claim", id=11))


@breaks("no more runs than max_instances", "job 12 ran while [11] were unfinished")
def a_backfill_side_by_side(story: Story) -> None:
    slot = story.find("slot", verdict="fired")
    manual = {"at": later(30), "until": later(30), "job": 12, "verdict": "manual", "reason": "backfill"}
    claim = story.find("claim", id=11)
    filled = story.put(claim, "operator", "slot", **{**slot.fields, **manual})
    story.put(filled, "a", "claim", **{**claim.fields, "id": 12})


@breaks("no more runs than max_instances", "job 13 ran while [11] were unfinished")
def a_retry_side_by_side(story: Story) -> None:
    claim, job = story.find("claim", id=11), story.find("job", id=11)
    story.put(claim, "operator", "job", **{**job.fields, "id": 13, "schedule": 1, "retry_of": 11})


@breaks("what is deleted fires no more", "was decided after often was deleted")
def fired_by_the_dead(story: Story) -> None:
    story.schedule["deleted_at"] = moment(later(90))
    story.put(
        story.find("change", id=11), "operator", "revision", schedule=1, revision=1, version=2, cursor=later(60), op=-7
    )


@breaks("cursors only grow", "the cursor of schedule 1 went back")
def a_cursor_that_goes_back(story: Story) -> None:
    story.find("step", version=2).fields["cursor"] = later(30)


@breaks("cursors only grow", "a stale decision on schedule 1 was accepted")
def a_stale_decision(story: Story) -> None:
    story.find("step", version=2).fields["version"] = 1


@breaks("cursors only grow", "a stale decision on schedule 1 was accepted")
def a_stale_edit(story: Story) -> None:
    story.put(story.events[-1], "operator", "revision", schedule=1, revision=2, version=3, cursor=later(130))


@breaks("every slot is accounted for", "of often is unaccounted")
def a_slot_that_vanished(story: Story) -> None:
    del story.slots[0]


@breaks("every slot is accounted for", "of often is lost")
def a_job_that_vanished(story: Story) -> None:
    story.slots[0] = dataclasses.replace(story.slots[0], state=None)


@breaks("the ledger is what was decided", "is not in the ledger as decided")
def another_verdict(story: Story) -> None:
    story.slots[1] = dataclasses.replace(story.slots[1], verdict="missed")


@breaks("the ledger is what was decided", "is in the ledger, and nobody decided it so")
def a_row_from_nowhere(story: Story) -> None:
    story.drop(story.find("slot", verdict="skipped"))


# --- leaders --------------------------------------------------------------------------------------------------------


@breaks("epochs only grow, and each has one holder", "was taken from a holder whose time was not over")
def taken_too_soon(story: Story) -> None:
    story.put(story.find("decide.invoke"), "b", "hold", name="leader", epoch=2, until=later(70))


@breaks("epochs only grow, and each has one holder", "changed hands without a new epoch")
def the_same_epoch(story: Story) -> None:
    story.put(story.find("decide.invoke"), "b", "hold", name="leader", epoch=1, until=later(70))


@breaks("epochs only grow, and each has one holder", "the epoch of the leader lease went back")
def an_epoch_that_goes_back(story: Story) -> None:
    story.events[-1 - [e.kind for e in reversed(story.events)].index("hold")].fields["epoch"] = 0


@breaks("epochs only grow, and each has one holder", "the leader lease was renewed after it was over")
def renewed_too_late(story: Story) -> None:
    holds = [event for event in story.events if event.kind == "hold"]
    story.drop(*holds[1:6])


@breaks("only the current leader decides", "a decision under an old epoch was accepted")
def an_old_epoch(story: Story) -> None:
    story.find("step").fields["epoch"] = 0


@breaks("only the current leader decides", "a decision under an old epoch was accepted")
def another_node(story: Story) -> None:
    story.change_event(story.find("step"), node="b")


@breaks("nobody works beside an exclusive node", "a claimed while b was the exclusive node")
def work_beside_the_only_one(story: Story) -> None:
    story.put(story.find("enqueue.ok", ids=[1, 2]), "b", "hold", name="exclusive", epoch=1, until=later(70))


@breaks("nobody works beside an exclusive node", "a began while b was the exclusive node")
def the_only_one_that_was(story: Story) -> None:
    story.put(story.find("enqueue.ok", ids=[1, 2]), "a", "hold", name="exclusive", epoch=1, until=later(70))
    end = story.put(story.find("claim", id=1), "a", "hold.end", name="exclusive")
    story.put(end, "b", "hold", name="exclusive", epoch=2, until=later(70))


@breaks("nobody works beside an exclusive node", "a led while b was the exclusive node")
def led_by_another(story: Story) -> None:
    story.put(story.find("resume"), "b", "hold", name="exclusive", epoch=1, until=later(1000))


@breaks("a lease that was lost is not renewed", "b went on with a lease that had ended")
def back_from_the_dead(story: Story) -> None:
    end = story.find("lease.end")
    story.put(end, "b", "lease", until=end.at + SECOND, renewed=True)


@breaks("a lease lasts as long as its holder was told", "a lease of b was cut short")
def beat_out_of_turn(story: Story) -> None:
    crash = story.find("crash")
    story.put(crash, "b", "lease", until=crash.at + A_MOMENT, renewed=True)


@breaks("a lease lasts as long as its holder was told", "a lease of a was cut short")
def lead_cut_short(story: Story) -> None:
    hold = [event for event in story.events if event.kind == "hold" and event.node == "a"][-1]
    story.put(hold, "a", "hold", name=hold.fields["name"], epoch=hold.fields["epoch"], until=hold.at + A_MOMENT)


@breaks("two living nodes never have the same name", "c and a had the name a at once")
def one_name_for_two(story: Story) -> None:
    story.put(story.find("name", name="a"), "c", "name", name="a")


@breaks("once faults stop, every node has a name", "a has no name")
def nameless(story: Story) -> None:
    story.drop(story.find("name", name="a"))


@breaks("only the dead are declared lost", "a declared b lost, whose lease was not over")
def buried_alive(story: Story) -> None:
    end = story.find("lease.end")
    story.put(story.find("crash"), "b", "lease", until=end.at + SECOND, renewed=True)


@breaks("once faults stop, somebody leads and no slot waits", "['a', 'b'] lead")
def two_leaders(story: Story) -> None:
    story.find("calm").fields["leaders"] = ["a", "b"]


@breaks("once faults stop, somebody leads and no slot waits", "['often'] wait")
def waiting_slots(story: Story) -> None:
    story.find("calm").fields["waiting"] = ["often"]


@breaks("once faults stop, one leader stays", "c took over in peace")
def a_change_in_peace(story: Story) -> None:
    story.hold("c", 2)


@breaks("once faults stop, one leader stays", "nobody leads in the end")
def nobody_in_the_end(story: Story) -> None:
    story.tell("a", "hold.end", name="leader")


# --- counts, and what happens in time -------------------------------------------------------------------------------


@breaks("what was written is there, or was pruned", "job 5 was written and is gone")
def gone(story: Story) -> None:
    del story.rows[5]
    story.drop(story.find("change", id=5, state="succeeded"))


@breaks("what was written is there, or was pruned", "2 jobs were pruned, and 1 are gone")
def pruned_by_the_wrong_count(story: Story) -> None:
    story.find("prune").fields["jobs"] = 2


@breaks("what was written is there, or was pruned", "job 50 is there, and nobody wrote it")
def from_nowhere(story: Story) -> None:
    story.rows[50] = dict(story.rows[9])


@breaks("the totals are what ended", "7 jobs are counted as succeeded; 8 were written, 7 are there")
def counted_wrongly(story: Story) -> None:
    story.totals["succeeded"] -= 1


@breaks("no step fails but for the database", "claimer: KeyError: 1")
def a_bug(story: Story) -> None:
    story.tell("a", "tick.error", service="claimer", error="KeyError: 1", expected=False)


@breaks("once faults stop, everything ends in time", "job 60 is still queued")
def stuck(story: Story) -> None:
    story.enqueue(60)


@breaks("once faults stop, everything ends in time", "job 60 ended 71.2")
def slow(story: Story) -> None:
    story.enqueue(60, visible_at=story.now + 10 * SECOND)
    story.wait(11)
    story.run("a", 60)


@breaks("what nobody runs is taken over in time", "nobody took job 66 over for 20.02 s")
def left_behind(story: Story) -> None:
    story.wait(60)
    story.enqueue(66)
    story.claim("a", 66, answer="unknown")
    story.wait(20)
    story.change("a", 66, "queued", outcome=None, attempt=0)


@breaks("what nobody runs is taken over in time", "nobody took job 4 over for 5.01 s")
def left_by_the_dead(story: Story) -> None:
    change = story.find("change", id=4)
    story.drop(story.find("change", id=4, accepted=False))
    story.move(change, after=story.find("calm"))


@breaks("a claim is begun in time", "job 67 was claimed, and not begun for 20.")
def hoarded(story: Story) -> None:
    story.wait(60)
    story.enqueue(67)
    story.claim("a", 67)
    story.wait(20)
    story.start("a", 67)
    story.outcome("a", 67, "Succeeded")
    story.change("a", 67, "succeeded")


@breaks("no slot is decided late", "was decided 60.03 s late")
def a_late_slot(story: Story) -> None:
    story.find("slot", verdict="skipped").fields.update(at=later(60), until=later(60))


@breaks("no job is claimed late", "job 61 waited 3.01 s beside free seats")
def a_late_claim(story: Story) -> None:
    story.wait(60)
    story.enqueue(61)
    story.wait(3 - 2 * A_MOMENT / SECOND)
    story.run("a", 61)


@breaks("no job is claimed late", "job 62 waits for ever beside free seats")
def never_claimed(story: Story) -> None:
    story.wait(60)
    story.enqueue(62)
    story.wait(20)


# --- endings, details and jobs that follow --------------------------------------------------------------------------


@breaks("a success counts only before its instant", "job 70 succeeded, though that was told after its time")
def told_too_late(story: Story) -> None:
    story.enqueue(70)
    story.run("a", 70, before=story.now, ending=None)


@breaks("a success counts only before its instant", "job 70 is late, though it was in time")
def late_in_time(story: Story) -> None:
    story.enqueue(70)
    story.run("a", 70, "skipped", reason="late", before=story.now + 3600 * SECOND, ending="late")


@breaks("under an old epoch nothing is written but a release", "job 70 was written under an old epoch")
def written_by_a_deposed_leader(story: Story) -> None:
    story.enqueue(70)
    story.run("a", 70, leader="a", epoch=0, ending=None)


@breaks("under an old epoch nothing is written but a release", "job 70 is released under the epoch that leads")
def released_by_the_leader(story: Story) -> None:
    story.enqueue(70)
    story.run("a", 70, "queued", outcome="deposed", leader="a", epoch=1, ending="released")


@breaks("jobs follow exactly from the ending that brings them", "job 71 is to follow from job 70, and is not there")
def never_followed(story: Story) -> None:
    story.enqueue(70)
    story.run("a", 70, brings=[71], might_bring=[71, 72], keyed=False)


@breaks("jobs follow exactly from the ending that brings them", "job 72 follows from job 70, which did not end so")
def followed_from_nothing(story: Story) -> None:
    story.enqueue(70, 71, 72)
    story.run("a", 70, brings=[71], might_bring=[71, 72], keyed=False)


@breaks("an attempt keeps the details that were told", "job 1 has details None of claim 1, not {'status': 200}")
def forgotten_details(story: Story) -> None:
    story.find("change", id=1).fields["details"] = '{"status":200}'


@breaks("an attempt keeps the details that were told", "job 4 has details None of claim 1, not {'page': 7}")
def details_lost_with_their_node(story: Story) -> None:
    story.put(story.find("start", id=4), "b", "details", id=4, claim_no=1, details='{"page":7}')


@breaks("an attempt keeps the details that were told", "what an attempt of job 1 told was not written")
def details_never_written(story: Story) -> None:
    story.find("outcome", id=1).fields["details"] = '{"status":200}'


# --- addresses ------------------------------------------------------------------------------------------------------


@breaks("a job with an address is claimed only there", "job 73 for node:elsewhere was claimed by a")
def claimed_elsewhere(story: Story) -> None:
    story.enqueue(73, address="node:elsewhere")
    story.run("a", 73)


@breaks("a job for the leader ends under the epoch of its claim", "job 74 for the leader ended under no epoch")
def ended_under_no_epoch(story: Story) -> None:
    story.enqueue(74, address="role:leader")
    story.run("a", 74)


# --- time to wait ---------------------------------------------------------------------------------------------------


@breaks("nothing waits past its time", "job 63 waited 4.0")
def ended_late(story: Story) -> None:
    story.wait(60)
    story.enqueue(63, visible_at=later(9000), deadline_at=story.now + SECOND)
    story.wait(5)
    story.expire("a", 63)


@breaks("nothing waits past its time", "job 64 waits past its time for ever")
def never_ended(story: Story) -> None:
    story.wait(60)
    story.decide("a", later(240), "fired", 64, epoch=1)
    story.find("job", id=64).fields["start_by"] = story.now + SECOND
    story.wait(30)


@breaks("nothing waits past its time", "job 65 waited 10.13 s past its time")
def a_retry_past_its_deadline(story: Story) -> None:
    story.wait(60)
    story.enqueue(65, deadline_at=story.now + 10 * SECOND)
    story.retry("a", 65, 60)
    story.wait(20)
    story.claim("a", 65)


@breaks("nothing is given up before its time", "job 10 was given up before its time")
def ended_early(story: Story) -> None:
    story.find("job", id=10).fields["deadline_at"] += 10 * SECOND


@breaks("nothing is given up before its time", "job 2 was given up before its time")
def a_retry_whose_grace_is_over(story: Story) -> None:
    story.find("job", id=2).fields["start_by"] = later(61)
    story.find("change", id=2, claim_no=2).fields.update(state="skipped", reason="misfire", outcome=None)
