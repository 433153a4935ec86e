"""The streams of open tabs: who gets one, what ends it, and what it says when a page cannot be read."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from oncue.errors import JobNotFound, StoreError
from oncue.server import stopping
from oncue.server.api.problems import Problem
from oncue.server.dashboard import live
from oncue.server.dashboard.live import Broadcaster, Topic

Events = AsyncIterator[str]


class Stage:
    """Tabs that listen to topics, whose text a test sets."""

    def __init__(self) -> None:
        self.broadcaster = Broadcaster(self._render)
        self.shows: str | Exception = "a"
        self.may_see = True

    async def _render(self, topic: Topic) -> str:
        if isinstance(self.shows, Exception):
            raise self.shows
        return f"{self.shows} {topic[0]}"

    async def open(self, address: str, who: str) -> Events:
        """One more tab, which has had its first line."""

        async def stands() -> bool:
            return self.may_see

        events: Any = self.broadcaster.stream((address, ("read",), ""), 0.001, who, stands).body_iterator
        assert (await anext(events)).startswith("retry:")
        return events


@pytest.fixture
def stage(runner: asyncio.Runner) -> Iterator[Stage]:
    made = Stage()
    yield made
    runner.run(made.broadcaster.close())


async def told(events: Events, name: str) -> str:
    """The next event of this name."""
    async with asyncio.timeout(5):
        async for event in events:
            if event.startswith(f"event: {name}\n"):
                return str(json.loads(event.partition("data: ")[2]))
    raise AssertionError(f"the stream ended without {name}")


async def ended(events: Events) -> None:
    async with asyncio.timeout(5):
        async for _ in events:
            pass


# --- room -----------------------------------------------------------------------------------------------------------


async def test_one_visitor_with_all_the_tabs_keeps_no_other_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_LISTENERS", 4)
    greedy = [await stage.open("/", "greedy") for _ in range(4)]
    with pytest.raises(Problem, match="Too many tabs"):
        await stage.open("/", "greedy")
    hers = [await stage.open("/", "anna")]
    await told(hers[0], "page")
    await ended(greedy[0])
    await told(greedy[1], "page")
    hers.append(await stage.open("/", "anna"))
    with pytest.raises(Problem, match="Too many tabs"):
        await stage.open("/", "anna")
    assert stage.broadcaster.listeners == 4


async def test_one_visitor_with_all_the_topics_keeps_no_other_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_TOPICS", 3)
    greedy = [await stage.open(f"/jobs?key={number}", "greedy") for number in range(3)]
    with pytest.raises(Problem, match="Too many tabs"):
        await stage.open("/jobs?key=4", "greedy")
    assert await told(await stage.open("/", "anna"), "page") == "a /"
    await ended(greedy[0])
    await told(greedy[1], "page")


# --- ends -----------------------------------------------------------------------------------------------------------


async def test_a_stream_ends_with_its_session(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "VISITOR_SECONDS", 0.01)
    events = await stage.open("/", "anna")
    await told(events, "page")
    stage.may_see = False
    await ended(events)
    assert stage.broadcaster.listeners == 0


class _Server:
    """As uvicorn's: the handler of its signal is its own."""

    def __init__(self) -> None:
        self.should_exit = False

    def handle_exit(self, number: int, frame: object) -> None:
        self.should_exit = True


@pytest.fixture
def server_around() -> Any:
    server = _Server()
    before = signal.signal(signal.SIGTERM, server.handle_exit)
    yield server
    signal.signal(signal.SIGTERM, before)


async def test_streams_end_when_the_server_around_us_stops(
    stage: Stage, server_around: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STOPPING_SECONDS", 0.01)
    events = await stage.open("/", "anna")
    await told(events, "page")
    assert not stopping.is_stopping()
    signal.raise_signal(signal.SIGTERM)
    await ended(events)
    with pytest.raises(Problem, match="about to stop"):
        await stage.open("/", "anna")


async def test_a_slow_tab_is_not_cut_off_by_an_error(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a stream's time comes while it waits for its tab: it ends quietly at its next step."""
    monkeypatch.setattr(live, "STREAM_SECONDS", 0.02)
    events = await stage.open("/", "anna")
    await asyncio.sleep(0.05)
    await ended(events)


async def test_a_tab_that_takes_nothing_off_gives_its_place_up(stage: Stage) -> None:
    events = await stage.open("/", "anna")
    async with asyncio.timeout(5):
        while stage.broadcaster.listeners:
            stage.shows = str(stage.broadcaster.reads)
            await asyncio.sleep(0.001)
    await ended(events)


# --- what cannot be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "event"),
    [(StoreError("It does not answer."), "away"), (JobNotFound("There is no job 7."), "stale")],
)
async def test_a_page_that_is_gone_is_told_from_a_database_that_is_away(
    stage: Stage, error: Exception, event: str
) -> None:
    events = await stage.open("/jobs/7", "anna")
    assert await told(events, "page") == "a /jobs/7"
    stage.shows = error
    assert await told(events, event) == str(error)
    stage.shows = "a"
    assert await told(events, "page") == "a /jobs/7", "what has not changed is sent again"


async def test_an_unexpected_error_is_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.shows = ValueError("a secret of the code")
    events = await stage.open("/jobs?a=\n2026 ERROR all is lost", "anna")
    for _ in range(3):
        assert "secret" not in await told(events, "stale")
    failures = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(failures) == 1
    assert "\n" not in failures[0].getMessage(), "what a visitor asks for writes no line of its own"


async def test_a_page_that_waits_long_for_its_turn_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LATE_SECONDS", 0.02)
    stuck = asyncio.Event()
    render: Callable[[Topic], Any] = stage._render

    async def slow(topic: Topic) -> str:
        if topic[0] != "/":
            await stuck.wait()
        return str(await render(topic))

    stage.broadcaster._render = slow
    opened = [await stage.open(f"/jobs/{number}", "anna") for number in range(live.AT_ONCE)]
    await asyncio.sleep(0.02)
    events = await stage.open("/", "anna")
    assert "waits for its turn" in await told(events, "away")
    stuck.set()
    assert await told(events, "page") == "a /"
    assert len(opened) == live.AT_ONCE
