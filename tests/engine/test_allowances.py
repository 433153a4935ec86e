"""Limited queues: never more at once than allowed, nobody else blocked, and the next one starts when one ends."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncue.engine.waiting_claims import PROCESSES, WaitingClaims
from oncue.model import Claim, Released, Skipped, TimedOut
from oncue.policy.options import Options
from tests.engine.stage import Stage, settle

TIMED = Options(timeout=5.0)


class Doors:
    """Coroutines that run until they are let go, one by one, in the order in which they began."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.doors: dict[int, asyncio.Event] = {}

    async def work(self, number: int) -> None:
        self.begun.append(number)
        door = self.doors[number] = asyncio.Event()
        await door.wait()

    async def open(self, *numbers: int) -> None:
        for number in numbers:
            self.doors[number].set()
        await settle()


def work_of(stage: Stage, queue: str, *numbers: int) -> list[Claim]:
    return [stage.claim("work", args={"number": number}, queue=queue) for number in numbers]


def staged(concurrency: int = 8) -> tuple[Stage, Doors]:
    doors = Doors()

    async def work(number: int) -> None:
        await doors.work(number)

    return Stage(work, concurrency=concurrency), doors


async def test_what_is_over_its_allowance_is_held_in_order_and_blocks_nobody() -> None:
    stage, doors = staged()
    stage.executor.allow("narrow", 2)
    stage.submit(*work_of(stage, "narrow", 1, 2, 3, 4, 5), *work_of(stage, "wide", 6, 7))
    await settle()
    assert doors.begun == [1, 2, 6, 7]
    assert (stage.executor.running_in("narrow"), stage.executor.held_in("narrow")) == (2, 3)
    assert (stage.executor.running_in("wide"), stage.executor.held_in("wide")) == (2, 0)
    assert (stage.executor.busy, stage.executor.running, stage.executor.waiting) == (7, 4, 3)
    assert sorted(stage.executor.claims()) == [(number, 1) for number in range(1, 8)]
    await doors.open(2)
    assert doors.begun[4:] == [3]
    await doors.open(1, 3)
    assert doors.begun[4:] == [3, 4, 5]
    await doors.open(4, 5, 6, 7)
    await stage.quiet()
    assert len(stage.ended) == 7
    assert stage.executor.running_in("narrow") == 0


async def test_the_next_one_begins_before_anything_else_is_awaited() -> None:
    """The seat that comes free takes it: between the end of one and the start of the next the loop does not turn."""
    story = []

    async def work(number: int) -> None:
        story.append(f"begin {number}")
        await asyncio.sleep(0)
        story.append(f"end {number}")
        asyncio.get_running_loop().call_soon(story.append, f"the loop turned after {number}")

    stage = Stage(work, concurrency=8)
    stage.executor.allow("narrow", 1)
    stage.submit(*work_of(stage, "narrow", 1, 2), *work_of(stage, "narrow", 3))
    await stage.quiet()
    assert story.index("begin 2") == story.index("end 1") + 1
    assert story.index("begin 3") == story.index("end 2") + 1


async def test_an_allowance_may_be_raised_lowered_and_lifted() -> None:
    stage, doors = staged()
    stage.executor.allow("narrow", 0)
    stage.submit(*work_of(stage, "narrow", *range(1, 10)))
    await settle()
    assert doors.begun == []
    stage.executor.allow("narrow", 3)
    await settle()
    assert doors.begun == [1, 2, 3]
    stage.executor.allow("narrow", 1)
    await settle()
    assert stage.executor.running_in("narrow") == 3, "what runs is left alone"
    await doors.open(1, 2)
    assert doors.begun == [1, 2, 3]
    await doors.open(3)
    assert doors.begun == [1, 2, 3, 4]
    stage.executor.allow("narrow", None)
    await settle()
    assert doors.begun == list(range(1, 10))
    assert stage.executor.running_in("narrow") == 6


async def test_what_ran_before_there_was_a_limit_counts() -> None:
    stage, doors = staged()
    stage.submit(*work_of(stage, "narrow", 1, 2))
    await settle()
    stage.executor.allow("narrow", 2)
    stage.submit(*work_of(stage, "narrow", 3))
    await settle()
    assert doors.begun == [1, 2]
    await doors.open(1)
    assert doors.begun == [1, 2, 3]


async def test_a_thread_that_was_given_up_keeps_its_place_until_it_ends() -> None:
    entered, let_go, together = threading.Semaphore(0), threading.Event(), Counter[str]()

    def work(number: int) -> None:
        together["now"] += 1
        together["most"] = max(together["most"], together["now"])
        entered.release()
        assert let_go.wait(60)
        together["now"] -= 1

    stage = Stage(work, concurrency=4)
    stage.executor.allow("narrow", 1)
    stage.submit(*(claim._replace(options=TIMED.stored()) for claim in work_of(stage, "narrow", 1, 2)))
    await asyncio.to_thread(entered.acquire)
    await stage.pass_time(5.0)
    assert isinstance(stage.ended[1].outcome, TimedOut)
    assert (stage.executor.running_in("narrow"), stage.executor.held_in("narrow")) == (1, 1)
    let_go.set()
    await stage.quiet()
    assert together["most"] == 1


async def test_a_claim_that_is_refused_gives_its_place_to_the_next() -> None:
    stage, doors = staged()
    stage.executor.allow("narrow", 1)
    refused = [stage.claim("work", args={"number": 1}, queue="narrow", deadline=0.0) for _ in range(3)]
    stage.submit(*refused, *work_of(stage, "narrow", 2))
    await settle()
    assert [stage.ended[claim.id].outcome for claim in refused] == [Skipped("deadline")] * 3
    assert doors.begun == [2]
    assert stage.executor.running_in("narrow") == 1


