"""The fields of a webhook, checked when it is saved: every complaint names the field and what it expects.

No complaint repeats a secret or the value of a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from oncue.errors import InvalidJob, InvalidSchedule, InvalidWebhook
from oncue.policy.checks import checked_schedule_name
from oncue.policy.content_types import JSON_TYPE, checked_content_type
from oncue.policy.durations import seconds
from oncue.policy.headers import checked_headers
from oncue.policy.retry import Ladder
from oncue.policy.secrets import EXPECTED_REFERENCE, EXPECTED_SECRET, is_reference, signing_key, variable
from oncue.policy.templates import check_template
from oncue.policy.urls import checked_url

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
SHORTEST_TIMEOUT, DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 1.0, 30.0, 60.0
MOST_STEPS = 20
MOST_SECRETS = 5
MOST_REDIRECTS = 5
LONGEST_DESCRIPTION = 1000
LONGEST_FILE_NAME = 128

_FILE_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{LONGEST_FILE_NAME - 1}}}")


def checked_fields(given: Mapping[str, object]) -> dict[str, Any]:
    """The given fields of a webhook, checked. Raises InvalidWebhook.

    A template is checked against the content type: an edit of either hands in both, as they are after it.
    """
    unknown = [name for name in given if name not in CHECKS]
    if unknown:
        raise InvalidWebhook(str(unknown[0])[:100], f"expected one of the fields {', '.join(CHECKS)}")
    checked = {name: CHECKS[name](value) for name, value in given.items()}
    if checked.get("body") is not None:
        check_template(checked["body"], checked.get("content_type", JSON_TYPE))
    return checked


def checked_webhook_name(name: object) -> str:
    """A name as schedules have them. It is also the name of a group, where `://` marks a bare URL."""
    try:
        checked = checked_schedule_name(name)  # type: ignore[arg-type]
    except (InvalidJob, InvalidSchedule) as error:
        raise InvalidWebhook("name", str(error).removeprefix("name: ")) from None
    if checked in (".", ".."):  # in the path of a URL they are steps
        raise InvalidWebhook("name", f"expected a name that is no step in a path, not {name!r}")
    if "://" in checked:
        raise InvalidWebhook("name", f"expected a name and not a URL, not {name!r:.150}")
    return checked


def checked_description(text: object) -> str:
    if not isinstance(text, str) or len(text) > LONGEST_DESCRIPTION or not _is_storable(text):
        raise InvalidWebhook("description", f"expected a text of at most {LONGEST_DESCRIPTION} characters")
    return text


def checked_method(method: object) -> str:
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise InvalidWebhook("method", f"expected one of {', '.join(METHODS)}, not {method!r:.100}")
    return method.upper()


def checked_body(template: object) -> str | None:
    """A template, or None. Its placeholders are checked with its content type, by `checked_fields`."""
    if template is not None and (not isinstance(template, str) or not _is_storable(template)):
        raise InvalidWebhook("body", "expected a template, which is a text, or None")
    return template


def checked_timeout(timeout: object) -> float:
    """Seconds that an attempt may take."""
    try:
        found = seconds(timeout, "timeout")  # type: ignore[arg-type]
    except ValueError as error:
        raise InvalidWebhook("timeout", str(error).removeprefix("timeout: ")) from None
    if not SHORTEST_TIMEOUT <= found <= LONGEST_TIMEOUT:
        raise InvalidWebhook("timeout", f"expected {SHORTEST_TIMEOUT:g} to {LONGEST_TIMEOUT:g} seconds, not {found:g}")
    return found


def checked_secrets(secrets: object) -> tuple[str, ...]:
    """The signing secrets, the newest first by convention: each makes a signature. One may be given as a text."""
    listed = (secrets,) if isinstance(secrets, str) else secrets
    if not isinstance(listed, tuple | list) or len(listed) > MOST_SECRETS:
        raise InvalidWebhook("secrets", f"expected a list of at most {MOST_SECRETS} secrets")
    return tuple(_checked_secret(secret, number) for number, secret in enumerate(listed, 1))


def _checked_secret(secret: object, number: int) -> str:
    try:
        if not isinstance(secret, str):
            raise ValueError
        _ = variable(secret) if is_reference(secret) else signing_key(secret)
    except ValueError:
        expected = f"{EXPECTED_SECRET}, or {EXPECTED_REFERENCE}"
        raise InvalidWebhook("secrets", f"secret {number}: expected {expected}") from None
    return secret


def checked_retry(retry: object) -> Ladder:
    """The waits between attempts: a Ladder, its steps, or a Ladder as it is stored. None of them: a single attempt."""
    if retry == 0 and not isinstance(retry, bool):
        return Ladder()
    steps = retry.get("steps") if isinstance(retry, Mapping) and retry.get("kind") == "ladder" else retry
    steps = steps.steps if isinstance(steps, Ladder) else steps
    if not isinstance(steps, tuple | list) or len(steps) > MOST_STEPS:
        expected = f"at most {MOST_STEPS} waits such as ['30s', '2m', '10m'], [] for no retries, or a Ladder"
        raise InvalidWebhook("retry", f"expected {expected}")
    try:
        return Ladder(*steps)
    except ValueError as error:
        raise InvalidWebhook("retry", str(error)) from None


def checked_redirects(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_REDIRECTS:
        expected = f"a whole number from 0 (none is followed) to {MOST_REDIRECTS}"
        raise InvalidWebhook("redirects", f"expected {expected}, not {count!r:.100}")
    return count


def checked_ca(name: object) -> str | None:
    return _checked_file_name(name, "ca")


def checked_certificate(name: object) -> str | None:
    return _checked_file_name(name, "certificate")


def _checked_file_name(name: object, field: str) -> str | None:
    """A name without a path: the file is in the directory that the operator of the workers has set."""
    if name is not None and (not isinstance(name, str) or not _FILE_NAME.fullmatch(name)):
        expected = f"the name of a file without a path: at most {LONGEST_FILE_NAME} letters, digits and any of ._-"
        raise InvalidWebhook(field, f"expected {expected}, not beginning with . or -")
    return name


def checked_enabled(enabled: object) -> bool:
    if not isinstance(enabled, bool):
        raise InvalidWebhook("enabled", f"expected True or False, not {enabled!r:.100}")
    return enabled


def _is_storable(text: str) -> bool:
    """PostgreSQL takes no NUL, and no half of a surrogate pair."""
    return "\x00" not in text and text.encode(errors="ignore").decode() == text


CHECKS: dict[str, Callable[[object], Any]] = {
    "name": checked_webhook_name,
    "description": checked_description,
    "url": checked_url,
    "method": checked_method,
    "headers": checked_headers,
    "content_type": checked_content_type,
    "body": checked_body,
    "timeout": checked_timeout,
    "secrets": checked_secrets,
    "retry": checked_retry,
    "redirects": checked_redirects,
    "ca": checked_ca,
    "certificate": checked_certificate,
    "enabled": checked_enabled,
}
"""The fields that a user chooses, each with its check."""
