"""The plan of the house, kept: who may import whom, who may read a clock or roll dice, and what is public."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import oncue

ROOT = Path(oncue.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

BASE = {"model", "errors", "identity"}
OUTER = {"server", "cli", "testing", "sim", "planning"}
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "identity": set(),
    "model": {"identity", "model"},
    "clock": set(),
    "telemetry": {"errors"},
    "policy": BASE | {"policy"},
    "store": BASE | {"clock", "store"},
    "engine": BASE | {"clock", "telemetry", "policy", "engine", "store.contract"},
    "client": BASE | {"policy", "records", "client"},
}
"""What each part may use of oncue. A part that is not named may use everything but the outermost ones."""

ALSO_FOR: dict[str, set[str]] = {
    "server": {"server"},
    "cli": OUTER,
    "testing": {"testing", "cli"},
    "sim": {"sim"},
    "planning": {"planning", "sim"},
    "__main__": {"cli"},
    "app": {"server"},
}
"""Which of the outermost parts an outer part may use; the composition root may start the server."""

WITH_CLOCK = {"clock.py"}
WATCHES_ALLOWED = {"clock.py", "cli", "server"}
FRESH_DICE_ALLOWED = {"application/internals.py"}

INPUT_AND_OUTPUT = {
    "asyncio", "aiohttp", "asyncpg", "concurrent", "http", "io", "logging", "multiprocessing", "os", "pathlib",
    "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def part_of(path: Path) -> str:
    return label(path).split("/")[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The full names of the modules that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{label(path)}: relative imports hide the arrows"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" if is_module(module, alias.name) else module for alias in node.names)


def is_module(package: str, name: str) -> bool:
    place = ROOT.parent / package.replace(".", "/")
    return (place / f"{name}.py").exists() or (place / name / "__init__.py").exists()


def inner(path: Path) -> list[str]:
    """What a file imports of oncue, without the `oncue.`; the package itself is only its version and public names."""
    return [name.removeprefix("oncue.") for name in imported(path) if name.startswith("oncue.")]


def allowed(part: str, name: str) -> bool:
    if part in ARROWS:
        return any(name == other or name.startswith(f"{other}.") for other in ARROWS[part])
    return name.split(".")[0] not in OUTER - ALSO_FOR.get(part, set())


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_imports_follow_the_arrows(path: Path) -> None:
    if label(path) == "__init__.py":
        return
    wrong = [name for name in inner(path) if not allowed(part_of(path), name)]
    assert not wrong, f"{label(path)} must not import {wrong}"


def test_the_arrows_bite() -> None:
    assert not allowed("store", "policy.lifecycle")
    assert not allowed("engine", "store.sqlite")
    assert not allowed("engine", "app")
    assert not allowed("policy", "clock")
    assert not allowed("task", "sim.world")
    assert allowed("engine", "store.contract")
    assert allowed("sim", "store.sqlite")


PURE = [p for p in MODULES if part_of(p) in ("policy", "planning") and p != ROOT / "planning/running.py"]
CHECKER = [path for path in MODULES if label(path).startswith("sim/checker/")]


@pytest.mark.parametrize("path", [*PURE, *CHECKER], ids=label)
def test_policy_planning_and_checker_are_pure(path: Path) -> None:
    touched = {name.split(".")[0] for name in imported(path)} & INPUT_AND_OUTPUT
    assert not touched, f"{label(path)} imports {touched}"
    calls = {name for name, _ in calls_in(path)} & {"open", "print", "input", "exec", "eval", "__import__"}
    assert not calls, f"{label(path)} calls {calls}"


def calls_in(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """The dotted names of everything that a file calls."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


CLOCK_CALLS = re.compile(
    r"(.*\.)?(datetime\.(now|utcnow|today)|date\.today|time\.(time|time_ns|localtime|gmtime|ctime))$|(uuid\.)?uuid[1467]$"
)
WATCH_CALLS = re.compile(r"(.*\.)?time\.(monotonic|perf_counter|process_time)(_ns)?$|(monotonic|perf_counter)$")
DICE_CALLS = re.compile(r"random\.(?!Random$)\w+$|secrets\.\w+$|os\.urandom$|(uuid\.)?uuid4$|random\.SystemRandom$")


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_clocks_and_dice_are_handed_in(path: Path) -> None:
    for name, call in calls_in(path):
        where = f"{label(path)}:{call.lineno} calls {name}"
        assert label(path) in WITH_CLOCK or not CLOCK_CALLS.match(name), where
        assert not DICE_CALLS.match(name), where
        if not {label(path), part_of(path)} & WATCHES_ALLOWED:
            assert not WATCH_CALLS.match(name), where
        if name in ("Random", "random.Random") and label(path) not in FRESH_DICE_ALLOWED:
            assert call.args, f"{where} without a seed"


def test_the_search_for_clocks_and_dice_bites() -> None:
    for name in ("datetime.now", "datetime.datetime.now", "time.time", "uuid.uuid1", "date.today"):
        assert CLOCK_CALLS.match(name), name
    for name in ("random.random", "random.choice", "secrets.token_hex", "os.urandom", "uuid4", "uuid.uuid4"):
        assert DICE_CALLS.match(name), name
    for name in ("self._clock.now", "connection.now", "self._dice.random", "clock.monotonic", "random.Random"):
        assert not CLOCK_CALLS.match(name), name
        assert not DICE_CALLS.match(name), name


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.sql")), ids=label)
def test_statements_are_told_the_time(path: Path) -> None:
    text = re.sub(r"--.*", "", path.read_text("utf-8")).lower()
    found = re.findall(
        r"\b(?:now|random|clock_timestamp|statement_timestamp|transaction_timestamp|gen_random_uuid|unixepoch|julianday)"
        r"\s*\(|\bcurrent_(?:timestamp|time|date)\b|'now'",
        text,
    )
    assert not found


