"""Secrets of webhooks: only variables with the prefix are read, and nothing secret is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.errors import ConfigError, UnusableSecret
from oncue.policy.deliveries import Form
from oncue.policy.headers import HIDDEN
from oncue.policy.templates import DeliveryFacts
from oncue.webhooks import new_secret
from oncue.webhooks.delivery import Target, request_of
from oncue.webhooks.secrets import redacted, redacted_secrets, resolved_headers, resolved_secrets

SECRET, OTHER = (new_secret(Random(seed).randbytes) for seed in (1, 2))
ENVIRON = {
    "ONCUE_SECRET_ORDERS": SECRET,
    "ONCUE_SECRET_TOKEN": "Bearer abc",
    "ONCUE_SECRET_EMPTY": "",
    "ONCUE_SECRET_LINES": "Bearer abc\nx-evil: 1",
    "ONCUE_SECRET_": SECRET,
    "DATABASE_URL": "postgresql://app:hunter2@db/app",
    "XONCUE_SECRET_A": "hunter2",
}


def test_a_reference_is_read_when_it_is_sent() -> None:
    assert resolved_secrets(("env:ONCUE_SECRET_ORDERS", OTHER), ENVIRON) == (SECRET, OTHER)
    assert resolved_secrets((), ENVIRON) == ()
    headers = {"Authorization": "env:ONCUE_SECRET_TOKEN", "Accept": "text/plain", "X-Note": "see env:DATABASE_URL"}
    assert resolved_headers(headers, ENVIRON) == headers | {"Authorization": "Bearer abc"}


FORBIDDEN = [
    "env:DATABASE_URL", "env:", "env:ONCUE_SECRET_", "env:oncue_secret_orders", "env:XONCUE_SECRET_A",
    "env: ONCUE_SECRET_ORDERS", "env:ONCUE_SECRET_ORDERS\n", "env:ONCUE_SECRET_A-B",
    "env:ONCUE_SECRET_ORDERS,DATABASE_URL", "env:ONCUE_SECRET_" + "A" * 101, "env:ONCUE_SECRET_É",
]  # fmt: skip


@pytest.mark.parametrize("reference", FORBIDDEN)
def test_no_other_variable_is_read_even_if_a_row_says_so(reference: str) -> None:
    expected = "expected `env:ONCUE_SECRET_` followed by 1 to 100 letters, digits and underscores"
    with pytest.raises(ValueError, match=f"^headers: X-A: {expected}$"):
        resolved_headers({"X-A": reference}, ENVIRON)
    with pytest.raises(ValueError, match=f"^secret 1: {expected}$"):
        resolved_secrets([reference], ENVIRON)


@pytest.mark.parametrize("name", ["ONCUE_SECRET_GONE", "ONCUE_SECRET_EMPTY"])
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(UnusableSecret, match=f"^{name}: a webhook needs this variable") as missing:
        resolved_secrets([f"env:{name}"], ENVIRON)
    assert missing.value.variable == name
    assert isinstance(missing.value, ConfigError)
    with pytest.raises(UnusableSecret, match=f"^{name}: "):
        resolved_headers({"X-A": f"env:{name}"}, ENVIRON)


def test_a_value_that_cannot_be_used_is_named_by_its_variable_and_not_repeated() -> None:
    with pytest.raises(UnusableSecret, match=r"^ONCUE_SECRET_LINES: expected printable ASCII") as refused:
        resolved_headers({"X-A": "env:ONCUE_SECRET_LINES"}, ENVIRON)
    assert "abc" not in str(refused.value)
    with pytest.raises(UnusableSecret, match=r"^ONCUE_SECRET_TOKEN: expected `whsec_` followed by") as refused:
        resolved_secrets(["env:ONCUE_SECRET_TOKEN"], ENVIRON)
    assert "abc" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_literal_secret_that_is_none_is_not_repeated() -> None:
    with pytest.raises(ValueError, match=r"^secret 2: expected `whsec_`") as refused:
        resolved_secrets([SECRET, "hunter2"], ENVIRON)
    assert "hunter2" not in str(refused.value)


@pytest.mark.contract("HOOK-19")
def test_answers_hide_secrets_and_tell_two_apart() -> None:
    shown = redacted_secrets([SECRET, "env:ONCUE_SECRET_ORDERS", OTHER, SECRET])
    assert shown[1] == "env:ONCUE_SECRET_ORDERS"
    assert shown[0] == shown[3] != shown[2]
    assert all(text.startswith(f"{HIDDEN} ") and len(text) == len(HIDDEN) + 9 for text in (shown[0], shown[2]))


@given(st.binary(min_size=24, max_size=64))
def test_nothing_of_a_secret_is_shown(key: bytes) -> None:
    secret = new_secret(lambda size: key)
    (shown,) = redacted_secrets([secret])
    digits = secret.removeprefix("whsec_")
    parts = {digits[at : at + 8] for at in range(len(digits) - 7)}
    assert not [part for part in parts if part in shown]


@pytest.mark.contract("HOOK-19")
def test_answers_show_harmless_headers_alone() -> None:
    headers = {
        "Accept": "text/html",
        "USER-AGENT": "oncue",
        "content-type": "application/json",
        "webhook-id": "7",
        "webhook-signature": "v1,abc",
        "Authorization": "Bearer abc",
        "X-Api-Key": "env:ONCUE_SECRET_TOKEN",
        "X-Odd": "env:DATABASE_URL",
        "Cookie": "a=b",
        "X-Anything": "abc",
    }
    hidden = {"webhook-signature", "Authorization", "X-Odd", "Cookie", "X-Anything"}
    assert redacted(headers) == {name: HIDDEN if name in hidden else value for name, value in headers.items()}


BOUND = ENVIRON | {"ONCUE_SECRET_ORDERS_HOSTS": "erp.example, .Shop.example", "ONCUE_SECRET_TOKEN_HOSTS": "erp.example"}
EVIL = [
    "https://evil.example/", "https://erp.example.evil.example/", "https://evilerp.example/", "https://shop.example/",
    "https://evil.example/erp.example", "https://evil.example:443/?h=erp.example", "http://192.0.2.7/",
]  # fmt: skip


@pytest.mark.contract("HOOK-19")
@pytest.mark.parametrize("url", ["https://erp.example/hook", "http://ERP.example:8080/", "https://a.shop.example/"])
def test_a_bound_secret_goes_to_its_hosts(url: str) -> None:
    assert resolved_secrets(["env:ONCUE_SECRET_ORDERS", OTHER], BOUND, url) == (SECRET, OTHER)


@pytest.mark.contract("HOOK-19")
@pytest.mark.parametrize("url", EVIL)
def test_a_bound_secret_goes_nowhere_else(url: str) -> None:
    """A caller of the API with the scope `operate` may give a webhook any public URL."""
    for read in (
        lambda: resolved_secrets(["env:ONCUE_SECRET_ORDERS"], BOUND, url),
        lambda: resolved_headers({"Authorization": "env:ONCUE_SECRET_TOKEN"}, BOUND, url),
    ):
        with pytest.raises(UnusableSecret, match=r"_HOSTS does not list the host") as refused:
            read()
        assert "abc" not in str(refused.value)


@pytest.mark.contract("HOOK-19")
def test_what_binds_a_secret_is_no_secret_itself() -> None:
    """Else a header could carry the names of the hosts to any server."""
    with pytest.raises(UnusableSecret, match=r"^ONCUE_SECRET_TOKEN_HOSTS: it binds a secret") as refused:
        resolved_headers({"X-Key": "env:ONCUE_SECRET_TOKEN_HOSTS"}, BOUND, "https://evil.example/")
    assert "erp" not in str(refused.value)
    alone = {"ONCUE_SECRET_ALL_HOSTS": "abc"}
    assert resolved_headers({"X-Key": "env:ONCUE_SECRET_ALL_HOSTS"}, alone, "https://erp.example/") == {"X-Key": "abc"}


@pytest.mark.contract("HOOK-19")
def test_a_delivery_asks_for_the_host_that_it_goes_to() -> None:
    bare = Target("https://evil.example/", {"X-Key": "env:ONCUE_SECRET_TOKEN"}, (), 30.0, 0, None, None)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    facts = DeliveryFacts("1", None, None, now, {})
    with pytest.raises(UnusableSecret, match=r"^ONCUE_SECRET_TOKEN: "):
        request_of(bare, Form(), facts, BOUND, now)
    sent = request_of(bare._replace(url="https://erp.example/"), Form(), facts, BOUND, now)
    assert sent.headers["X-Key"] == "Bearer abc"
