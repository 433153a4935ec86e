"""What pages and API share: days as JSON, and refusals in this program's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

from news_agent.chats import Message
from news_agent.days import Today, UserDay
from news_agent.model import ModelError
from news_agent.users import User, UserNotFound
from oncue.errors import InvalidSubject, SubjectNotFound
from oncue.server.api.problems import NOT_FOUND, Problem, ProblemKind, invalid

MODEL_AWAY = ProblemKind("model-unavailable", 502, "The model gave no answer")


@contextmanager
def refusals() -> Iterator[None]:
    """What is wrong, as a problem document."""
    try:
        yield
    except InvalidSubject as error:
        raise invalid(error.field, str(error).removeprefix(f"{error.field}: ")) from None
    except (UserNotFound, SubjectNotFound) as error:
        raise Problem(NOT_FOUND, str(error)) from None
    except ModelError as error:
        raise Problem(MODEL_AWAY, str(error), error_class=error.error_class) from None


def user_record(user: User) -> dict[str, Any]:
    return {
        "id": user.id, "name": user.name, "at": user.at, "tz": user.tz, "topics": list(user.topics),
        "created_at": _text(user.created_at),
    }  # fmt: skip


def today_record(entry: Today) -> dict[str, Any]:
    return {
        **user_record(entry.user), "day": _text(entry.day), "status": entry.status, "reason": entry.reason,
        "opens_at": _text(entry.opens_at), "cutoff_at": _text(entry.cutoff_at),
    }  # fmt: skip


def day_record(found: UserDay) -> dict[str, Any]:
    digest = found.digest
    return {
        "user": user_record(found.user), "day": _text(found.day), "status": found.status, "reason": found.reason,
        "opens_at": _text(found.opens_at), "cutoff_at": _text(found.cutoff_at), "job_id": found.job_id,
        "is_running": found.is_running, "next_attempt_at": _text(found.next_attempt_at),
        "attempts": [
            {**one._asdict(), "started_at": _text(one.started_at), "finished_at": _text(one.finished_at)}
            for one in found.attempts
        ],
        "digest": digest and {**digest._asdict(), "delivered_at": _text(digest.delivered_at)},
        "chat": {
            "reset_at": _text(found.reset_at),
            "forgotten": [_message(one) for one in found.forgotten],
            "context": [_message(one) for one in found.context],
        },
        "days": [{**one._asdict(), "day": _text(one.day), "until": _text(one.until)} for one in found.days],
    }  # fmt: skip


def _message(message: Message) -> dict[str, Any]:
    return {**message._asdict(), "at": _text(message.at)}


def _text(moment: datetime | date | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
