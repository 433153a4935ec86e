"""Signing up, changing and leaving: a user's row and window are one commit."""

from __future__ import annotations

import pytest
from news_agent import membership, users
from news_agent.jobs import app, daily_digest, read, write
from sqlalchemy import Connection

from oncue import InvalidSubject, SubjectNotFound
from oncue.testing import Kit
from tests.examples.news_agent.conftest import NOON

ANN = users.wanted("ann", "9:00", "Europe/Berlin", [" space ", "tea", "space"])


async def test_a_sign_up_writes_the_user_and_the_window(kit: Kit) -> None:
    (ann,) = await membership.sign_up([ANN])
    stored = await read(users.by_name, "ann")
    assert (stored.id, stored.at, stored.tz, stored.topics) == (ann.id, "09:00", "Europe/Berlin", ("space", "tea"))
    assert stored.created_at == NOON
    subject = await app.windows.subject(daily_digest, "ann")
    assert (subject.due, subject.tz) == (540, "Europe/Berlin")


async def test_a_user_who_signs_up_again_has_the_new_terms(kit: Kit) -> None:
    (ann,) = await membership.sign_up([ANN])
    (again,) = await membership.sign_up([users.wanted("ann", "10:30", "UTC")])
    assert (again.id, again.at, again.topics) == (ann.id, "10:30", users.USUAL_TOPICS)
    assert (await app.windows.subject(daily_digest, "ann")).due == 630
    (last,) = await membership.sign_up([ANN, users.wanted("ann", "11:00")])
    assert last.at == "11:00", "of two rows for one user the last one counts"


@pytest.mark.contract("WIN-2")
async def test_a_user_and_the_window_are_written_together_or_not_at_all(kit: Kit) -> None:
    """The process dies before the commit: a user without a window would be skipped."""

    def breaks_off(connection: Connection) -> None:
        membership._sign_up(connection, [ANN], NOON, "test")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await write(breaks_off)
    with pytest.raises(users.UserNotFound):
        await read(users.by_name, "ann")
    with pytest.raises(SubjectNotFound):
        await app.windows.subject(daily_digest, "ann")


async def test_many_users_sign_up_and_again_from_the_beginning(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "BATCH", 100)
    rows = [users.wanted(f"user{number:03}", "09:00") for number in range(210)]
    told: list[int] = []
    assert await membership.sign_up_many(rows, progress=told.append) == 210
    assert told == [100, 200, 210]
    assert await membership.sign_up_many(rows) == 210
    assert [user.name for user in await read(users.page, "user207", 10)] == ["user208", "user209"]


async def test_a_user_who_leaves_takes_everything_along(kit: Kit) -> None:
    await membership.sign_up([ANN])
    await membership.leave("ann")
    with pytest.raises(users.UserNotFound):
        await read(users.by_name, "ann")
    with pytest.raises(SubjectNotFound):
        await app.windows.subject(daily_digest, "ann")


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("name", ("", "09:00")), ("name", ("x" * 201, "09:00")), ("name", ("a\nb", "09:00")),
        ("at", ("ann", "25:00")), ("at", ("ann", "nine")), ("tz", ("ann", "09:00", "Mars/Base")),
        ("topics", ("ann", "09:00", "UTC", ["x" * 61])), ("topics", ("ann", "09:00", "UTC", ["\0"])),
        ("topics", ("ann", "09:00", "UTC", [str(number) for number in range(21)])),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(field: str, given: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSubject, match=f"^{field}: .*expected ") as caught:
        users.wanted(*given)  # type: ignore[arg-type]
    assert caught.value.field == field
