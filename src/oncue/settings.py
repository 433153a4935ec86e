"""One object for everything that can be set: flags, then the environment, then oncue.toml, then defaults.

Every value knows where it came from, and every complaint names the variable and what it expects.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

from oncue import fields
from oncue.errors import ConfigError
from oncue.fields import Before
from oncue.fields import field as Field
from oncue.model import DEFAULT_QUEUE, MAX_PRIORITY, WEBHOOKS_QUEUE
from oncue.policy.aging import Rules
from oncue.policy.checks import checked_name, checked_session_lifetime
from oncue.policy.durations import seconds
from oncue.policy.names import checked_node_name
from oncue.policy.slo import SloRules
from oncue.store.addresses import checked_schema, hidden

if TYPE_CHECKING:
    from oncue.engine.node import Pace
    from oncue.engine.orphans import OrphanRules
    from oncue.engine.outcomes import SizeLimits

DEFAULT_DATABASE = "sqlite:///oncue.db"
CONFIG_FILE = "oncue.toml"


def _seconds(value: Any) -> float:
    try:
        total = seconds(value, "")
    except ValueError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    if total <= 0:
        raise ValueError(f"expected a duration above 0, not {value!r}")
    return total


def _seconds_or_none_at_all(value: Any) -> float:
    return 0.0 if value in (0, "0", "0s") else _seconds(value)


def _seconds_in_any_way(value: Any) -> float:
    """A duration, or only its number, as a variable has it whose name says that it is in seconds."""
    return _seconds(f"{value}s" if isinstance(value, str) and value.strip().isdecimal() else value)


def _names(value: Any) -> Any:
    names = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    if names in ((), []):
        raise ValueError("expected the names of queues, separated by commas")
    return names


def _networks(value: Any) -> Any:
    items = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    if items:
        from oncue.webhooks.egress import Allowed

        Allowed.parse(items)
    return items


def _redis_url(value: Any) -> Any:
    if isinstance(value, str) and not value.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("expected an address such as redis://host:6379/0")
    return value


def _share(value: Any) -> Any:
    """A share as people write it: `10%` or `0.1`."""
    word = str(value).strip()
    try:
        share = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:
        raise ValueError("expected a share such as 10% or 0.1")
    return share


def _webhook(value: Any) -> Any:
    """The name of a webhook, or a URL."""
    if isinstance(value, str) and "://" in value:
        from oncue.policy.urls import checked_url

        try:
            return checked_url(value)
        except ValueError as error:
            raise ValueError(str(error).removeprefix("url: ")) from None
    return _name(value)


def _advertised(value: Any) -> Any:
    if value is None:
        return None
    from oncue.policy.urls import checked_advertised_url

    try:
        return checked_advertised_url(value)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("advertise_url: ")) from None


def _public(value: Any) -> Any:
    if value is None:
        return None
    from oncue.policy.urls import checked_public_url

    try:
        return checked_public_url(value)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("public_url: ")) from None


def _session_lifetime(value: Any) -> float:
    try:
        return checked_session_lifetime(value, "session_lifetime")
    except ValueError as error:
        raise ValueError(str(error).removeprefix("session_lifetime: ")) from None


def _schema(value: Any) -> str:
    try:
        return checked_schema(value)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("schema: ")) from None


def _node_name(value: Any) -> Any:
    return checked_node_name(value) if isinstance(value, str) else value


def _name(value: Any) -> str:
    try:
        return checked_name(value, "")
    except ValueError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


def _unlimited(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


Seconds = Annotated[float, Before(_seconds)]


class SettingProblem(NamedTuple):
    """What is wrong with the value of a field."""

    field: str
    message: str
    value: Any


class InvalidSettings(ConfigError, ValueError):
    """Some values of the settings are not what their fields expect."""

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        super().__init__("\n".join(_complaint(problem, {}) for problem in problems))
        self.problems = problems


@dataclasses.dataclass(frozen=True)
class Settings:
    database_url: str = DEFAULT_DATABASE
    schema: Annotated[str, Before(_schema)] | None = None
    name: Annotated[str, Before(_name)] | None = None
    env: Literal["development", "production"] = "development"
    app: str | None = None
    queues: Annotated[tuple[str, ...], Before(_names)] = (DEFAULT_QUEUE, WEBHOOKS_QUEUE)
    concurrency: int = Field(64, ge=1, le=10_000)
    processes: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=1000)
    node_name: Annotated[str | None, Before(_node_name)] = None
    exclusive: bool = False
    http_addr: str | None = None
    advertise_url: Annotated[str | None, Before(_advertised)] = None
    public_url: Annotated[str | None, Before(_public)] = None
    session_lifetime: Annotated[float, Before(_session_lifetime)] = 12 * 3600.0
    http_header_timeout: Seconds = 10.0
    http_body_timeout: Seconds = Field(30.0, le=30, unit=" s")
    http_keep_alive: Seconds = 5.0
    http_connections: int = Field(500, ge=10, le=100_000)
    poll_interval: Seconds = 0.5
    tick_interval: Seconds = 30.0
    lease: Annotated[Seconds, Field(ge=1, unit=" s")] = 15.0
    beat: Seconds | None = None
    drain_timeout: Seconds = 30.0
    start_timeout: Annotated[float, Before(_seconds_or_none_at_all)] = 60.0
    buffer: int = Field(4000, ge=0, le=100_000)
    max_runtime: Annotated[Seconds | None, Before(_unlimited)] = 3600.0
    retention: Seconds = 7 * 86400.0
    ledger_retention: Seconds = 400 * 86400.0
    aging_interval: Seconds = 300.0
    aging_after: Seconds = 3600.0
    aging_gain: int = Field(10, ge=0, le=MAX_PRIORITY)
    maintenance_interval: Seconds = 60.0
    max_args_bytes: int = Field(256 * 1024, ge=1024)
    max_result_bytes: int = Field(64 * 1024, ge=0)
    max_error_bytes: int = Field(8 * 1024, ge=256)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    webhooks_allow: Annotated[tuple[str, ...], Before(_networks)] = ()
    webhooks_tls_dir: str | None = None
    webhooks_per_endpoint: int = Field(10, ge=1, le=10_000)
    webhooks_breaker: int = Field(5, ge=0, le=1000)
    reconcile_enabled: bool = True
    reconcile_interval: Seconds = 300.0
    reconcile_threshold: Seconds = 600.0
    reconcile_batch_size: int = Field(100, ge=1, le=10_000)
    cluster_quorum_timeout: Annotated[float, Before(_seconds_in_any_way)] = 10.0
    tick_ms: int = Field(60_000, ge=10, le=3_600_000)
    slo_eval_ms: int = Field(60_000, ge=1000, le=3_600_000)
    slo_window_minutes: int = Field(15, ge=2, le=1440)
    breach_consecutive: int = Field(3, ge=1, le=100)
    tick_budget_ms: int = Field(300, ge=1)
    sat_ratio: Annotated[float, Before(_share)] = 0.8
    depth_avg_max: int = Field(1000, ge=0)
    job_p95_max_ms: int = Field(30_000, ge=1)
    cutoff_rate_max: Annotated[float, Before(_share)] = 0.01
    alert_queue_depth: int = Field(1000, ge=0)
    alert_failed_rate: Annotated[float, Before(_share)] = 0.1
    alert_running_for: Seconds = 3600.0
    alert_webhook: Annotated[str, Before(_webhook)] | None = None
    redis_url: Annotated[str, Before(_redis_url)] | None = None
    pg_connections: int = Field(6, ge=2, le=100)
    pg_prepare: bool = True
    pg_listen: bool = True

    _origins: dict[str, str] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problems = [problem for name in self.names() if (problem := self._read(name)) is not None]
        if not problems and self.beat is not None and self.beat > self.lease / 2:
            message = f"expected at most half of the lease ({self.lease:g} s), not {self.beat:g} s"
            problems.append(SettingProblem("beat", message, None))
        if problems:
            raise InvalidSettings(problems)

    def _read(self, name: str) -> SettingProblem | None:
        declared, hint = _declared()[name]
        value = getattr(self, name)
        try:
            object.__setattr__(self, name, fields.read(declared, hint, value))
        except ValueError as error:
            return SettingProblem(name, str(error), value)
        return None

    @staticmethod
    def names() -> Sequence[str]:
        """Everything that can be set."""
        return tuple(_declared())

    def origin(self, field: str) -> str:
        """Where a value came from: a flag, code, a variable, the file, or the default."""
        is_default = getattr(self, field) == fields.default_of(_declared()[field][0])
        return self._origins.get(field, "default" if is_default else "code")

    def overridden(self, flags: Mapping[str, Any], *, code: Mapping[str, Any] | None = None) -> Settings:
        """The same settings, except for what code says and these flags. What is None was not given."""
        origins = {name: origin for name in self.names() if (origin := self.origin(name)) != "default"}
        values = {name: getattr(self, name) for name in origins}
        _take_code(code or {}, values, origins)
        _take_flags(flags, values, origins)
        return _validated(values, origins)

    @property
    def aging(self) -> Rules:
        return Rules(self.aging_interval, self.aging_after, self.aging_gain)

    @property
    def orphans(self) -> OrphanRules:
        from oncue.engine.orphans import OrphanRules

        return OrphanRules(
            self.reconcile_enabled, self.reconcile_interval, self.reconcile_threshold, self.reconcile_batch_size
        )

    @property
    def slo(self) -> SloRules:
        return SloRules(
            every=self.slo_eval_ms / 1000,
            minutes=self.slo_window_minutes,
            consecutive=self.breach_consecutive,
            tick_budget_ms=self.tick_budget_ms,
            sat_ratio=self.sat_ratio,
            depth_avg_max=self.depth_avg_max,
            job_p95_max_ms=self.job_p95_max_ms,
            cutoff_rate_max=self.cutoff_rate_max,
            queue_depth=self.alert_queue_depth,
            failed_rate=self.alert_failed_rate,
            running_for=self.alert_running_for,
        )

    @property
    def pace(self) -> Pace:
        from oncue.engine.node import Pace

        beat = min(4.0, self.lease / 3) if self.beat is None else self.beat
        return Pace(
            poll=self.poll_interval,
            lease=self.lease,
            beat=beat,
            reconcile=min(1.0, self.lease / 4),
            buffer=self.buffer,
            drain=self.drain_timeout,
            schedules=self.tick_interval,
            retention=self.retention,
            ledger_retention=self.ledger_retention,
            maintenance=self.maintenance_interval,
            aging=self.aging,
            orphans=self.orphans,
            windows=self.tick_ms / 1000,
            slo=self.slo,
        )

    @property
    def limits(self) -> SizeLimits:
        from oncue.engine.outcomes import SizeLimits

        return SizeLimits(self.max_args_bytes, self.max_result_bytes, self.max_error_bytes)


@cache
def _declared() -> Mapping[str, tuple[dataclasses.Field[Any], Any]]:
    """The fields that can be set, in their order, with their types."""
    hints = get_type_hints(Settings, include_extras=True)
    return {each.name: (each, hints[each.name]) for each in dataclasses.fields(Settings) if each.init}


BARE_NAMES = {
    "database_url": "DATABASE_URL",
    "http_addr": "HTTP_ADDR",
    "tick_interval": "TICK_INTERVAL",
    "max_runtime": "MAX_RUNTIME_THRESHOLD",
    "reconcile_enabled": "RECONCILE_ENABLED",
    "reconcile_interval": "RECONCILE_INTERVAL",
    "reconcile_threshold": "RECONCILE_THRESHOLD",
    "reconcile_batch_size": "RECONCILE_BATCH_SIZE",
    "cluster_quorum_timeout": "JOB_NODE_QUORUM_TIMEOUT_SECS",
}


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    *,
    code: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings: flags, then what code says, then the environment and the file. None was not given."""
    values, origins = _found(os.environ if environment is None else environment, folder or Path())
    _take_code(code or {}, values, origins)
    _take_flags(flags or {}, values, origins)
    settings = _validated(values, origins)
    if settings.env == "production" and "database_url" not in origins:
        raise ConfigError("DATABASE_URL: expected postgresql://… or sqlite:///…; it must be set in production")
    return settings


