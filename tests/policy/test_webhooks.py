"""The fields of a webhook, checked."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue import Exponential, Ladder, OncueError
from oncue.errors import InvalidWebhook, WebhookNotFound
from oncue.policy.headers import HIDDEN, MOST_HEADERS
from oncue.policy.retry import DEFAULT_LADDER
from oncue.policy.webhooks import CHECKS, DEFAULT_TIMEOUT, METHODS, checked_fields
from oncue.webhooks import new_secret
from oncue.webhooks.secrets import redacted, redacted_secrets

SECRET = new_secret(Random(1).randbytes)
STEPS_OF_21 = ["1s"] * 21

GOOD: list[tuple[str, Any, Any]] = [
    ("name", "orders", "orders"),
    ("name", "7 orders/é", "7 orders/é"),
    ("description", "", ""),
    ("description", "x" * 1000, "x" * 1000),
    ("url", "https://shop.example/hook", "https://shop.example/hook"),
    *[("method", method, method) for method in METHODS],
    ("method", "post", "POST"),
    ("headers", {}, {}),
    ("headers", {"Authorization": "Bearer a b"}, {"Authorization": "Bearer a b"}),
    ("headers", {"X-Key": "env:ONCUE_SECRET_KEY", "x-empty": ""}, {"X-Key": "env:ONCUE_SECRET_KEY", "x-empty": ""}),
    ("headers", {"!#$%&'*+-.^_`|~09Az": "~ !"}, {"!#$%&'*+-.^_`|~09Az": "~ !"}),
    ("content_type", "application/json", "application/json"),
    ("content_type", "text/plain; charset=UTF-8", "text/plain; charset=UTF-8"),
    ("content_type", 'a/b;x="c d";y=e', 'a/b;x="c d";y=e'),
    ("body", None, None),
    ("body", '{"a": {{id}}}', '{"a": {{id}}}'),
    ("timeout", 1, 1.0),
    ("timeout", 60, 60.0),
    ("timeout", "10s", 10.0),
    ("timeout", "1m", 60.0),
    ("timeout", timedelta(seconds=2.5), 2.5),
    ("secrets", [], ()),
    ("secrets", SECRET, (SECRET,)),
    ("secrets", [SECRET, "env:ONCUE_SECRET_A"], (SECRET, "env:ONCUE_SECRET_A")),
    ("secrets", (SECRET,) * 5, (SECRET,) * 5),
    ("retry", Ladder("1s", "2s"), Ladder("1s", "2s")),
    ("retry", ["30s", 120, timedelta(minutes=10)], DEFAULT_LADDER),
    ("retry", DEFAULT_LADDER.stored(), DEFAULT_LADDER),
    ("retry", STEPS_OF_21[:20], Ladder(*STEPS_OF_21[:20])),
    ("retry", [], Ladder()),
    ("retry", (), Ladder()),
    ("retry", 0, Ladder()),
    ("retry", Ladder().stored(), Ladder()),
    ("redirects", 0, 0),
    ("redirects", 5, 5),
    ("ca", None, None),
    ("ca", "internal-ca.2030.pem", "internal-ca.2030.pem"),
    ("certificate", "x" * 128, "x" * 128),
    ("enabled", True, True),
    ("enabled", False, False),
]


@pytest.mark.parametrize(("field", "value", "checked"), GOOD)
def test_what_is_taken(field: str, value: Any, checked: Any) -> None:
    found = checked_fields({field: value})
    assert found == {field: checked}
    assert type(found[field]) is type(checked)


BAD: list[tuple[str, Any, str]] = [
    ("name", "", "expected a printable name"),
    ("name", "x" * 129, "expected a printable name of 1 to 128 characters"),
    ("name", "a\nb", "expected a printable name"),
    ("name", " a", "expected a printable name"),
    ("name", None, "expected a printable name"),
    ("name", "42", "expected a name that is not a number"),
    ("name", "https://shop.example:443", "expected a name and not a URL"),
    ("name", "..", "expected a name that is no step in a path"),
    ("name", ".", "expected a name that is no step in a path"),
    ("description", "x" * 1001, "expected a text of at most 1000 characters"),
    ("description", "a\x00b", "expected a text"),
    ("description", "\ud800", "expected a text"),
    ("description", None, "expected a text"),
    ("url", "ftp://shop.example/", "expected"),
    ("url", None, "expected"),
    ("method", "TRACE", "expected one of GET, POST, PUT, PATCH, DELETE, HEAD, not 'TRACE'"),
    ("method", "CONNECT", "expected one of"),
    ("method", "POST\r\nx: y", "expected one of"),
    ("method", 7, "expected one of"),
    ("headers", [("a", "b")], "expected names with values"),
    ("headers", None, "expected names with values"),
    ("headers", {f"x-{n}": "" for n in range(51)}, "expected at most 50, not 51"),
    ("headers", {"x": "a" * 9000}, "expected at most 8,192 bytes in all, not 9,005"),
    ("headers", {"X-A": "1", "x-a": "2"}, "x-a is there twice"),
    ("headers", {"x": HIDDEN}, r"the value of x: expected the value itself; \(hidden\) is what answers show"),
    ("headers", {"Content-Type": "text/plain"}, "Content-Type is the field content_type"),
    ("content_type", "json", "expected a type such as application/json"),
    ("content_type", "", "expected a type"),
    ("content_type", "text/plain\r\nx: y", "expected a type"),
    ("content_type", "text/plain\n", "expected a type"),
    ("content_type", "text/plain; charset", "expected a type"),
    ("content_type", "text/" + "x" * 200, "expected a type"),
    ("content_type", None, "expected a type"),
    ("content_type", "text/plain; charset=iso-8859-1", "expected the charset utf-8, .* not 'iso-8859-1'"),
    ("content_type", 'text/plain;Charset="latin1"', "expected the charset utf-8"),
    ("body", 7, "expected a template"),
    ("body", b"x", "expected a template"),
    ("body", "\x00", "expected a template"),
    ("body", "\ud800", "expected a template"),
    ("body", "{{user}}", r"unknown placeholder \{\{user\}\}"),
    ("body", "not json {{id}}", "expected JSON"),
    ("timeout", 0.999, "expected 1 to 60 seconds, not 0.999"),
    ("timeout", 60.001, "expected 1 to 60 seconds, not 60.001"),
    ("timeout", "61s", "expected 1 to 60 seconds"),
    ("timeout", 0, "expected 1 to 60 seconds"),
    ("timeout", -1, "expected a duration"),
    ("timeout", "soon", "expected a duration"),
    ("timeout", None, "expected a duration"),
    ("timeout", True, "expected a duration"),
    ("timeout", float("nan"), "expected a duration"),
    ("timeout", float("inf"), "expected a duration"),
    ("secrets", [SECRET] * 6, "expected a list of at most 5 secrets"),
    ("secrets", None, "expected a list"),
    ("secrets", {"a": SECRET}, "expected a list"),
    (
        "secrets",
        [SECRET, None],
        "secret 2: expected `whsec_` followed by 24 to 64 bytes in base64, or `env:ONCUE_SECRET_`",
    ),
    ("secrets", [SECRET, "env:DATABASE_URL"], "secret 2: expected"),
    ("secrets", redacted_secrets([SECRET]), "secret 1: expected"),
    ("retry", 3, "expected at most 20 waits such as"),
    ("retry", False, "expected at most 20 waits"),
    ("retry", STEPS_OF_21, "expected at most 20 waits"),
    ("retry", Ladder(*STEPS_OF_21), "expected at most 20 waits"),
    ("retry", "30s", "expected at most 20 waits"),
    ("retry", None, "expected at most 20 waits"),
    ("retry", Exponential(), "expected at most 20 waits"),
    ("retry", Exponential().stored(), "expected at most 20 waits"),
    ("retry", {"kind": "ladder"}, "expected at most 20 waits"),
    ("retry", ["30s", "soon"], "step 2: expected a duration"),
    ("redirects", 6, r"expected a whole number from 0 \(none is followed\) to 5, not 6"),
    ("redirects", -1, "expected a whole number"),
    ("redirects", True, "expected a whole number"),
    ("redirects", 1.0, "expected a whole number"),
    ("redirects", "1", "expected a whole number"),
    *[
        (field, name, "expected the name of a file without a path")
        for field in ("ca", "certificate")
        for name in ("", ".", "..", ".hidden", "a/b", "/etc/passwd", "a\\b", "a\n", "a\x00", "x" * 129, "-a", "é", 7)
    ],
    ("enabled", 1, "expected True or False, not 1"),
    ("enabled", None, "expected True or False"),
    ("version", 7, "expected one of the fields name, description, url"),
]


@pytest.mark.parametrize(("field", "value", "complaint"), BAD)
def test_what_is_refused_by_name(field: str, value: Any, complaint: str) -> None:
    with pytest.raises(InvalidWebhook, match=f"^{field}: {complaint}") as refused:
        checked_fields({field: value})
    assert refused.value.field == field
    assert isinstance(refused.value, OncueError)
    assert isinstance(refused.value, ValueError)
    assert len(str(refused.value)) < 400


@pytest.mark.contract("HOOK-4")
def test_the_timeout_is_from_1_to_60_seconds_and_30_by_default() -> None:
    assert DEFAULT_TIMEOUT == 30
    assert [checked_fields({"timeout": wanted})["timeout"] for wanted in (1, DEFAULT_TIMEOUT, 60)] == [1, 30, 60]
    for wanted in (0, 0.5, "999ms", "1m1s", 61, 3600):
        with pytest.raises(InvalidWebhook, match=r"^timeout: expected 1 to 60 seconds"):
            checked_fields({"timeout": wanted})


@pytest.mark.contract("HOOK-2")
def test_four_attempts_by_default() -> None:
    assert DEFAULT_LADDER.steps == (30.0, 120.0, 600.0)
    assert DEFAULT_LADDER.default_max_retries() == 3
    assert [DEFAULT_LADDER.bounds(retry) for retry in range(3)] == [(30, 30), (120, 120), (600, 600)]


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Transfer-Encoding", "connection", "UPGRADE", "te", "Trailer", "Keep-Alive", "Expect",
        "Proxy-Authorization", "proxy-connection", "webhook-id", "Webhook-Signature", "webhook-timestamp",
        "Content_Length", "transfer_encoding", "WEBHOOK_ID", "webhook-anything",
    ],
)  # fmt: skip
def test_headers_that_oncue_or_the_connection_sets_cannot_be_chosen(name: str) -> None:
    with pytest.raises(InvalidWebhook, match=f"^headers: {name} is set by oncue or by the connection"):
        checked_fields({"headers": {"accept": "*/*", name: "x"}})


@pytest.mark.parametrize(
    "name", ["", "a b", "a:", "Authorization: Bearer hunter2", "a\r\nb", "é", "a\x00", "a\n", "(a)", 7, None]
)
def test_a_malformed_name_is_found_by_its_number(name: Any) -> None:
    """It may be a whole line, secret and all."""
    with pytest.raises(InvalidWebhook, match=r"^headers: the name of header 2: expected letters") as refused:
        checked_fields({"headers": {"accept": "*/*", name: "\x00"}})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        "hunter2\r\nx-evil: 1", "hunter2\n", "\rhunter2", "hunter2\x00", "hunter2\x7f", "hunter2\x1b[2J", "hunter2\t1",
        " hunter2", "hunter2 ", "hunter2é", "hunter2\u2028", "hunter2\ud800", 7, None, b"hunter2", "env:hunter2",
        "env:DATABASE_URL", "env:ONCUE_SECRET_hunter2 ", "env:ONCUE_SECRET_", "env:ONCUE_SECRET_A env:DATABASE_URL",
    ],
)  # fmt: skip
def test_a_malformed_value_is_named_and_not_repeated(value: Any) -> None:
    with pytest.raises(InvalidWebhook, match=r"^headers: the value of X-Key: expected ") as refused:
        checked_fields({"headers": {"X-Key": value}})
    assert "hunter2" not in str(refused.value)
    assert "DATABASE_URL" not in str(refused.value)


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_headers_that_pass_can_be_written_as_lines(headers: dict[str, str]) -> None:
    try:
        taken = checked_fields({"headers": headers})["headers"]
    except InvalidWebhook:
        return
    lines = "".join(f"{name}: {value}\r\n" for name, value in taken.items())
    read = [line.partition(": ") for line in lines.encode("ascii").decode().splitlines()]
    assert {name: value for name, _, value in read} == headers


def test_the_most_headers() -> None:
    headers = {f"x-{number}": "1" for number in range(MOST_HEADERS)}
    assert checked_fields({"headers": headers}) == {"headers": headers}


def test_headers_as_they_are_shown_do_not_replace_the_real_ones() -> None:
    with pytest.raises(InvalidWebhook, match="the value of Authorization: expected the value itself"):
        checked_fields({"headers": redacted({"Authorization": "Bearer a"})})


@pytest.mark.parametrize("secret", ["hunter2", "whsec_hunter2", "env:hunter2", SECRET + "x\n", "whsec_" + "=" * 30])
def test_a_malformed_secret_is_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidWebhook, match=r"^secrets: secret 1: expected `whsec_`") as refused:
        checked_fields({"secrets": [secret]})
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_template_is_judged_by_its_content_type() -> None:
    plain = {"content_type": "text/plain", "body": "hello {{id}}"}
    assert checked_fields(plain) == plain
    assert checked_fields(dict(reversed(plain.items()))) == plain
    with pytest.raises(InvalidWebhook, match=r"^body: expected JSON"):
        checked_fields(plain | {"content_type": "application/json"})


def test_every_field_has_good_and_bad_examples() -> None:
    assert {field for field, _, _ in GOOD} == {field for field, _, _ in BAD} - {"version"} == set(CHECKS)


@given(st.sampled_from(sorted(CHECKS)), st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists))
def test_whatever_is_handed_in_is_taken_or_refused_by_name(field: str, value: Any) -> None:
    complained_of = []
    try:
        checked_fields({field: value})
    except InvalidWebhook as refused:
        complained_of.append(refused.field)
    assert set(complained_of) <= {field}


def test_a_webhook_that_is_not_there() -> None:
    assert issubclass(WebhookNotFound, OncueError)
    assert issubclass(WebhookNotFound, LookupError)