PUBLIC = [
    "BACKGROUND",
    "CRITICAL_MAX_RETRIES",
    "SCHEDULED",
    "USER_REQUESTED",
    "ApiError",
    "AsyncClient",
    "Cancel",
    "Client",
    "ClusterJob",
    "ClusterTask",
    "ConfigError",
    "Conflict",
    "Exponential",
    "Fail",
    "InvalidJob",
    "InvalidSchedule",
    "InvalidSubject",
    "InvalidWebhook",
    "Job",
    "JobContext",
    "JobNotFound",
    "Ladder",
    "NewJob",
    "Node",
    "NodeResult",
    "NotAllowed",
    "NotLeader",
    "Oncue",
    "OncueError",
    "Receipt",
    "Retry",
    "RowLocked",
    "ScheduleNotFound",
    "Skip",
    "SlotTaken",
    "Snooze",
    "StoreBusy",
    "StoreUnavailable",
    "SubjectNotFound",
    "Task",
    "UnknownTask",
    "Unreachable",
    "WebhookNotFound",
    "WrongApplication",
    "cron",
    "current_job",
    "daily",
]


def test_the_public_names_are_these() -> None:
    """Everything else may change. A name that is added or taken away here is a promise made or broken."""
    assert sorted(oncue.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(oncue, name) is not None


APPLICATION = [
    "aclose",
    "adeliver",
    "alerts",
    "asgi",
    "audit_log",
    "close",
    "cluster",
    "cluster_task",
    "configure",
    "deliver",
    "find",
    "internals",
    "jobs",
    "lifespan",
    "name",
    "nodes",
    "now",
    "override",
    "queues",
    "schedules",
    "sessions",
    "settings",
    "subscribe",
    "task",
    "tasks",
    "tokens",
    "wait",
    "webhook",
    "webhooks",
    "windows",
    "worker",
]


def test_an_application_shows_what_a_user_needs() -> None:
    """What the engine, the server, the shell and the test kit need of it is in `internals`."""
    app = oncue.Oncue("sqlite:///:memory:")
    assert sorted(name for name in dir(app) if not name.startswith("_")) == APPLICATION


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree), f"{label(path)} begins without a word"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_a_constant_has_one_value(path: Path) -> None:
    """Two branches that each add a constant of the same name merge without a conflict, and the later value wins."""
    assigned = [
        target.id
        for statement in ast.parse(path.read_text("utf-8")).body
        for target in (statement.targets if isinstance(statement, ast.Assign) else ())
        if isinstance(target, ast.Name) and target.id.isupper()
    ]
    assert len(assigned) == len(set(assigned)), sorted(assigned)


NAMED_IN_SEVERAL_LAYERS = {
    # a noun: application, store and client
    "AuditLog", "Jobs", "Nodes", "Queues", "Schedules", "Sessions", "Tokens", "Webhooks",
    "Alerts", "Cluster", "Windows",  # the same, but for the client
    "Backfilled", "Readiness",  # as the process has it, and as the client reads it
    "Clock",  # the test kit's is a clock
    "Database",  # one for each dialect
    "Done",  # what a child process tells of a job, and what an action of the dashboard tells
    "Page",  # of a listing that the client reads, and of the dashboard
    "Request",  # what the client sends, and what a delivery sends
    "Span", "Terms", "Trigger",  # a body of the API has the name of what it describes
}  # fmt: skip


def test_a_class_name_means_one_thing() -> None:
    found = [
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in found if found.count(name) > 1} == NAMED_IN_SEVERAL_LAYERS


def test_the_architecture_page_names_every_package_service_and_table() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    migrations = [path.read_text("utf-8") for path in (ROOT / "store" / "migrations").rglob("*.sql")]
    tables = {name for text in migrations for name in re.findall(r"create table (\w+)", text)}
    packages = {f"{path.parent.name}/" for path in ROOT.glob("*/__init__.py")}
    modules = {path.stem for path in ROOT.glob("[a-z]*.py")}
    services = {
        node.name
        for path in (ROOT / "engine").glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(part, ast.AsyncFunctionDef) and part.name == "tick" for part in node.body)
    } - {"Service", "QuietService", "Execution", "OnLeader"}
    assert not [name for name in sorted(tables | packages | modules | services) if f"`{name}`" not in page]


def test_every_module_can_be_imported_alone() -> None:
    for path in MODULES:
        name = label(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name not in ("__init__", "__main__"):
            importlib.import_module(f"oncue.{name}")


TRANSACTIONS = {"store/postgres/database.py": ["migrate", "create_views"]}
"""Where PostgreSQL is asked several things in one transaction: while the tables and the views are made."""


def test_no_transaction_spans_round_trips() -> None:
    """A process that stood still in the middle of one would keep others waiting for as long as it does."""
    found: dict[str, list[str]] = {}
    for path in (ROOT / "store").rglob("*.py"):
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.AsyncFunctionDef)]
        for function in functions:
            calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
            if any(isinstance(call, ast.Attribute) and call.attr == "transaction" for call in calls):
                found.setdefault(label(path), []).append(function.name)
    assert found == TRANSACTIONS
    begins = re.compile(r"^\s*(begin|commit|start transaction)\b", re.IGNORECASE | re.MULTILINE)
    assert not [path.name for path in (ROOT / "store").glob("postgres*.sql") if begins.search(path.read_text())]
