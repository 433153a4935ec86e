"""What the attempts of a window's jobs tell, with the executor of production and real handlers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from oncue import Oncue, Retry, daily, testing
from oncue.testing import Kit

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


class ModelError(Exception):
    error_class = "llm"


class News:
    """A window whose handler does what the user's name says."""

    def __init__(self) -> None:
        self.app = Oncue(name="news")
        self.heard: list[tuple[dict[str, float], dict[str, Any]]] = []

        @self.app.task(schedule=daily(), timeout="30s", error_classes={ConnectionError: "req", ValueError: "parse"})
        async def digest(user: str, day: date) -> None:
            if user == "slow":
                self.kit.clock.advance("20s")
            elif user == "hangs":
                self.kit.clock.advance("40s")
            elif user == "retries":
                raise Retry("the model is away") from ModelError("503")
            elif user in ERRORS:
                raise ERRORS[user]

        self.app.subscribe(
            lambda event, numbers, told: self.heard.append((dict(numbers), dict(told))), "sched.job.stop"
        )
        self.kit: Kit


ERRORS: dict[str, Exception] = {
    "llm": ModelError("no answer"), "req": ConnectionResetError("gone"), "parse": ValueError("no JSON"),
    "unknown": KeyError("x"),
}  # fmt: skip


@pytest.fixture
def news() -> Iterator[News]:
    made = News()
    with testing.use(made.app, now=NOON) as kit:
        made.kit = kit
        yield made


def heard(news: News, user: str) -> tuple[dict[str, float], dict[str, Any]]:
    """What the first attempt for this user tells."""
    news.app.wait(news.app.windows.add("digest", user, at="09:00"))
    news.kit.elapse("20h5m")
    (told,) = news.heard
    return told


@pytest.mark.contract("WIN-15")
def test_a_success_tells_how_long_it_took(news: News) -> None:
    assert heard(news, "slow") == ({"duration_ms": pytest.approx(20_000)}, {"result": "ok", "window": "digest"})


@pytest.mark.contract("WIN-15")
@pytest.mark.parametrize("user", [*ERRORS, "retries"])
def test_a_failure_tells_its_class(news: News, user: str) -> None:
    _, told = heard(news, user)
    expected = "llm" if user == "retries" else user
    assert told == {"result": "error", "error_class": expected, "window": "digest"}


@pytest.mark.contract("WIN-11", "WIN-15")
def test_an_attempt_that_is_over_its_time_tells_so(news: News) -> None:
    assert heard(news, "hangs")[1] == {"result": "timeout", "error_class": "unknown", "window": "digest"}


def test_plain_jobs_tell_nothing(news: News) -> None:
    @news.app.task
    def plain() -> None: ...

    events: list[str] = []
    news.app.subscribe(lambda event, *_: events.append(event))
    plain.enqueue()
    news.kit.drain()
    assert events == []


def test_an_attempt_tells_what_runs_here(news: News) -> None:
    told: list[tuple[float, int]] = []
    news.app.subscribe(
        lambda _, numbers, fields: told.append((numbers["in_flight"], fields["max_concurrency"])),
        "sched.executor.in_flight",
    )
    heard(news, "slow")
    assert told == [(1, 1), (0, 1)]
