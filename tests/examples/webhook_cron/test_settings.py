"""The environment variables of the program, their defaults, and how it ends if one makes no sense."""

from __future__ import annotations

import pytest
from webhook_cron.settings import load

from oncue import ConfigError
from tests.examples.webhook_cron.conftest import MakeProgram

SQLITE = {"DATABASE_URL": "sqlite:///cron.db"}


def test_the_defaults_are_the_origins() -> None:
    settings = load(SQLITE)
    assert (settings.http_addr, settings.tick_interval, settings.buffer) == (":8080", 30, 100)
    assert (settings.drain_timeout, settings.webhooks_breaker) == (30, 0)
    assert (settings.reconcile_enabled, settings.redis_url) == (False, None)
    assert (settings.reconcile_interval, settings.reconcile_threshold, settings.reconcile_batch_size) == (300, 600, 100)
    assert load({**SQLITE, "RECONCILE_ENABLED": "true", "RECONCILE_INTERVAL": "1m"}).reconcile_enabled
    assert load({**SQLITE, "TICK_INTERVAL": "1m30s", "HTTP_ADDR": ":9", "ONCUE_BUFFER": "7"}).tick_interval == 90


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"DATABASE_URL": ""}, "DATABASE_URL: expected postgresql://"),
        ({"DATABASE_URL": " "}, "DATABASE_URL: expected postgresql://"),
        ({"TICK_INTERVAL": "soon"}, "TICK_INTERVAL: expected a duration"),
        ({"TICK_INTERVAL": "0s"}, "TICK_INTERVAL: expected a duration above 0"),
        ({"RECONCILE_ENABLED": "perhaps"}, "RECONCILE_ENABLED: expected"),
        ({"RECONCILE_INTERVAL": "often"}, "RECONCILE_INTERVAL: expected a duration"),
        ({"RECONCILE_THRESHOLD": "-1m"}, "RECONCILE_THRESHOLD: expected a duration"),
        ({"RECONCILE_BATCH_SIZE": "0"}, "RECONCILE_BATCH_SIZE: expected"),
        ({"REDIS_URL": "localhost"}, "REDIS_URL: expected an address such as redis://"),
        ({"ONCUE_BUFFER": "many"}, "ONCUE_BUFFER: expected a whole number"),
        ({"ONCUE_WEBHOOKS_ALLOW": "everyone"}, "ONCUE_WEBHOOKS_ALLOW: expected"),
    ],
)
def test_a_complaint_names_the_variable_and_what_it_expects(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load({**SQLITE, **given})
    assert str(refused.value).startswith(complaint)
    assert refused.value.exit_code == 2


@pytest.mark.contract("HOOK-12", "HOOK-13")
@pytest.mark.parametrize(
    ("given", "code", "complaint"),
    [
        ({"DATABASE_URL": ""}, 2, "webhook_cron: DATABASE_URL: expected"),
        ({"DATABASE_URL": "mysql://localhost/cron"}, 1, "webhook_cron: DATABASE_URL: expected"),
        ({"DATABASE_URL": "postgres://user:hush@localhost:many/cron"}, 1, "webhook_cron: DATABASE_URL: expected"),
        ({"DATABASE_URL": "postgres://user:hush@127.0.0.1:1/cron"}, 1, "webhook_cron: "),
        ({"TICK_INTERVAL": "soon"}, 2, "webhook_cron: TICK_INTERVAL: expected a duration"),
        ({"HTTP_ADDR": "8080"}, 2, "webhook_cron: HTTP_ADDR: expected an address such as :8080"),
    ],
)
def test_the_exit_codes(
    make_program: MakeProgram, sqlite_url: str, given: dict[str, str], code: int, complaint: str
) -> None:
    service = make_program(sqlite_url).start(**given)
    assert service.process.wait(30) == code, service.said
    assert complaint in service.said
    assert "Traceback" not in service.said
    assert "hush" not in service.said


@pytest.mark.contract("HOOK-13")
def test_the_command_line_is_checked(make_program: MakeProgram, sqlite_url: str) -> None:
    program = make_program(sqlite_url)
    for arguments in ((), ("fly",), ("serve", "--fast"), ("prune-orphans", "--older-than", "long")):
        assert program.run("webhook_cron", *arguments).returncode == 2
