"""What operators do to queues and their groups: pause, resume, limit, ping."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from oncue.errors import InvalidJob
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.limit_rows import OPTIONS
from oncue.server.dashboard.rendering import duration, environment, shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncue.server.dashboard.pages import Dashboard

PING_SECONDS = 5
FIELDS = {"for_": "for", "globally": "limit", "per_node": "limit", "per_group": "limit", "rate": "limit"}
FIELDS["rate_per_group"] = "limit"
"""The field of a form that a complaint of a verb is about."""


def add(dashboard: Dashboard) -> None:
    @dashboard.action("/queues/pause", needs="operate")
    async def pause(deed: Deed) -> Done:
        queue, group, for_ = deed.text("queue"), deed.maybe("group"), deed.maybe("for")
        with _naming():
            await deed.app.queues.pause(queue, group=group, for_=for_, by=deed.by)
        end = "until it is resumed" if for_ is None else f"for {for_}"
        return Done(f"{_called(queue, group)} is paused {end}: nothing of it starts. What runs goes on.")

    @dashboard.action("/queues/resume", needs="operate")
    async def resume(deed: Deed) -> Done:
        queue, group = deed.text("queue"), deed.maybe("group")
        with _naming():
            await deed.app.queues.resume(queue, group=group, by=deed.by)
        return Done(f"{_called(queue, group)} is open.")

    @dashboard.action("/queues/limit", needs="operate")
    async def limit(deed: Deed) -> Done:
        queue, group, field = deed.text("queue"), deed.maybe("group"), deed.text("field")
        if field not in OPTIONS:
            raise invalid("field", f"expected one of {', '.join(OPTIONS)}, not {field!r:.60}")
        value = _value(deed, field)
        with _naming():
            wanted: dict[str, Any] = {field: value}
            await deed.app.queues.limit(queue, group=group, **wanted, by=deed.by)
        option, _, _ = OPTIONS[field]
        command = shell("oncue queues limit", queue, group=group, **{option: "none" if value is None else value})
        text = "is lifted" if value is None else f"is {value} now"
        of = _called(queue, group, "queue")
        return Done(f"The limit {option!r} of {of} {text}. The same in the shell: {command}")

    @dashboard.action("/queues/ping", needs="operate", is_long=True)
    async def ping(deed: Deed) -> Done:
        queue = deed.text("queue")
        with _naming():
            told = await deed.app.nodes.ping(queue, timeout=PING_SECONDS, by=deed.by)
        answer = environment().get_template("ping.html").render(told=told, queue=queue, seconds=PING_SECONDS)
        took = "" if told.seconds is None else f" within {duration(round(told.seconds, 3))}"
        ran = told.job.state == "succeeded"
        message = f"{told.node} ran job {told.job.id} of queue {queue}{took}." if ran else ""
        return Done(message, html=answer, is_change=False)


def _value(deed: Deed, field: str) -> int | str | None:
    """A limit is a number, a rate a text; `none` lifts it."""
    text = deed.text("limit")
    if text.lower() == "none":
        return None
    return text if field.startswith("rate") else deed.number("limit")


def _called(queue: str, group: str | None, word: str = "Queue") -> str:
    of = f"{word} {queue}"
    return of if group is None else f"{'Group' if word == 'Queue' else 'group'} {group} of queue {queue}"


@contextmanager
def _naming() -> Iterator[None]:
    """A complaint names the field as the form does."""
    try:
        yield
    except InvalidJob as error:
        if error.field not in FIELDS:
            raise
        raise InvalidJob(FIELDS[error.field], str(error).removeprefix(f"{error.field}: ")) from None