async def test_what_is_held_can_be_fenced_and_given_back() -> None:
    stage, _ = staged()
    stage.executor.allow("narrow", 0)
    stage.executor.allow("tight", 0)
    stage.submit(*work_of(stage, "narrow", 1), *work_of(stage, "tight", 2))
    await settle()
    stage.clock.advance(timedelta(seconds=3))
    stage.submit(*work_of(stage, "narrow", 3, 4))
    await settle()
    stage.executor.fence(3, 1)
    stage.executor.release_waiting("waited", claimed_before=stage.now - timedelta(seconds=1))
    assert {number: ended.outcome for number, ended in stage.ended.items()} == {
        1: Released("waited"), 2: Released("waited"), 3: Released("fenced"),
    }  # fmt: skip
    assert stage.executor.claims() == [(4, 1)]
    stage.executor.release_waiting("shutdown")
    await stage.quiet()
    assert stage.ended[4].outcome == Released("shutdown")


async def test_nothing_that_is_held_starts_in_a_closed_executor() -> None:
    stage, doors = staged()
    stage.executor.allow("narrow", 1)
    stage.submit(*work_of(stage, "narrow", 1, 2))
    await settle()
    stage.executor.close()
    stage.executor.allow("narrow", 5)
    await settle()
    assert doors.begun == [1]


@pytest.mark.parametrize("seed", range(30))
async def test_no_schedule_takes_a_queue_over_its_allowance(seed: int) -> None:
    """Claims, ends, cuts and changes of the allowances in any order: counted by the handlers themselves."""
    dice, running, doors, wanted = Random(seed), Counter[str](), {}, dict[str, int | None]()
    queues = ["a", "b", "c"]

    async def work(queue: str, number: int) -> None:
        limit = wanted.get(queue)
        assert limit is None or running[queue] < limit, f"{queue}: one too many"
        running[queue] += 1
        door = doors[number] = asyncio.Event()
        try:
            await door.wait()
        finally:
            running[queue] -= 1
            del doors[number]

    stage = Stage(work, concurrency=dice.choice([2, 5, 20]))
    for number in range(200):
        step = dice.random()
        if step < 0.4:
            queue = dice.choice(queues)
            stage.submit(stage.claim("work", args={"queue": queue, "number": number}, queue=queue))
        elif step < 0.7 and doors:
            doors[dice.choice(sorted(doors))].set()
        elif step < 0.8 and (claims := stage.executor.claims()):
            getattr(stage.executor, dice.choice(["fence", "cancel"]))(*dice.choice(claims))
        else:
            queue = dice.choice(queues)
            wanted[queue] = dice.choice([None, 0, 1, 2, 5])
            stage.executor.allow(queue, wanted[queue])
        await settle(dice.randrange(4))
        assert all(stage.executor.running_in(queue) >= running[queue] for queue in queues)
    for queue in queues:
        wanted[queue] = None
        stage.executor.allow(queue, None)
    async with asyncio.timeout(60):
        while stage.executor.busy:
            for door in list(doors.values()):
                door.set()
            await asyncio.sleep(0)
    assert stage.executor.started_total + sum(ended.started_at is None for ended in stage.ended.values()) == len(
        stage.ended
    )
    assert not any("one too many" in str(ended.outcome) for ended in stage.ended.values())


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_oldest_claim_that_has_room_is_taken_first(data: st.DataObject) -> None:
    """Against a plain list, which is searched for the first claim with room each time."""
    waiting, model, out = WaitingClaims({"heavy"}), list[Claim](), list[Claim]()
    limits: dict[str, int] = {}
    numbers = iter(range(10_000))

    def pools(claim: Claim) -> set[str]:
        return {claim.queue} | ({PROCESSES} if claim.task == "heavy" else set())

    def has_room(claim: Claim) -> bool:
        return all(sum(pool in pools(other) for other in out) < limits.get(pool, 10**6) for pool in pools(claim))

    stage = Stage()
    for _ in range(data.draw(st.integers(1, 60))):
        match data.draw(st.sampled_from(["come", "come", "take", "take", "leave", "allow", "remove", "drop"])):
            case "come":
                queue, task = data.draw(st.sampled_from("ab")), data.draw(st.sampled_from(["light", "heavy"]))
                stage.clock.advance(timedelta(seconds=1))
                claim = stage.claim(task, queue=queue, id=next(numbers))
                waiting.waiting.append(claim)
                model.append(claim)
            case "take":
                expected = next((claim for claim in model if has_room(claim)), None)
                assert waiting.take() == expected
                if expected is not None:
                    model.remove(expected)
                    out.append(expected)
            case "leave" if out:
                waiting.left(out.pop(data.draw(st.integers(0, len(out) - 1))))
            case "allow":
                pool, most = data.draw(st.sampled_from(["a", "b", PROCESSES])), data.draw(st.integers(-1, 3))
                waiting.allow(pool, None if most < 0 else most, sum(pool in pools(claim) for claim in out))
                limits.pop(pool, None) if most < 0 else limits.update({pool: most})
            case "remove" if model:
                gone = model.pop(data.draw(st.integers(0, len(model) - 1)))
                assert waiting.remove(gone.id, gone.claim_no) == [gone]
            case "drop" if model:
                before = data.draw(st.sampled_from(model)).claimed_at
                assert sorted(waiting.drop(before)) == [claim for claim in model if claim.claimed_at <= before]
                model[:] = [claim for claim in model if claim.claimed_at > before]
        assert waiting.length == len(model)
        assert sorted(waiting) == sorted(model)
        assert (waiting.ready() > 0) >= any(map(has_room, model))
        assert [waiting.waiting_in(pool) for pool in ("a", PROCESSES)] == [
            sum(pool in pools(claim) for claim in model) for pool in ("a", PROCESSES)
        ]
