"""Signatures of deliveries: what oncue signs is verified, by others too, and nothing else is."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from oncue import OncueError
from oncue.clock import wall
from oncue.webhooks import WebhookVerificationError, new_secret, sign, verify

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECRET, OTHER, THIRD = (new_secret(Random(seed).randbytes) for seed in (1, 2, 3))
ID = "0197a2c8-1b2c-8000-8000-000000000001"
BODY = b'{"order":7}'

keys = st.binary(min_size=24, max_size=64)
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="."), min_size=1, max_size=60)


def secret_of(key: bytes, padding: bool = True) -> str:
    text = "whsec_" + base64.b64encode(key).decode()
    return text if padding else text.rstrip("=")


def test_the_headers_of_a_known_message() -> None:
    """The example of the scheme's own documentation of signatures, worked out by its reference library."""
    headers = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", NOW, '{"test": 2432232314}'
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1893499200",
        "webhook-signature": standardwebhooks.Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek", NOW, '{"test": 2432232314}'
        ),
    }


def test_the_published_signature() -> None:
    """So that the two libraries cannot be wrong together."""
    at = datetime.fromtimestamp(1614265330, UTC)
    headers = sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", at, '{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.contract("HOOK-19")
@given(key=keys, id=ids, body=st.text(), padding=st.booleans())
def test_the_public_library_verifies_what_oncue_signs(key: bytes, id: str, body: str, padding: bool) -> None:
    secret = secret_of(key, padding)
    headers = sign(secret, id, wall(), body)
    standardwebhooks.Webhook(secret).verify(body, headers, json_parse=False)


@pytest.mark.contract("HOOK-19")
@given(key=keys, id=ids, body=st.text(), padding=st.booleans())
def test_oncue_verifies_what_the_public_library_signs(key: bytes, id: str, body: str, padding: bool) -> None:
    secret = secret_of(key, padding)
    signature = standardwebhooks.Webhook(secret).sign(id, NOW, body)
    stamp = str(int(NOW.timestamp()))
    headers = {"Webhook-Id": id, "Webhook-Timestamp": stamp, "Webhook-Signature": signature}
    verify(body, headers, secret, now=NOW)
    verify(body.encode(), headers, [OTHER, secret], now=NOW)


@pytest.mark.contract("HOOK-19")
def test_the_public_library_knows_either_of_two_secrets() -> None:
    headers = sign([SECRET, OTHER], ID, wall(), BODY)
    for secret in (SECRET, OTHER):
        standardwebhooks.Webhook(secret).verify(BODY, headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(THIRD).verify(BODY, headers)


@pytest.mark.contract("HOOK-19")
def test_while_a_secret_is_replaced_either_is_enough() -> None:
    headers = sign([SECRET, OTHER], ID, NOW, BODY)
    assert len(headers["webhook-signature"].split(" ")) == 2
    verify(BODY, headers, SECRET, now=NOW)
    verify(BODY, headers, OTHER, now=NOW)
    verify(BODY, headers, [THIRD, OTHER], now=NOW)
    with pytest.raises(WebhookVerificationError, match=r"^webhook-signature: no signature matches"):
        verify(BODY, headers, THIRD, now=NOW)


def test_without_a_secret_the_id_and_the_time_are_told() -> None:
    assert sign((), ID, NOW, BODY) == {"webhook-id": ID, "webhook-timestamp": "1893499200"}


def test_the_time_is_cut_to_the_second() -> None:
    assert sign((), ID, NOW + timedelta(microseconds=999_999), BODY)["webhook-timestamp"] == "1893499200"


@given(
    spoiled=st.sampled_from(["body", "webhook-id", "webhook-timestamp", "webhook-signature"]), at=st.integers(0, 500)
)
def test_a_changed_character_is_noticed(spoiled: str, at: int) -> None:
    headers, body = sign(SECRET, ID, NOW, BODY), BODY.decode()
    text = body if spoiled == "body" else headers[spoiled]
    at %= len(text)
    changed = text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :]
    if spoiled == "body":
        body = changed
    else:
        headers[spoiled] = changed
    with pytest.raises(WebhookVerificationError):
        verify(body, headers, SECRET, now=NOW, tolerance="36500d")


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("as_empty", [True, False])
def test_a_missing_header_is_named(missing: str, as_empty: bool) -> None:
    headers = sign(SECRET, ID, NOW, BODY)
    if as_empty:
        headers[missing] = ""
    else:
        del headers[missing]
    with pytest.raises(WebhookVerificationError, match=f"^{missing}: the header is missing$"):
        verify(BODY, headers, SECRET, now=NOW)


