"""Whole days of users, on a clock that the test moves: the real engine, the program's own tables, a scripted model."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from news_agent import chats, days, digests, membership, users
from news_agent.days import UserDay
from news_agent.jobs import app, daily_digest, read, reset_chat, write
from news_agent.model import ModelError
from sqlalchemy import Connection

from oncue import Conflict
from oncue.testing import Kit
from tests.examples.news_agent.conftest import Scripted

DAY = date(2026, 11, 18)


def at(hour: int, minute: int = 0, second: int = 0, day: date = DAY) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=UTC)


async def signed_up(name: str = "ann", due: str = "09:00", tz: str = "UTC", *topics: str) -> int:
    (user,) = await membership.sign_up([users.wanted(name, due, tz, topics)])
    return user.id


async def until(kit: Kit, end: datetime) -> None:
    await kit.aelapse(end - kit.clock.now())


async def said(kit: Kit, user: int, text: str) -> None:
    await write(chats.say, user, "user", text, kit.clock.now())


async def context(user: int) -> list[str]:
    return [message.text for message in await read(chats.context, user)]


def outcome(found: UserDay) -> tuple[str, str | None]:
    return found.status, found.reason


@pytest.mark.contract("WIN-1", "WIN-7", "WIN-8")
async def test_a_digest_is_delivered_when_the_window_opens(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up("ann", "09:00", "Europe/Berlin", "space")
    await said(kit, ann, "More about comets, please")
    assert outcome(await days.of_user(ann)) == ("overdue", None), "signed up after today's cutoff"
    await until(kit, at(6, 59))
    assert outcome(await days.of_user(ann, date(2026, 11, 17))) == ("cutoff_reached", "added_late")
    ahead = await days.of_user(ann, DAY)
    assert (ahead.status, ahead.opens_at, ahead.cutoff_at, ahead.digest) == ("upcoming", at(7), at(8), None)
    await until(kit, at(7, 1))
    found = await days.of_user(ann)
    assert (found.day, found.status, found.opens_at, found.cutoff_at) == (DAY, "success", at(7), at(8))
    assert found.digest == digests.Digest("Today's news", "scripted", at(7))
    assert [(one.number, one.outcome) for one in found.attempts] == [(1, "succeeded")]
    (prompt,) = scripted.asked
    assert (prompt.user, prompt.day, prompt.topics) == ("ann", DAY, ("space",))
    assert [one.text for one in prompt.context] == ["More about comets, please"]
    await until(kit, at(23))
    assert await context(ann) == ["More about comets, please", "Today's news"], "a success resets no chat"
    assert len(scripted.asked) == 1


@pytest.mark.contract("WIN-8", "WIN-11", "WIN-6")
async def test_a_model_that_fails_is_asked_again_after_the_delay(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up()
    scripted.script = [ModelError("llm", "overloaded"), ModelError("parse", "no text"), "Late but there"]
    await until(kit, at(8, 5))
    found = await days.of_user(ann)
    assert (found.status, found.next_attempt_at) == ("open", at(8, 10))
    (failed,) = found.attempts
    assert (failed.outcome, failed.error_class) == ("failed", "llm")
    assert failed.error == "ModelError: overloaded"
    await until(kit, at(8, 59))
    found = await days.of_user(ann)
    assert [one.started_at for one in found.attempts] == [at(8), at(8, 10), at(8, 20)]
    assert outcome(found) == ("success", None)
    assert found.digest == digests.Digest("Late but there", "scripted", at(8, 20))
    assert found.reset_at is None


@pytest.mark.contract("WIN-11", "WIN-5")
async def test_an_attempt_that_is_over_its_time_has_failed_and_the_next_one_comes(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up()

    def slow() -> str:
        kit.clock.advance("61s")
        return "Delivered all the same"

    scripted.script = [slow]
    await until(kit, at(8, 5))
    found = await days.of_user(ann)
    (failed,) = found.attempts
    assert (found.status, failed.outcome, failed.error) == ("open", "failed", "timed out: cut off after 60 s")
    await until(kit, at(8, 30))
    assert outcome(await days.of_user(ann)) == ("success", None)
    assert len(scripted.asked) == 1, "the second attempt found it delivered"


@pytest.mark.contract("WIN-6", "WIN-13", "WIN-8")
async def test_a_missed_cutoff_resets_the_chat_once(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up()
    await said(kit, ann, "Remember me")
    scripted.script = [ModelError("req", "away")]
    await until(kit, at(9, 0, 1))
    found = await days.of_user(ann)
    assert (found.day, *outcome(found), found.digest) == (DAY, "cutoff_reached", None, None)
    assert (len(found.attempts), found.reset_at) == (6, at(9))
    assert [message.text for message in found.forgotten] == ["Remember me"]
    assert found.context == [], "the next interaction starts fresh"
    await said(kit, ann, "Good morning")
    assert await write(chats.reset, "ann", DAY, kit.clock.now()) == 0, "a second run of the hook does nothing"
    assert await context(ann) == ["Good morning"]
    scripted.script = ["Tomorrow's news"]
    await until(kit, at(9, day=date(2026, 11, 19)))
    assert outcome(await days.of_user(ann, date(2026, 11, 19))) == ("success", None)
    assert [one.text for one in scripted.asked[-1].context] == ["Good morning"]
    assert len(kit.jobs(reset_chat)) == 1


@pytest.mark.contract("WIN-12", "WIN-6", "WIN-13")
async def test_a_digest_that_is_ready_after_the_cutoff_is_not_delivered(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up()
    await said(kit, ann, "Remember me")

    def late() -> str:
        kit.clock.advance("20s")
        return "Too late"

    scripted.script = [ModelError("llm", "busy")] * 5 + [late]
    await until(kit, at(8, 49))
    kit.clock.advance_to(at(8, 59, 50))
    await kit.aelapse("5m")
    found = await days.of_user(ann)
    assert (*outcome(found), found.digest) == ("cutoff_reached", None, None)
    assert (found.context, len(found.forgotten)) == ([], 1)
    assert len(kit.jobs(reset_chat)) == 1


@pytest.mark.contract("WIN-12", "WIN-6")
async def test_a_success_that_is_recorded_after_the_cutoff_does_not_count(kit: Kit, scripted: Scripted) -> None:
    """The digest is delivered in the last second, and the process stands still before it can say so."""
    ann = await signed_up()
    wrote = digests.deliver

    def slow(connection: Connection, *args: object) -> bool:
        written = wrote(connection, *args)  # type: ignore[arg-type]
        kit.clock.advance("20s")
        return written

    kit.clock.advance_to(at(8, 59, 50))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "deliver", slow)
        await kit.aelapse("5m")
    found = await days.of_user(ann)
    assert outcome(found) == ("cutoff_reached", None)
    assert found.digest is not None, "it was delivered at 08:59:50"
    assert ([one.role for one in found.forgotten], found.context) == (["digest"], [])


@pytest.mark.contract("WIN-5", "WIN-1")
async def test_an_attempt_after_a_crash_finds_the_digest_delivered(kit: Kit, scripted: Scripted) -> None:
    """The first attempt has delivered and was killed before oncue heard of it."""
    ann = await signed_up()
    await write(digests.deliver, "ann", DAY, "From the first attempt", "scripted", kit.clock.now())
    await until(kit, at(8, 1))
    found = await days.of_user(ann)
    assert (found.status, found.digest and found.digest.text) == ("success", "From the first attempt")
    assert scripted.asked == [], "the model is not paid twice"
    assert not await write(digests.deliver, "ann", DAY, "Again", "scripted", kit.clock.now())
    assert await context(ann) == ["From the first attempt"]


@pytest.mark.contract("WIN-8", "WIN-1")
async def test_a_change_of_the_due_time_counts_today_only_before_the_window_opens(kit: Kit, scripted: Scripted) -> None:
    early, late = await signed_up("early"), await signed_up("late")
    scripted.script = [ModelError("llm", "busy")]
    await until(kit, at(7, 30))
    await signed_up("early", "10:00")
    await until(kit, at(8, 30))
    await signed_up("late", "10:00")
    found = await days.of_user(early)
    assert (found.status, found.opens_at, found.cutoff_at) == ("upcoming", at(9), at(10))
    found = await days.of_user(late)
    assert (found.status, found.cutoff_at) == ("open", at(9)), "its window was open already"
    await until(kit, at(9, 30))
    assert (await days.of_user(early)).status == "open"
    assert outcome(await days.of_user(late)) == ("cutoff_reached", None)
    tomorrow = await days.of_user(late, date(2026, 11, 19))
    assert (tomorrow.status, tomorrow.cutoff_at) == ("upcoming", at(10) + timedelta(days=1))


@pytest.mark.contract("WIN-2", "WIN-14")
async def test_after_an_outage_no_day_is_left_without_an_outcome(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up()
    await kit.aelapse("1m")
    kit.clock.advance_to(at(8, 55))
    await kit.aelapse("1m")
    assert outcome(await days.of_user(ann)) == ("success", None), "back within the window"
    kit.clock.advance_to(at(15, day=date(2026, 11, 22)))
    await kit.aelapse("1m")
    found = await days.of_user(ann)
    assert (found.day, *outcome(found)) == (date(2026, 11, 22), "cutoff_reached", None)
    assert outcome(await days.of_user(ann, date(2026, 11, 20))) == ("missed", "outage")
    assert [(line.day.day, line.until.day, line.status) for line in found.days] == [
        (22, 22, "cutoff_reached"), (19, 21, "missed"), (18, 18, "success"), (17, 17, "cutoff_reached"),
    ]  # fmt: skip
    assert len(kit.jobs(reset_chat)) == 1, "no hook runs for days that were missed"


@pytest.mark.contract("WIN-1", "WIN-10")
async def test_a_day_can_be_opened_before_its_time_and_only_once(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up("ann", "18:00")
    await app.windows.run_now(daily_digest, "ann")
    with pytest.raises(Conflict, match="has its job already"):
        await app.windows.run_now(daily_digest, "ann")
    await kit.aelapse("1d")
    assert len(scripted.asked) == 1
    assert outcome(await days.of_user(ann, date(2026, 11, 17))) == ("success", None)


@pytest.mark.contract("WIN-1", "WIN-6")
async def test_an_operator_repeats_a_day_that_was_cancelled_while_its_window_is_open(
    kit: Kit, scripted: Scripted
) -> None:
    ann = await signed_up()
    scripted.script = [ModelError("llm", "busy"), "After all"]
    await until(kit, at(8, 5))
    first = (await days.of_user(ann)).job_id
    assert first is not None
    await app.jobs.cancel(first)
    await until(kit, at(8, 30))
    assert len(scripted.asked) == 1
    again = await app.jobs.retry(first)
    await until(kit, at(10))
    found = await days.of_user(ann, DAY)
    assert (*outcome(found), found.job_id) == ("success", None, again.id)
    assert found.digest == digests.Digest("After all", "scripted", at(8, 30))
    assert (found.reset_at, kit.jobs(reset_chat)) == (None, [])
    with pytest.raises(Conflict, match="is decided: success"):
        await app.jobs.retry(again.id)


@pytest.mark.contract("WIN-6")
async def test_a_user_who_leaves_in_the_middle_gets_nothing_more(kit: Kit, scripted: Scripted) -> None:
    ann = await signed_up()
    scripted.script = [ModelError("llm", "busy")]
    await until(kit, at(8, 15))
    await membership.leave("ann")
    asked = len(scripted.asked)
    await until(kit, at(12))
    assert len(scripted.asked) == asked
    with pytest.raises(users.UserNotFound):
        await days.of_user(ann)
    with pytest.raises(users.UserNotFound, match="'ann'"):
        await membership.leave("ann")
