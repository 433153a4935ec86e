"""What users hand in, checked: every complaint names the field and what it expects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from oncue.errors import InvalidJob, InvalidSchedule
from oncue.model import MAX_PRIORITY, Delivery, Missed, State
from oncue.policy.durations import Duration, seconds
from oncue.policy.options import FEWEST_CRASHES
from oncue.policy.statuses import state_named

LONGEST_NAME = 128
LONGEST_KEY = 512
MOST_RETRIES = 1_000_000
MOST_INSTANCES = 10_000
LARGEST_LIMIT = 1_000_000
SHORTEST_SESSION, LONGEST_SESSION = 60.0, 30 * 86400.0
SHORTEST_GRACE = 1.0
DEFAULT_GRACE = 300.0
EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def checked_name(name: str, field: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise InvalidJob(field, f"expected a printable name of 1 to {LONGEST_NAME} characters, not {name!r:.150}")
    return name


def checked_schedule_name(name: str) -> str:
    """A schedule's name is not a number: over HTTP a number is a schedule's id."""
    if checked_name(name, "name").isascii() and name.isdecimal():
        raise InvalidSchedule("name", f"expected a name that is not a number, not {name!r}")
    return name


def checked_queue(name: str) -> str:
    """A queue's name has no commas and no spaces: lists of queues are written with them."""
    if isinstance(name, str) and ("," in name or any(character.isspace() for character in name)):
        raise InvalidJob("queue", f"expected a name without commas and spaces, not {name!r}")
    return checked_name(name, "queue")


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY:
        raise InvalidJob("priority", f"expected a whole number from 0 to {MAX_PRIORITY}, not {priority!r}")
    return priority


def checked_status(status: str) -> State:
    """A state by its name, or by the name that the crawler's operators know."""
    try:
        return state_named(status if isinstance(status, str) else repr(status))
    except ValueError as error:
        raise InvalidJob("status", str(error)) from None


def checked_limit(limit: int, field: str) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_LIMIT:
        raise InvalidJob(field, f"expected a whole number from 1 to {LARGEST_LIMIT:,}, or None, not {limit!r}")
    return limit


def checked_key(key: str) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or "\x00" in key or not _encodable(key):
        raise InvalidJob("key", f"expected a text of 1 to {LONGEST_KEY} characters, not {key!r:.100}")
    return key


def _encodable(text: str) -> bool:
    """Half a surrogate pair is a text that no database takes, or gives back."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_crashes(max_crashes: int | str) -> int | None:
    """How many deaths of its process a job is allowed; None for any number."""
    if max_crashes == "never":
        return None
    if isinstance(max_crashes, bool) or not isinstance(max_crashes, int) or max_crashes < FEWEST_CRASHES:
        raise InvalidJob(
            "max_crashes", f'expected a whole number from {FEWEST_CRASHES} on, or "never", not {max_crashes!r}'
        )
    return max_crashes


def checked_retries(max_retries: int) -> int:
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or not 0 <= max_retries <= MOST_RETRIES:
        raise InvalidJob("max_retries", f"expected a whole number from 0 to {MOST_RETRIES:,}, not {max_retries!r}")
    return max_retries


def checked_delivery(delivery: Delivery) -> Delivery:
    if delivery not in ("at_least_once", "at_most_once"):
        raise ValueError(f"delivery: expected 'at_least_once' or 'at_most_once', not {delivery!r}")
    return delivery


def checked_missed(missed: Missed) -> Missed:
    if missed not in ("latest", "each", "none"):
        raise InvalidSchedule("missed", f"expected 'latest', 'each' or 'none', not {missed!r}")
    return missed


def checked_grace(grace: Duration) -> float:
    """No slot is decided at its very instant: with hardly any grace, all of them would be missed."""
    try:
        found = seconds(grace, "grace")
    except ValueError as error:
        raise InvalidSchedule("grace", str(error).removeprefix("grace: ")) from None
    if found < SHORTEST_GRACE:
        raise InvalidSchedule("grace", f"expected at least {SHORTEST_GRACE:g} second, not {grace!r}")
    return found


def checked_max_instances(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_INSTANCES:
        raise InvalidSchedule("max_instances", f"expected a whole number from 1 to {MOST_INSTANCES:,}, not {count!r}")
    return count


def checked_moment(at: datetime, field: str) -> datetime:
    """An instant that a schedule can be asked about. It is only ever compared in UTC."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidSchedule(field, f"expected a datetime with a time zone, not {at!r}")
    try:
        moment = at.astimezone(UTC)
    except OverflowError:
        moment = EARLIEST - timedelta(days=1)
    if not EARLIEST <= moment < LATEST:
        raise InvalidSchedule(field, f"expected an instant from {EARLIEST:%Y} up to {LATEST:%Y}, not {at.isoformat()}")
    return moment


def checked_instant(at: datetime) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidJob("at", f"expected a datetime with a time zone, not {at!r}")
    return at


def checked_session_lifetime(value: Duration, field: str) -> float:
    """For how many seconds a browser may stay signed in."""
    length = checked_duration(value, field)
    if not SHORTEST_SESSION <= length <= LONGEST_SESSION:
        raise InvalidJob(field, f"expected a duration from 1 minute to 30 days, not {value!r}")
    return length


def checked_duration(value: Duration, field: str) -> float:
    try:
        return seconds(value, field)
    except ValueError as error:
        raise InvalidJob(field, str(error).removeprefix(f"{field}: ")) from None