class Pairs(Mapping[str, str]):
    """Headers as frameworks have them: several of one name."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._pairs = pairs

    def items(self) -> Any:
        return self._pairs

    def __getitem__(self, name: str) -> str:
        return dict(self._pairs)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._pairs))

    def __len__(self) -> int:
        return len(self._pairs)


def test_a_second_id_is_refused() -> None:
    """The receiver might read it, and take a repeat for something new."""
    signed = sign(SECRET, ID, NOW, BODY)
    verify(BODY, Pairs(*signed.items()), SECRET, now=NOW)
    with pytest.raises(WebhookVerificationError, match=r"^webhook-id: the header is there 2 times$"):
        verify(BODY, Pairs(*signed.items(), ("WEBHOOK-ID", "another")), SECRET, now=NOW)


@pytest.mark.parametrize(
    ("off", "said"),
    [
        (300, None), (-300, None), (301, "too old: 5m1s ago, and 5m is allowed"),
        (-301, "too new: 5m1s in the future, and 5m is allowed"), (86400, "too old: 1d ago"),
    ],
)  # fmt: skip
def test_a_request_is_good_for_five_minutes(off: int, said: str | None) -> None:
    headers = sign(SECRET, ID, NOW, BODY)
    now = NOW + timedelta(seconds=off)
    if said is None:
        verify(BODY, headers, SECRET, now=now)
    else:
        with pytest.raises(WebhookVerificationError, match=f"^webhook-timestamp: {said}"):
            verify(BODY, headers, SECRET, now=now)


def test_the_tolerance_is_chosen() -> None:
    headers, later = sign(SECRET, ID, NOW, BODY), NOW + timedelta(seconds=11)
    verify(BODY, headers, SECRET, now=later, tolerance="11s")
    with pytest.raises(WebhookVerificationError, match="too old: 11s ago, and 10s is allowed"):
        verify(BODY, headers, SECRET, now=later, tolerance=10)


def test_without_a_time_the_hosts_clock_is_taken() -> None:
    verify(BODY, sign(SECRET, ID, wall(), BODY), SECRET)
    with pytest.raises(WebhookVerificationError, match="too old"):
        verify(BODY, sign(SECRET, ID, wall() - timedelta(minutes=6), BODY), SECRET)


@pytest.mark.parametrize("stamp", ["soon", "-1", "1893499200.0", "١٢٣", "1" * 16, "9" * 5000, "nan", " 1893499200"])
def test_a_time_that_is_none_is_refused(stamp: str) -> None:
    headers = sign(SECRET, ID, NOW, BODY) | {"webhook-timestamp": stamp}
    with pytest.raises(WebhookVerificationError, match=r"^webhook-timestamp: expected seconds since 1970"):
        verify(BODY, headers, SECRET, now=NOW)


@pytest.mark.parametrize("id", ["a.1893499200", "a b", "", "é", "a\r\nx: y", "\ud800", "x" * 257])
def test_an_id_that_could_be_misread_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match=r"^id: expected"):
        sign(SECRET, id, NOW, BODY)
    with pytest.raises(WebhookVerificationError, match=r"^webhook-id: "):
        verify(BODY, sign(SECRET, ID, NOW, BODY) | {"webhook-id": id}, SECRET, now=NOW)


def test_a_message_cannot_be_cut_at_another_full_stop() -> None:
    """The same text is signed: `a` + `.` + time + `.` + `1893499200.x`, cut after the second time."""
    long_ago = NOW - timedelta(days=9)
    signed = sign(SECRET, "a", long_ago, "1893499200.x")
    forged = signed | {"webhook-id": f"a.{signed['webhook-timestamp']}", "webhook-timestamp": "1893499200"}
    with pytest.raises(WebhookVerificationError, match=r"^webhook-id: "):
        verify("x", forged, SECRET, now=NOW)


@pytest.mark.parametrize(
    "signature", ["v1", "v1,", "v2,abc", ",", " ", "v1a,abc", "v1,é", "v1,\ud800", "v1,=", "v1, v1,", "x" * 9000]
)
def test_what_is_no_signature_matches_nothing(signature: str) -> None:
    headers = sign(SECRET, ID, NOW, BODY) | {"webhook-signature": signature}
    with pytest.raises(WebhookVerificationError, match=r"^webhook-signature: no signature matches"):
        verify(BODY, headers, SECRET, now=NOW)


def test_signatures_of_other_schemes_stand_beside_ours() -> None:
    headers = sign(SECRET, ID, NOW, BODY)
    verify(BODY, headers | {"webhook-signature": f"v1a,abc ,, {headers['webhook-signature']}"}, SECRET, now=NOW)
    other_version = headers["webhook-signature"].replace("v1,", "v2,")
    with pytest.raises(WebhookVerificationError):
        verify(BODY, headers | {"webhook-signature": other_version}, SECRET, now=NOW)


def test_a_body_that_is_no_text_is_only_not_genuine() -> None:
    with pytest.raises(WebhookVerificationError, match="no signature matches"):
        verify("\ud800", sign(SECRET, ID, NOW, BODY), SECRET, now=NOW)
    verify(b"\xff\x00", sign(SECRET, ID, NOW, b"\xff\x00"), SECRET, now=NOW)


BAD_SECRETS: list[Any] = [
    "", "whsec_", "hunter2hunter2hunter2hunter2hunter2", SECRET.removeprefix("whsec_"), SECRET + "\n", f" {SECRET}",
    secret_of(b"x" * 23), secret_of(b"x" * 65), SECRET.replace("whsec_", "whsk_"), "whsec_" + "-_" * 20,
    "whsec_" + "A" * 33, None, 7, SECRET.encode(),
]  # fmt: skip


@pytest.mark.parametrize("secret", BAD_SECRETS)
def test_a_malformed_secret_is_the_receivers_mistake_and_is_not_repeated(secret: Any) -> None:
    expected = r"^secret 2: expected `whsec_` followed by 24 to 64 bytes in base64$"
    headers = sign(SECRET, ID, NOW, BODY)
    with pytest.raises(ValueError, match=expected) as refused:
        verify(BODY, headers, [SECRET, secret], now=NOW)
    assert not isinstance(refused.value, OncueError)
    with pytest.raises(ValueError, match=expected):
        sign([SECRET, secret], ID, NOW, BODY)


@pytest.mark.parametrize("size", [24, 64])
def test_the_shortest_and_the_longest_secret(size: int) -> None:
    secret = secret_of(bytes(size))
    verify(BODY, sign(secret, ID, NOW, BODY), secret, now=NOW)


def test_what_a_receiver_must_hand_in() -> None:
    headers = sign(SECRET, ID, NOW, BODY)
    with pytest.raises(ValueError, match=r"^secrets: expected at least one$"):
        verify(BODY, headers, [], now=NOW)
    for nothing in (None, SECRET.encode(), 7):
        with pytest.raises(ValueError, match=r"^secrets: expected one such as `whsec_…`, or a list of them, not "):
            verify(BODY, headers, nothing, now=NOW)  # type: ignore[arg-type]
    for parsed in ({"order": 7}, None, 7):
        with pytest.raises(TypeError, match=r"^body: expected the bytes as they arrived, before they were parsed"):
            verify(parsed, headers, SECRET, now=NOW)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^tolerance: "):
        verify(BODY, headers, SECRET, now=NOW, tolerance="soon")
    with pytest.raises(ValueError, match=r"^now: expected a datetime with a time zone"):
        verify(BODY, headers, SECRET, now=NOW.replace(tzinfo=None))
    with pytest.raises(ValueError, match=r"^timestamp: expected a datetime with a time zone"):
        sign(SECRET, ID, NOW.replace(tzinfo=None), BODY)


def test_a_new_secret_is_as_long_as_the_digest() -> None:
    asked: list[int] = []
    secret = new_secret(lambda size: asked.append(size) or bytes(size))
    assert asked == [32]
    assert secret == "whsec_" + base64.b64encode(bytes(32)).decode()


def test_a_receiver_imports_little() -> None:
    code = "import sys, oncue.webhooks; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "oncue.webhooks.signing" in loaded
    heavy = {"aiohttp", "asyncio", "asyncpg", "pydantic", "sqlite3", "ssl", "urllib.request", "fastapi", "typer"}
    assert not loaded & heavy
    assert not [name for name in loaded if name.startswith(("oncue.store", "oncue.engine", "oncue.app"))]
