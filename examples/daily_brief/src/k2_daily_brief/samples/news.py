"""The invented news: which events there are on a day, who tells of them, and in which words."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

OUTLETS = {
    "courier": "The Harbour Courier",
    "wire": "Valley Wire",
    "gazette": "Old Town Gazette",
    "ledger": "Northern Ledger",
}
NEWEST = timedelta(minutes=7)
BETWEEN = timedelta(minutes=11)


@dataclass(frozen=True, slots=True)
class Story:
    """One outlet's article about one event."""

    outlet: str
    event: str
    title: str
    summary: str
    published_at: datetime
    day: date

    @property
    def path(self) -> str:
        """Where it can be read. The day is that of the edition, also for what was written before midnight."""
        return f"/samples/articles/{self.day}/{self.event}/{self.outlet}"


def stories(now: datetime) -> list[Story]:
    """Today's stories, newest first. They stay the same for an hour, and their addresses for the whole day."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    editions = _editions()
    told = editions[hour.toordinal() % len(editions)]
    times = (hour - NEWEST - number * BETWEEN for number in range(len(told)))
    return [Story(*story, time, hour.date()) for story, time in zip(reversed(told), times, strict=True)]


@cache
def _editions() -> list[list[tuple[str, str, str, str]]]:
    """For each edition (outlet, event, title, summary) of all its stories, oldest first."""
    document = tomllib.loads(Path(__file__).with_name("news.toml").read_text("utf-8"))
    return [
        [
            (outlet, event["name"], *event[outlet])
            for outlet in OUTLETS
            for event in edition["events"]
            if outlet in event
        ]
        for edition in document["editions"]
    ]