def app_name(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str | None:
    """Where the application is, for whoever has to find it before its settings can be read."""
    values, _ = _found(os.environ if environment is None else environment, folder or Path())
    name = values.get("app")
    return str(name) if name else None


def _found(environment: Mapping[str, str], folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    values, origins = _from_file(environment, folder)
    for field, (variable, value) in _from_environment(environment).items():
        values[field], origins[field] = value, variable
    return values, origins


def _take_code(code: Mapping[str, Any], values: dict[str, Any], origins: dict[str, str]) -> None:
    for field, value in code.items():
        if value is not None:
            values[field], origins[field] = value, f"Oncue({field}=...)"


def _take_flags(flags: Mapping[str, Any], values: dict[str, Any], origins: dict[str, str]) -> None:
    for field, value in flags.items():
        if value is not None:
            values[field], origins[field] = value, f"--{field.replace('_', '-')}"


def _validated(values: dict[str, Any], origins: dict[str, str]) -> Settings:
    unknown = [name for name in values if name not in _declared()]
    complaints = [_unknown(name, origins) for name in unknown]
    try:
        settings = Settings(**{name: value for name, value in values.items() if name not in unknown})
    except InvalidSettings as error:
        complaints += [_complaint(problem, origins) for problem in error.problems]
    if complaints:
        raise ConfigError("\n".join(complaints))
    settings._origins.update(origins)
    return settings


def _unknown(name: str, origins: Mapping[str, str]) -> str:
    known = ", ".join(Settings.names())
    return f"{origins.get(name, name)}: there is no setting {name!r}; expected one of {known}"


def _complaint(problem: SettingProblem, origins: Mapping[str, str]) -> str:
    """Which field, what it expects, and what it got, unless the message has that already."""
    got = f", not {problem.value!r}"
    told = problem.value is None or got in problem.message
    return hidden(f"{origins.get(problem.field, problem.field)}: {problem.message}{'' if told else got}")


def _from_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found = {}
    for field in Settings.names():
        for variable in (f"ONCUE_{field.upper()}", BARE_NAMES.get(field)):
            if variable is not None and environment.get(variable, "") != "":
                found[field] = (variable, environment[variable])
                break
    return found


def _from_file(environment: Mapping[str, str], folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    named = environment.get("ONCUE_CONFIG")
    path = Path(named) if named else folder / CONFIG_FILE
    if not path.exists():
        if named:
            raise ConfigError(f"ONCUE_CONFIG: expected the path of a settings file; there is none at {named}")
        return {}, {}
    import tomllib  # most have no such file

    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: expected TOML; {error}") from None
    return values, {field: f"{field} in {path}" for field in values}
