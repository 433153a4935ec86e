"""The settings: the origin's names, and complaints that name the variable."""

from __future__ import annotations

import pytest
from news_agent.settings import Settings, SettingsError, load, oncue_settings


@pytest.mark.contract("WIN-8", "WIN-9", "WIN-18")
def test_the_defaults_are_the_origins() -> None:
    settings = load({"TICK_MS": "  "})
    assert settings == Settings()
    assert (settings.window_minutes, settings.retry_delay_minutes, settings.tick_ms) == (60, 10, 60_000)
    own = oncue_settings(settings, {})
    assert (own.tick_ms, own.http_addr) == (60_000, "127.0.0.1:8080")


@pytest.mark.contract("WIN-18")
def test_each_variable_is_read() -> None:
    given = {
        "TICK_MS": "250", "MAX_CONCURRENCY": "7", "JOB_TIMEOUT_MS": "1500", "WINDOW_MINUTES": "30",
        "RETRY_DELAY_MINUTES": "0.5", "NEWS_MODEL_URL": "https://model.example/v1?k=1", "NEWS_MODEL_TIMEOUT_MS": "900",
        "NEWS_MODEL_TOKEN": "t", "HTTP_ADDR": ":9",
    }  # fmt: skip
    settings = load(given)
    assert settings == Settings(250, 7, 1500, 30, 0.5, "https://model.example/v1?k=1", 900, "t", True)
    own = oncue_settings(settings, given)
    assert (own.tick_ms, own.http_addr) == (250, ":9")
    assert oncue_settings(settings, {"ONCUE_HTTP_ADDR": ":7"}).http_addr == ":7"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TICK_MS", "soon", "a number"), ("TICK_MS", "0", "a number from 10 to"), ("TICK_MS", "nan", "a number from"),
        ("MAX_CONCURRENCY", "0", "a number from 1"), ("MAX_CONCURRENCY", "2.5", "a whole number"),
        ("WINDOW_MINUTES", "0.5", "a number from 1 to 1440"), ("RETRY_DELAY_MINUTES", "0", "a number from"),
        ("NEWS_MODEL_URL", "model.example", "an address such as"), ("NEWS_MODEL_URL", "http://", "an address"),
        ("NEWS_MODEL_URL", "http://me:s3cret@model.example/", ".* without a user name"),
        ("NEWS_MODEL_URL", "http://model.example:port/", "an address"),
    ],
)  # fmt: skip
def test_a_complaint_names_the_variable(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: expected {expected}") as caught:
        load({name: value})
    assert "s3cret" not in str(caught.value)
    assert caught.value.exit_code == 2
