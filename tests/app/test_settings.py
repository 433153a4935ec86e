"""Flags win over the environment, which wins over oncue.toml, which wins over the defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from oncue import ConfigError, Oncue
from oncue.engine.orphans import OrphanRules
from oncue.policy.aging import Rules
from oncue.policy.slo import SloRules
from oncue.settings import Settings, load
from oncue.store import connect


def write(folder: Path, text: str) -> Path:
    (folder / "oncue.toml").write_text(text, "utf-8")
    return folder


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = load(environment={}, folder=tmp_path)
    assert settings == Settings()
    assert settings.database_url == "sqlite:///oncue.db"
    assert settings.processes == os.cpu_count()
    assert {settings.origin(field) for field in Settings.names()} == {"default"}


def test_each_source_wins_over_the_next_and_is_remembered(tmp_path: Path) -> None:
    write(tmp_path, 'concurrency = 1\nlease = "11s"\npoll_interval = "1s"\nbuffer = 1')
    environment = {"ONCUE_CONCURRENCY": "2", "ONCUE_LEASE": "12s", "ONCUE_BUFFER": ""}
    settings = load({"concurrency": 3, "lease": None}, environment, tmp_path)
    assert (settings.concurrency, settings.origin("concurrency")) == (3, "--concurrency")
    assert (settings.lease, settings.origin("lease")) == (12.0, "ONCUE_LEASE")
    assert (settings.poll_interval, settings.origin("poll_interval")) == (
        1.0,
        f"poll_interval in {tmp_path / 'oncue.toml'}",
    )
    assert (settings.buffer, settings.origin("buffer")) == (1, f"buffer in {tmp_path / 'oncue.toml'}")
    assert (settings.retention, settings.origin("retention")) == (7 * 86400.0, "default")


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("DATABASE_URL", "postgres://db/x", "database_url", "postgres://db/x"),
        ("HTTP_ADDR", ":8080", "http_addr", ":8080"),
        ("TICK_INTERVAL", "1m30s", "tick_interval", 90.0),
        ("ONCUE_TICK_MS", "500", "tick_ms", 500),
        ("MAX_RUNTIME_THRESHOLD", "15m", "max_runtime", 900.0),
        ("ONCUE_QUEUES", "mail, default", "queues", ("mail", "default")),
        ("ONCUE_PG_LISTEN", "false", "pg_listen", False),
        ("ONCUE_PROCESSES", "3", "processes", 3),
        ("ONCUE_POLL_INTERVAL", "5s", "poll_interval", 5.0),
        ("ONCUE_AGING_INTERVAL", "1m", "aging_interval", 60.0),
        ("ONCUE_AGING_AFTER", "2h", "aging_after", 7200.0),
        ("ONCUE_AGING_GAIN", "0", "aging_gain", 0),
        ("ONCUE_MAINTENANCE_INTERVAL", "5m", "maintenance_interval", 300.0),
        ("ONCUE_RECONCILE_ENABLED", "false", "reconcile_enabled", False),
        ("ONCUE_RECONCILE_BATCH_SIZE", "7", "reconcile_batch_size", 7),
        ("ONCUE_SESSION_LIFETIME", "1h30m", "session_lifetime", 5400.0),
        ("ONCUE_SESSION_LIFETIME", "30d", "session_lifetime", 30 * 86400.0),
        ("ONCUE_PUBLIC_URL", "https://Jobs.example:443/", "public_url", "https://jobs.example"),
        ("ONCUE_PUBLIC_URL", "http://10.0.0.1:8080/ops/on_cue.2//", "public_url", "http://10.0.0.1:8080/ops/on_cue.2"),
        ("ONCUE_PUBLIC_URL", "https://[2001:DB8::7]/", "public_url", "https://[2001:db8::7]"),
        ("ONCUE_SAT_RATIO", "90%", "sat_ratio", 0.9),
        ("ONCUE_CUTOFF_RATE_MAX", "0.02", "cutoff_rate_max", 0.02),
        ("ONCUE_ALERT_WEBHOOK", "pager", "alert_webhook", "pager"),
        ("ONCUE_ALERT_WEBHOOK", "https://pager.example/x", "alert_webhook", "https://pager.example/x"),
        ("ONCUE_REDIS_URL", "redis://cache:6379/1", "redis_url", "redis://cache:6379/1"),
    ],
)
def test_the_environment_is_read_under_its_own_and_the_bare_names(
    tmp_path: Path, variable: str, value: str, field: str, expected: Any
) -> None:
    settings = load(environment={variable: value}, folder=tmp_path)
    assert (getattr(settings, field), settings.origin(field)) == (expected, variable)


def test_the_prefixed_name_wins_over_the_bare_one(tmp_path: Path) -> None:
    settings = load(environment={"ONCUE_TICK_INTERVAL": "1s", "TICK_INTERVAL": "2s"}, folder=tmp_path)
    assert (settings.tick_interval, settings.origin("tick_interval")) == (1.0, "ONCUE_TICK_INTERVAL")


def test_the_file_can_be_elsewhere(tmp_path: Path) -> None:
    place = tmp_path / "other.toml"
    place.write_text("concurrency = 7")
    assert load(environment={"ONCUE_CONFIG": str(place)}, folder=tmp_path).concurrency == 7


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"TICK_INTERVAL": "often"}, "TICK_INTERVAL: expected a duration such as '30s'"),
        ({"TICK_INTERVAL": "0"}, "TICK_INTERVAL: expected a duration above 0"),
        ({"TICK_INTERVAL": "-5s"}, "TICK_INTERVAL: expected a duration"),
        ({"ONCUE_TICK_INTERVAL": "often", "ONCUE_ENV": "production"}, "ONCUE_TICK_INTERVAL: expected a duration"),
        ({"ONCUE_CONCURRENCY": "many"}, "ONCUE_CONCURRENCY: expected a whole number, not 'many'$"),
        ({"ONCUE_CONCURRENCY": "0"}, "ONCUE_CONCURRENCY: expected at least 1, not '0'$"),
        ({"ONCUE_LEASE": "100ms"}, "ONCUE_LEASE: expected at least 1 s, not '100ms'$"),
        ({"ONCUE_BEAT": "10s"}, r"ONCUE_BEAT: expected at most half of the lease \(15 s\), not 10 s"),
        ({"ONCUE_AGING_INTERVAL": "0s"}, "ONCUE_AGING_INTERVAL: expected a duration above 0"),
        ({"ONCUE_AGING_AFTER": "long"}, r"ONCUE_AGING_AFTER: expected a duration .*, not 'long' \(at position 1\)$"),
        ({"ONCUE_HTTP_BODY_TIMEOUT": "1m"}, "ONCUE_HTTP_BODY_TIMEOUT: expected at most 30 s, not '1m'$"),
        ({"ONCUE_HTTP_CONNECTIONS": "3"}, "ONCUE_HTTP_CONNECTIONS: expected at least 10, not '3'$"),
        ({"ONCUE_AGING_GAIN": "101"}, "ONCUE_AGING_GAIN: expected at most 100, not '101'$"),
        ({"ONCUE_AGING_GAIN": "-1"}, "ONCUE_AGING_GAIN: expected at least 0, not '-1'$"),
        ({"ONCUE_MAINTENANCE_INTERVAL": "never"}, "ONCUE_MAINTENANCE_INTERVAL: expected a duration"),
        ({"ONCUE_SESSION_LIFETIME": "59s"}, "ONCUE_SESSION_LIFETIME: expected a duration from 1 minute to 30 days"),
        ({"ONCUE_SESSION_LIFETIME": "31d"}, "ONCUE_SESSION_LIFETIME: expected a duration from 1 minute to 30 days"),
        ({"ONCUE_SESSION_LIFETIME": "long"}, "ONCUE_SESSION_LIFETIME: expected a duration such as '30s'"),
        ({"ONCUE_PUBLIC_URL": "jobs.example"}, "ONCUE_PUBLIC_URL: expected a URL that begins with https:// or http://"),
        ({"ONCUE_PUBLIC_URL": "https://ann:x@jobs.example"}, "ONCUE_PUBLIC_URL: expected a URL without a user name"),
        ({"ONCUE_PUBLIC_URL": "https://jobs.example/?"}, "ONCUE_PUBLIC_URL: expected a URL without a query"),
        ({"ONCUE_PUBLIC_URL": "https://jobs.example/#a"}, "ONCUE_PUBLIC_URL: expected a URL without a fragment"),
        ({"ONCUE_PUBLIC_URL": "https://jobs.example:0"}, "ONCUE_PUBLIC_URL: expected a port from 1 to 65535"),
        *(
            ({"ONCUE_PUBLIC_URL": f"https://jobs.example{prefix}"}, "ONCUE_PUBLIC_URL: expected a prefix of letters")
            for prefix in ("/a//b", "/a;b", "/../a", "/a/.", "/%2e", "/a,b", "//a", "/ä")
        ),
        ({"ONCUE_SAT_RATIO": "120%"}, "ONCUE_SAT_RATIO: expected a share such as 10% or 0.1, not '120%'$"),
        ({"ONCUE_CUTOFF_RATE_MAX": "few"}, "ONCUE_CUTOFF_RATE_MAX: expected a share such as 10% or 0.1, not 'few'$"),
        ({"ONCUE_SLO_WINDOW_MINUTES": "1"}, "ONCUE_SLO_WINDOW_MINUTES: expected at least 2, not '1'$"),
        ({"ONCUE_BREACH_CONSECUTIVE": "0"}, "ONCUE_BREACH_CONSECUTIVE: expected at least 1, not '0'$"),
        ({"ONCUE_TICK_MS": "60s"}, "ONCUE_TICK_MS: expected a whole number, not '60s'$"),
        ({"ONCUE_SLO_EVAL_MS": "5"}, "ONCUE_SLO_EVAL_MS: expected at least 1,000, not '5'$"),
        ({"ONCUE_ALERT_WEBHOOK": "ftp://pager"}, "ONCUE_ALERT_WEBHOOK: expected"),
        ({"ONCUE_QUEUES": ","}, "ONCUE_QUEUES: expected the names of queues, separated by commas"),
        ({"ONCUE_LOG_FORMAT": "xml"}, "ONCUE_LOG_FORMAT: expected 'text' or 'json'"),
        ({"ONCUE_PG_LISTEN": "maybe"}, "ONCUE_PG_LISTEN: expected true or false, not 'maybe'$"),
        ({"ONCUE_ENV": "prod"}, "ONCUE_ENV: expected 'development' or 'production'"),
        ({"ONCUE_ENV": "production"}, "DATABASE_URL: expected postgresql://… or sqlite:///…; it must be set"),
        ({"ONCUE_CONFIG": "nowhere.toml"}, "ONCUE_CONFIG: expected the path of a settings file"),
    ],
    ids=str,
)
def test_every_error_names_the_variable_and_what_it_expects(
    tmp_path: Path, environment: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=f"(?m)^{complaint}") as error:
        load(environment=environment, folder=tmp_path)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour = 'red'", "colour in .*oncue.toml: there is no setting 'colour'; expected one of database_url"),
        ("concurrency = 'many'", "concurrency in .*oncue.toml: expected a whole number"),
        ("[concurrency]\nx = 1", "concurrency in .*oncue.toml: expected a whole number"),
        ("retention = nan", "retention in .*oncue.toml: expected a duration"),
        ("= nonsense", "oncue.toml: expected TOML; Invalid statement"),
    ],
)
def test_an_error_in_the_file_names_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(environment={}, folder=write(tmp_path, text))


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load({"concurrency": 0}, {"ONCUE_LEASE": "x"}, write(tmp_path, "buffer = -1"))
    lines = str(error.value).splitlines()
    assert [line.split(" ")[0].rstrip(":") for line in lines] == ["--concurrency", "ONCUE_LEASE", "buffer"]


@pytest.mark.contract("HOOK-13")
def test_production_asks_for_a_database_and_development_does_not(tmp_path: Path) -> None:
    production = {"ONCUE_ENV": "production", "DATABASE_URL": "postgres://db/x"}
    assert load(environment=production, folder=tmp_path).database_url == "postgres://db/x"
    assert load(environment={}, folder=tmp_path).database_url == "sqlite:///oncue.db"


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("url", ["postgres://ada@db:5432/jobs", "postgresql://db/jobs"])
def test_both_spellings_of_postgresql_are_accepted(url: str) -> None:
    assert connect(url).dialect == "postgres"


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize(
    "url",
    ["mysql://db/jobs", "jobs.db", "postgres:/db/jobs", "postgresql://db", "postgresql://db:port/jobs", "sqlite://"],
)
def test_a_malformed_address_is_exit_code_1_and_says_what_is_expected(url: str) -> None:
    with pytest.raises(ConfigError, match=r"DATABASE_URL: expected postgresql://.*sqlite:///") as error:
        connect(url)
    assert error.value.exit_code == 1


def test_settings_are_read_when_they_are_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    app = Oncue()
    monkeypatch.setenv("DATABASE_URL", "sqlite:///jobs.db")
    assert app.settings.database_url == "sqlite:///jobs.db"


def test_what_code_says_wins_over_the_environment_and_a_flag_over_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "sqlite:///environment.db")
    app = Oncue("sqlite:///code.db")
    assert app.settings.database_url == "sqlite:///code.db"
    app.override({"database_url": "sqlite:///flag.db", "concurrency": None})
    assert app.settings.database_url == "sqlite:///flag.db"


def test_settings_do_not_change(tmp_path: Path) -> None:
    settings = load(environment={}, folder=tmp_path)
    with pytest.raises(AttributeError, match="concurrency"):
        settings.concurrency = 5  # type: ignore[misc]


@pytest.mark.contract("QUE-2", "QUE-18", "WIN-18")
def test_the_services_keep_the_pace_that_is_set(tmp_path: Path) -> None:
    environment = {
        "ONCUE_POLL_INTERVAL": "5s", "ONCUE_TICK_INTERVAL": "1m", "ONCUE_MAINTENANCE_INTERVAL": "5m",
        "ONCUE_AGING_INTERVAL": "1m", "ONCUE_AGING_AFTER": "2h", "ONCUE_AGING_GAIN": "20",
        "ONCUE_TICK_MS": "120000",
    }  # fmt: skip
    pace = load(environment=environment, folder=tmp_path).pace
    assert (pace.poll, pace.schedules, pace.windows, pace.maintenance) == (5.0, 60.0, 120.0, 300.0)
    assert pace.aging == Rules(every=60.0, after=7200.0, gain=20)


@pytest.mark.contract("WIN-18", "QUE-20")
def test_the_slos_have_the_contracts_thresholds_unless_they_are_set(tmp_path: Path) -> None:
    usual = load(environment={}, folder=tmp_path).pace
    assert (usual.windows, usual.slo) == (60.0, SloRules(60.0, 15, 3, 300, 0.8, 1000, 30_000, 0.01, 1000, 0.1, 3600.0))
    environment = {
        "ONCUE_TICK_MS": "30000", "ONCUE_SLO_EVAL_MS": "10000", "ONCUE_SLO_WINDOW_MINUTES": "5",
        "ONCUE_BREACH_CONSECUTIVE": "2", "ONCUE_TICK_BUDGET_MS": "100", "ONCUE_SAT_RATIO": "50%",
        "ONCUE_DEPTH_AVG_MAX": "10", "ONCUE_JOB_P95_MAX_MS": "5000", "ONCUE_CUTOFF_RATE_MAX": "5%",
        "ONCUE_ALERT_QUEUE_DEPTH": "20", "ONCUE_ALERT_FAILED_RATE": "0.2", "ONCUE_ALERT_RUNNING_FOR": "30m",
    }  # fmt: skip
    pace = load(environment=environment, folder=tmp_path).pace
    assert (pace.windows, pace.slo) == (30.0, SloRules(10.0, 5, 2, 100, 0.5, 10, 5000, 0.05, 20, 0.2, 1800.0))


@pytest.mark.contract("HOOK-11")
def test_the_reconciler_of_deliveries_has_the_origins_pace_unless_it_is_set(tmp_path: Path) -> None:
    assert load(environment={}, folder=tmp_path).pace.orphans == OrphanRules(True, 300.0, 600.0, 100)
    environment = {
        "ONCUE_RECONCILE_ENABLED": "0", "ONCUE_RECONCILE_INTERVAL": "1m", "ONCUE_RECONCILE_THRESHOLD": "15m",
        "ONCUE_RECONCILE_BATCH_SIZE": "10",
    }  # fmt: skip
    assert load(environment=environment, folder=tmp_path).pace.orphans == OrphanRules(False, 60.0, 900.0, 10)


def test_a_complaint_hides_the_password_of_an_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ONCUE_REDIS_URL: expected an address such as redis:") as caught:
        load(environment={"ONCUE_REDIS_URL": "http://me:hunter2@cache:6379"}, folder=tmp_path)
    assert "hunter2" not in str(caught.value)
