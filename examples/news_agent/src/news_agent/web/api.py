"""The API: users sign up, change their terms, chat and leave; and what the pages show, as JSON."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, TypeAlias

from fastapi import Path, Query
from pydantic import Field, StrictStr

from news_agent import chats, days, membership, model, users
from news_agent.jobs import app, daily_digest, read, the_model, write
from news_agent.users import User
from news_agent.web.answers import day_record, refusals, today_record, user_record
from oncue.policy.zones import local_date
from oncue.server.api.identity import Caller
from oncue.server.api.models.base import LARGEST_ID, Body
from oncue.server.api.pages import Limit
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes

UserId: TypeAlias = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The user's number.")]
WantedDay: TypeAlias = Annotated[
    date | None,
    Query(ge=date(1970, 1, 1), lt=date(3000, 1, 1), description="Such as 2026-11-18; the present one otherwise."),
]
"""As far as the API of windows goes: the day before and the day after are dates too."""
SAYS: dict[str, Any] = {"tags": ["users"], "response_model": None}
MODEL_SECONDS = 60.0


class NewUser(Body):
    """A user who signs up; or the terms that a user of this name has from now on."""

    name: StrictStr
    at: StrictStr = Field(examples=["09:00"])
    tz: StrictStr = Field("UTC", examples=["Europe/Berlin"])
    topics: list[StrictStr] = Field(default_factory=list)


class ChangedUser(Body):
    """What changes; what is left out stays."""

    at: StrictStr | None = None
    tz: StrictStr | None = None
    topics: list[StrictStr] | None = None


class NewMessage(Body):
    text: StrictStr = Field(min_length=1, max_length=chats.LONGEST_MESSAGE)


def add(routes: Routes) -> None:
    @routes.get("/api/users", summary="List users with what today came to", **SAYS)
    async def list_users(
        after: Annotated[str, Query(description="Only names that come after this one.")] = "", limit: Limit = 100
    ) -> Answer:
        return Answer({"users": [today_record(entry) for entry in await days.today(after, limit)]})

    @routes.post("/api/users", needs="operate", summary="Sign up a user", status_code=201, **SAYS)
    async def sign_up(body: NewUser, by: Caller) -> Answer:
        """A user who is there already gets these terms."""
        with refusals():
            (user,) = await membership.sign_up([users.wanted(body.name, body.at, body.tz, body.topics)], by=by)
        return Answer(user_record(user), 201)

    @routes.get("/api/users/{id}", summary="Show a user's day", **SAYS)
    async def show_day(id: UserId, day: WantedDay = None) -> Answer:
        with refusals():
            return Answer(day_record(await days.of_user(id, day)))

    @routes.put("/api/users/{id}", needs="operate", summary="Change a user's terms", **SAYS)
    async def change(id: UserId, body: ChangedUser, by: Caller) -> Answer:
        with refusals():
            user = await _user(id)
            at, tz, topics = body.at or user.at, body.tz or user.tz, user.topics if body.topics is None else body.topics
            (changed,) = await membership.sign_up([users.wanted(user.name, at, tz, topics)], by=by)
        return Answer(user_record(changed))

    @routes.delete("/api/users/{id}", needs="operate", summary="Remove a user", **SAYS)
    async def remove(id: UserId, by: Caller) -> Answer:
        with refusals():
            user = await _user(id)
            await membership.leave(user.name, by=by)
        return Answer({**user_record(user), "removed": True})

    @routes.post("/api/users/{id}/deliver", needs="operate", summary="Open a user's day now", status_code=202, **SAYS)
    async def deliver(id: UserId, by: Caller) -> Answer:
        """The next day that has no job and is not decided. 409 if there is a job already."""
        with refusals():
            opened = await app.windows.run_now(daily_digest, (await _user(id)).name, by=by)
        return Answer({"day": opened.day.isoformat(), "job_id": opened.job_id}, 202)

    @routes.post(
        "/api/users/{id}/messages",
        needs="operate",
        summary="Say something in a user's chat",
        patience=MODEL_SECONDS,
        **SAYS,
    )
    async def say(id: UserId, body: NewMessage) -> Answer:
        """The agent answers with what it remembers of this chat."""
        with refusals():
            return Answer({"text": await _replied(await _user(id), body.text)})


async def _user(number: int) -> User:
    return await read(users.by_id, number)


async def _replied(user: User, text: str) -> str:
    """The message is kept even if the model gives no answer to it."""
    now = await app.now()

    def heard(connection: Any) -> list[chats.Message]:
        chats.say(connection, user.id, "user", text, now)
        return chats.context(connection, user.id)

    context = chats.said(await write(heard))
    prompt = model.Prompt("reply", user.name, local_date(user.tz, now), user.topics, context)
    reply, later = await the_model().answer(prompt), await app.now()
    await write(chats.say, user.id, "agent", reply, later)
    return reply
