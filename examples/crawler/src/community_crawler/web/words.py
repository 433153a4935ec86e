"""oncue's documents in the crawler's words, and the crawler's in oncue's. Pure.

subreddit_id       a task and its arguments
crawling, success  running, succeeded; a crawl that waits for a retry or for later is queued, and not visible yet
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from community_crawler.parsing import is_name

TASK = "crawl"
ID = "subreddit_id"
LARGEST_ID = 2**63 - 1
WORDS = {"running": "crawling", "succeeded": "success", "scheduled": "queued", "retrying": "queued"}
STATUSES = ("queued", "crawling", "success", "failed", "cancelled", "skipped")
OF_A_PERSON = (ID, "name", "priority", "max_retries")

_VERBATIM = ("args", "result")
_TEXTS = ("detail", "message")
_WORD = re.compile(rf"(?<!['\"\w-])({'|'.join(WORDS)})(?!['\"\w-])")

Document: TypeAlias = dict[str, Any]


class Refused(Exception):
    """A field is not as expected."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


# --- inward ---------------------------------------------------------------------------------------------------------


def new_schedule_inward(body: Document) -> Document:
    """A new schedule has something to do: a community to crawl, or a task in oncue's own words."""
    if not {ID, "task", "target"}.intersection(body):
        raise Refused(ID, "expected, and not there")
    return schedule_inward(body)


def schedule_inward(body: Document) -> Document:
    """A schedule in the crawler's words as oncue wants it. One in oncue's own words stays as it is."""
    if ID not in body:
        return body
    twice = sorted({"task", "target", "args"}.intersection(body))
    if twice:
        raise Refused(ID, f"give either this or {' and '.join(twice)}, not both")
    rest = {name: value for name, value in body.items() if name != ID}
    return {**rest, "task": TASK, "args": {ID: checked_id(body[ID])}}


def checked_request(body: Document) -> Document:
    """A request for a crawl: of a community by its id or its name, perhaps with a priority and a number of retries."""
    unknown = sorted(set(body).difference(OF_A_PERSON))
    if unknown:
        raise Refused(unknown[0], f"there is no such field; expected are: {', '.join(OF_A_PERSON)}")
    if (ID in body) == ("name" in body):
        raise Refused(ID, "expected either this or name")
    if ID in body:
        checked_id(body[ID])
    else:
        _checked_name(body["name"])
    return body


def crawl_inward(body: Document, number: int) -> Document:
    """A checked request as a job for oncue, which checks the rest."""
    options = {name: body[name] for name in ("priority", "max_retries") if name in body}
    return {"task": TASK, "args": {ID: number}, **options}


def checked_status(text: str) -> str:
    """Statuses separated by commas, in the crawler's words or in oncue's own."""
    for word in text.split(",") if text else ():
        if word.strip().lower() not in {*STATUSES, *WORDS}:
            raise Refused("status", f"expected one of {', '.join(STATUSES)}, not {word!r:.100}")
    return text


def status_inward(body: Document) -> Document:
    if isinstance(body.get("status"), str):
        checked_status(body["status"])
    return body


def checked_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_ID:
        raise Refused(ID, f"expected the id of a community, not {value!r:.100}")
    return value


def _checked_name(value: Any) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise Refused("name", f"expected the name of a community (letters, digits, - and _), not {value!r:.100}")
    return value


# --- outward --------------------------------------------------------------------------------------------------------


def outward(document: Any) -> Any:
    """An answer in the crawler's words: the statuses everywhere, and `subreddit_id` in every record that has one."""
    if isinstance(document, list):
        return [outward(one) for one in document]
    if not isinstance(document, dict):
        return document
    told = {name: _told(name, value) for name, value in document.items()}
    args = document.get("args")
    return {**told, ID: args.get(ID)} if isinstance(args, dict) else told


def _told(name: str, value: Any) -> Any:
    if name in _VERBATIM:
        return value
    if isinstance(value, str) and name in ("status", "outcome"):
        return WORDS.get(value, value)
    if isinstance(value, str) and name in _TEXTS:
        return _WORD.sub(lambda found: WORDS[found[1]], value)
    return outward(value)


def stats_outward(queue: Document | None) -> Document:
    """How many crawls there are, from the figures of their queue, which has none before the first crawl."""
    found = queue or {}
    running, succeeded = found.get("running", 0), found.get("succeeded", 0)
    return {
        "queued": found.get("queued", 0) + found.get("later", 0),
        **dict.fromkeys(("running", "crawling"), running),
        "failed": found.get("failed", 0),
        **dict.fromkeys(("completed", "success"), succeeded),
        "cancelled": found.get("cancelled", 0),
        "skipped": found.get("skipped", 0),
        "counted_at": found.get("counted_at"),
    }
