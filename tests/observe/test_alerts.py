"""The alert rules: Prometheus can read them, they are about metrics that there are, and each fires when it should."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from oncue import Oncue
from oncue.cli import run
from oncue.cli.root import cli
from oncue.clock import VirtualClock
from oncue.engine.leadership import Leadership
from oncue.engine.scheduler import Scheduler
from oncue.engine.survey import Survey
from oncue.errors import StoreUnavailable
from oncue.model import GroupSettings, Lost, Skipped, TimedOut
from oncue.observe.alerts import Thresholds
from oncue.policy.lifecycle import Ended, settle
from oncue.policy.options import Options
from oncue.settings import load
from oncue.store import Store
from oncue.task import Call
from tests.cli.conftest import Process, on_database
from tests.cli.test_worker import free_address, get
from tests.observe.promql import Scrapes, parse
from tests.observe.test_prometheus import a_claim
from tests.observe.test_schedules import a_standing
from tests.observe.watch import Watch, alerts, queries
from tests.store import scene
from tests.store.scene import NOW, a_node, after, before, enter, put, take

pytestmark = pytest.mark.contract("QUE-20")


# --- the file -------------------------------------------------------------------------------------------------------


def test_every_rule_can_be_read_and_says_what_to_do() -> None:
    found = alerts()
    assert {"OncueQueueDepth", "OncueFailedRate", "OncueJobRunsLong", "OncueScheduleMissed"} <= set(found)
    for name, rule in found.items():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, name
        assert rule["labels"] == {"severity": rule["labels"]["severity"]}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert re.fullmatch(r"\d+m", rule.get("for", "0m"))
        assert parse(rule["expr"]).selectors
        assert "`oncue " in rule["annotations"]["description"] or name == "OncueNotScraped"
        assert "@" not in json.dumps(rule), "something was not filled in"
        by = re.findall(r"by \(([^)]*)\)", rule["expr"])
        kept = set(by[0].split(", ")) if by else {"job", "instance", "service"}
        assert set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))) <= kept, name


def test_the_contracts_thresholds_are_the_defaults() -> None:
    found = alerts()
    assert found["OncueQueueDepth"]["expr"].endswith("> 1000")
    assert found["OncueFailedRate"]["expr"].endswith("> 0.1")
    assert "(oncue_jobs_running_longest_seconds) > 3600\n" in found["OncueJobRunsLong"]["expr"]


def test_what_a_rule_says_to_run_can_be_run() -> None:
    texts = [rule["annotations"]["description"] for rule in alerts().values()]
    lines = {line for text in texts for line in re.findall(r"`oncue ([^`]+)`", text)}
    assert len(lines) > 15
    whole = typer.main.get_command(cli())
    for line in lines:
        command, words = whole, line.split()
        while isinstance(command, typer.core.TyperGroup) and words and not words[0].startswith("-"):
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_the_operators_guide_lists_all_of_them() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    listed = re.findall(r"^\| `(Oncue\w+)` \|.* \| (\w+) \|$", guide, re.MULTILINE)
    assert dict(listed) == {name: rule["labels"]["severity"] for name, rule in alerts().items()}
    told = set(re.findall(r"`(oncue_\w+)`", guide.split("### The metrics behind them")[1].split("\n## ")[0]))
    shown = scraped(Watch())
    assert len(told) > 30
    assert {name for name in told if f"# TYPE {name} " not in shown} == set()


def test_the_command_prints_them_with_the_thresholds_that_were_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--queue-depth", "50", "--failed-rate", "2.5%", "--running-for", "1h30m", "--late", "90s"]
    assert run(["alerts", *chosen, "--waiting-for", "2h", "--paused-for", "7d", "--job", 'the "shop"']) == 0
    (group,) = yaml.safe_load(capsys.readouterr().out)["groups"]
    printed = {rule["alert"]: rule for rule in group["rules"]}
    thresholds = Thresholds(50, 0.025, 5400.0, 7200.0, 90.0, 604800.0)
    assert printed == alerts(thresholds, 'the "shop"')
    assert "> 0.025" in printed["OncueFailedRate"]["expr"]
    assert "for more than 1h30m" in printed["OncueJobRunsLong"]["annotations"]["summary"]
    for query in queries(thresholds, 'the "shop"').values():
        assert all(("job", "=", 'the "shop"') in selector.matchers for selector in query.selectors)
    assert not any(name == "job" for query in queries().values() for s in query.selectors for name, *_ in s.matchers)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--queue-depth", "-4"),
        ("--failed-rate", "10"),
        ("--failed-rate", "many"),
        ("--running-for", "long"),
        ("--job", ""),
        ("--job", "a\nb"),
    ],
)
def test_a_threshold_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    assert run(["alerts", option, value]) == 2
    answer = capsys.readouterr()
    assert option in answer.err
    assert answer.out == ""


@pytest.mark.parametrize("text", ["a b", "sum(a)", "a > b", "a{b!='c'}", "a[5]", "rate(a[5m]", "avg by (a) (b)", "a)"])
def test_what_the_check_of_expressions_does_not_know_it_refuses(text: str) -> None:
    watch = Watch()
    watch.scrape()
    with pytest.raises(AssertionError):
        parse(text)(watch.scrapes, watch.at)


# --- the four of the contract ---------------------------------------------------------------------------------------


async def test_a_queue_that_grows_too_deep(store: Store) -> None:
    watch, node = Watch(store), await enter(store)
    await put(store, 1001)
    await watch.look(NOW)
    assert watch.firing() == {"OncueQueueDepth": [{"job": "oncue", "queue": "default"}]}
    # Another process tells the same of the same database: it must not be added up.
    await take(store, node, 1)
    await watch.look(after(seconds=15))
    other = Watch(store)
    await other.look(after(seconds=15))
    watch.scrapes.add(watch.at, scraped(other), instance="two")
    assert watch.firing() == {}
    assert watch.firing(queue_depth=999).keys() == {"OncueQueueDepth"}


async def test_a_job_that_runs_for_too_long(store: Store) -> None:
    watch, node = Watch(store), await enter(store)
    await put(store, 2)
    claims = await take(store, node)
    await watch.look(after(minutes=60))
    assert watch.firing() == {}
    await watch.look(after(minutes=60, seconds=15))
    assert watch.firing() == {"OncueJobRunsLong": [{"job": "oncue", "queue": "default", "task": "send"}]}
    await scene.settle(store, claims, at=after(minutes=61))
    await watch.look(after(minutes=61))
    assert watch.firing() == {}


@pytest.mark.contract("QUE-20")
@pytest.mark.parametrize("max_runtime", [3600.0, 900.0])
async def test_a_job_that_reached_its_maximum_runtime(store: Store, max_runtime: float) -> None:
    """With a maximum runtime of an hour or less no job runs for over an hour: being cut off there is the alarm."""
    watch, node = Watch(store), await enter(store)
    await put(store, 2, options=Options("at_least_once", None, max_runtime).stored())
    stuck, slow = await take(store, node)
    for claim, duration in ((slow, max_runtime - 10), (stuck, max_runtime)):
        await watch.look(after(seconds=max_runtime))
        assert "OncueJobRunsLong" not in watch.firing()
        outcome = TimedOut("timed out")
        change = scene.change(claim, outcome)
        watch.telemetry.emit("job.stop", {"duration": duration}, claim=claim, change=change, outcome=outcome)
    await watch.look(after(seconds=max_runtime + 15))
    assert watch.firing() == {"OncueJobRunsLong": [{"job": "oncue", "queue": "default", "task": "send"}]}


@pytest.mark.contract("QUE-20")
async def test_a_worker_that_cuts_a_job_off_raises_the_alarm(tmp_path: Path) -> None:
    app = Oncue(settings=load({"database_url": f"sqlite:///{tmp_path}/x.db"}, environment={}, folder=tmp_path))
    done, watch = asyncio.Event(), Watch(telemetry=app.internals.telemetry)
    app.internals.telemetry.subscribe(lambda *_: done.set(), "job.stop")

    @app.task(max_runtime="100ms", max_retries=0)
    async def hang() -> None:
        await asyncio.Event().wait()

    watch.scrape()
    await (await app.internals.connected()).store.migrate()
    await hang.aenqueue()
    async with app.worker():
        await asyncio.wait_for(done.wait(), 60)
    await app.aclose()
    watch.scrape(15)
    assert watch.firing()["OncueJobRunsLong"] == [{"job": "oncue", "queue": "default", "task": "hang"}]


async def test_a_schedule_that_missed_its_window(store: Store) -> None:
    """It fires at the first scrape of a leader that has just been elected, too: its counter is born with the miss."""
    watch, node, clock = Watch(store), await enter(store), VirtualClock(NOW)
    await scene.plan(store, grace=300.0)
    leadership = Leadership(
        store, replace(a_node(), id=node), clock, watch.telemetry, lambda: True, lease=15, poll=0.5
    )  # fmt: skip
    scheduler = Scheduler(store, node, leadership, Random(1), watch.telemetry, interval=30, poll=0.5)
    await leadership.tick(NOW)
    await watch.look(NOW)
    await leadership.resign()
    clock.advance(timedelta(minutes=7))
    await watch.look(clock.now())
    assert watch.firing().keys() == {"OncueNoLeader", "OncueSchedulerLate"}
    await leadership.tick(clock.now())
    await scheduler.tick(clock.now())
    await watch.look(clock.now())
    assert watch.firing() == {"OncueScheduleMissed": [{"job": "oncue", "schedule": "report"}]}
    missed = watch.metrics.registry.get_sample_value(
        "oncue_slots_total", {"schedule": "report", "verdict": "missed", "reason": "misfire"}
    )
    assert missed == 1, "the minute of 12:01, six minutes ago"
    for minute in range(1, 20):
        watch.scrape(60.0)
        assert ("OncueScheduleMissed" in watch.firing()) is (minute < 15), "a quarter of an hour later it is over"


async def test_a_share_of_jobs_that_fail(sqlite_url: str) -> None:
    app = Oncue(sqlite_url)
    watch, left = Watch(telemetry=app.internals.telemetry), asyncio.Event()

    @app.task(max_retries=0)
    async def fetch(number: int) -> None:
        if number < 2:
            raise ValueError("no such page")

    stopped: list[Any] = []
    app.internals.telemetry.subscribe(
        lambda *told: stopped.append(told) or (len(stopped) == 10 and left.set()), "job.stop"
    )
    watch.metrics.expect([("fetch", "default")])
    watch.scrape()
    await fetch.aenqueue_many(range(10))
    async with app.worker():
        await asyncio.wait_for(left.wait(), 60)
    await app.aclose()
    watch.scrape(60.0)
    assert watch.firing().get("OncueFailedRate") == [{"job": "oncue", "queue": "default", "task": "fetch"}]
    assert "OncueFailedRate" not in watch.firing(failed_rate=0.2), "it is a fifth, not more"


def scraped(watch: Watch) -> str:
    return generate_latest(watch.metrics.registry).decode()


# --- what pages an operator at night --------------------------------------------------------------------------------


async def test_a_cluster_that_is_left_alone(store: Store) -> None:
    """Jobs wait and nobody serves their queue, a queue was forgotten, schedules are due and nobody leads."""
    watch = Watch(store)
    await put(store, queue="mail")
    await put(store, queue="slow", state="scheduled", visible_at=before(minutes=20), created_at=before(days=9))
    await store.queues.pause("idle", before(hours=25))
    await store.queues.pause("slow", before(hours=2))
    await scene.plan(store)
    await watch.look(after(minutes=16))
    assert watch.firing() == {
        "OncueQueueUnserved": [{"job": "oncue", "queue": queue} for queue in ("mail", "slow")],
        "OncueOldestJobWaits": [{"job": "oncue", "queue": "mail"}],
        "OncueQueuePaused": [{"job": "oncue", "queue": "idle"}],
        "OncueNoLeader": [{"job": "oncue"}],
        "OncueSchedulerLate": [{"job": "oncue"}],
    }
    value = watch.metrics.registry.get_sample_value
    assert value("oncue_queue_oldest_wait_seconds", {"queue": "slow"}) == 36 * 60, "since it was due, not made"
    node, schedule = await enter(store), await scene.find(store)
    assert await store.queues.resume("idle", after(minutes=16))
    await scene.settle(store, await take(store, node, queues=["mail"]))
    await scene.fire(store, schedule, after(minutes=16))
    await scene.lead(store, node, now=after(minutes=16))
    await scene.settle(store, await take(store, node))
    await watch.look(after(minutes=16))
    assert watch.firing().keys() == {"OncueQueueUnserved"}, "nobody serves slow"


async def test_while_one_node_is_exclusive_the_others_serve_nothing(store: Store) -> None:
    watch, node = Watch(store), a_node(exclusive=True)
    await store.nodes.register(replace(node, queues=("default",)))
    await enter(store, "beta")
    assert await store.leases.acquire("exclusive", node.id, "alpha", NOW, after(days=1), respect=None)
    await put(store, queue="mail", created_at=before(minutes=5))
    await watch.look(NOW)
    assert watch.firing() == {"OncueQueueUnserved": [{"job": "oncue", "queue": "mail"}]}
    await watch.look(after(days=2))
    assert "OncueQueueUnserved" not in watch.firing()


def overrun(watch: Watch) -> None:
    claim = a_claim()
    change = settle(Ended(claim, Lost(), NOW, NOW), Random(1))
    watch.telemetry.emit("overrun", {}, claim=claim, change=change)


def too_late(watch: Watch) -> None:
    claim, outcome = a_claim(), Skipped("misfire")
    change = settle(Ended(claim, outcome, None, NOW), Random(1))
    watch.telemetry.emit("job.stop", {"duration": 0.0}, claim=claim, change=change, outcome=outcome)


def lease_lost(watch: Watch) -> None:
    seats = SimpleNamespace(concurrency=1, running=0, waiting=0, aside=0)
    watch.metrics.follow(seats, 0, a_standing(a_node(), alive=False))


def buffer_full(watch: Watch) -> None:
    watch.metrics.follow(SimpleNamespace(concurrency=1, running=1, waiting=81, aside=0), 100)


def failing(watch: Watch, service: str, error: Exception, times: int) -> None:
    for number in range(times):
        watch.telemetry.emit("tick.error", {"failures": number + 1}, service=service, error=error)


def decided(watch: Watch, what: str, *, quorum: bool) -> None:
    told: dict[str, float] = {"duration": 10.0, "lost": 1}
    watch.telemetry.emit("cluster.decided", told, task="compact", job_id=1, what=what, quorum=quorum)


ONE = {"job": "oncue", "instance": "one"}
SEND = {"job": "oncue", "queue": "mail", "task": "send"}


@pytest.mark.parametrize(
    ("alert", "happens", "labels"),
    [
        ("OncueJobOverran", overrun, SEND),
        ("OncueSlotJobTooLate", too_late, SEND),
        (
            "OncueScheduleBroken",
            lambda watch: watch.telemetry.emit("schedule.error", {}, schedule="nightly", error=None),
            {"job": "oncue", "schedule": "nightly"},
        ),
        ("OncueNodesLost", lambda watch: watch.telemetry.emit("node.lost", {}, node=None), {"job": "oncue"}),
        pytest.param(
            "OncueRunsRecovered",
            lambda watch: watch.telemetry.emit("recovery", {"jobs": 1}, node=None, predecessor=None),
            ONE,
            marks=pytest.mark.contract("SLOT-9"),
        ),
        pytest.param(
            "OncueOrphans",
            lambda watch: watch.telemetry.emit("orphans", {"found": 2, "re_emitted": 2, "failed": 0}),
            {"job": "oncue"},
            marks=pytest.mark.contract("HOOK-11", "HOOK-17"),
        ),
        pytest.param("OncueBufferFull", buffer_full, ONE, marks=pytest.mark.contract("HOOK-8", "HOOK-17")),
        pytest.param(
            "OncueClusterNoQuorum",
            lambda watch: decided(watch, "decided", quorum=False),
            {"job": "oncue", "task": "compact"},
            marks=pytest.mark.contract("CLUS-8", "CLUS-15"),
        ),
        pytest.param(
            "OncueClusterJobFailed",
            lambda watch: decided(watch, "failed", quorum=False),
            {"job": "oncue", "task": "compact"},
            marks=pytest.mark.contract("CLUS-15"),
        ),
        ("OncueNodeWithoutLease", lease_lost, ONE),
        ("OncueSettlesRejected", lambda watch: watch.telemetry.emit("settle", {"jobs": 0, "rejected": 6}), ONE),
        ("OncueDatabaseUnreachable", lambda watch: failing(watch, "survey", StoreUnavailable("gone"), 1), ONE),
    ],
)
def test_what_a_process_tells_of_itself(alert: str, happens: Callable[[Watch], None], labels: dict[str, str]) -> None:
    watch = Watch()
    for _ in range(16):  # a target that has been there for long
        watch.scrape(60.0)
    assert watch.firing() == {}
    happens(watch)
    watch.scrape(15.0)
    assert watch.firing() == {alert: [labels]}


@pytest.mark.contract("SLOT-9")
def test_a_worker_that_crashes_again_and_again_is_told_of_each_time() -> None:
    """Each of its processes ends one run of the one before, so that the counter shows 1 after every start."""
    scrapes, query = Scrapes(), queries()["OncueRunsRecovered"]
    for process, recovered in enumerate([0, 1, 1, 0]):
        watch = Watch()
        watch.telemetry.emit("recovery", {"jobs": recovered}, node=None, predecessor=None)
        text = generate_latest(watch.metrics.registry).decode()
        text = re.sub(r"^process_start_time_seconds .*$", f"process_start_time_seconds {process}", text, flags=re.M)
        for minute in range(20):
            scrapes.add(process * 1200.0 + minute * 60.0, text)
        soon, later = process * 1200.0 + 60.0, process * 1200.0 + 1140.0
        assert query(scrapes, soon) == ([ONE] if recovered else [])
        assert query(scrapes, later) == []


def test_a_service_that_keeps_failing() -> None:
    watch = Watch()
    for error, expected in ((ValueError("a bug"), {"OncueServiceFails"}), (StoreUnavailable("gone"), set())):
        failing(watch, "aging", ValueError("once"), 1)
        watch.telemetry.emit("survey", {}, survey=Survey(NOW, [], {}, [], False, None))
        watch.scrape(1000.0)
        failing(watch, "aging", error, 61)
        if isinstance(error, StoreUnavailable):
            failing(watch, "survey", error, 1)
        watch.scrape(300.0)
        assert watch.firing().keys() - {"OncueDatabaseUnreachable"} == expected


def sent(watch: Watch, outcome: str, times: int, seconds: float = 0.02) -> None:
    for _ in range(times):
        watch.telemetry.emit("delivery", {"seconds": seconds}, claim=None, webhook="orders", outcome=outcome)


@pytest.mark.contract("HOOK-17", "HOOK-18")
@pytest.mark.parametrize("outcome", ["retry", "failed", "timeout", "network", "refused", "invalid"])
def test_requests_to_webhooks_that_fail(outcome: str) -> None:
    watch = Watch()
    watch.scrape()
    sent(watch, "delivered", 90)
    sent(watch, outcome, 10)
    watch.scrape(300.0)
    assert watch.firing() == {}, "a tenth, not more"
    sent(watch, outcome, 1)
    watch.scrape(300.0)
    assert watch.firing() == {"OncueDeliveriesFail": [{"job": "oncue"}]}


@pytest.mark.contract("HOOK-17", "HOOK-18")
def test_requests_to_webhooks_that_take_long() -> None:
    watch = Watch()
    watch.scrape()
    sent(watch, "delivered", 99)
    sent(watch, "delivered", 1, seconds=5.1)
    watch.scrape(300.0)
    assert watch.firing() == {}
    sent(watch, "delivered", 1, seconds=5.1)
    watch.scrape(300.0)
    assert watch.firing() == {"OncueDeliveriesSlow": [{"job": "oncue"}]}


@pytest.mark.contract("HOOK-17")
async def test_a_circuit_breaker_that_is_open(store: Store) -> None:
    watch = Watch(store)
    await enter(store)
    assert await store.groups.trip("webhooks", "orders", 0, 1, after(minutes=1), NOW)
    await store.groups.set("webhooks", "mine", GroupSettings(), GroupSettings(paused_until=after(days=9)), NOW)
    await watch.look(NOW)
    assert watch.firing() == {"OncueBreakerOpen": [{"job": "oncue"}]}
    value = watch.metrics.registry.get_sample_value
    assert (value("oncue_breakers_open"), value("oncue_groups_paused")) == (1, 1)
    assert await store.groups.trip("webhooks", "orders", 1, 0, None, after(seconds=50), known_until=after(minutes=1))
    await watch.look(after(seconds=50))
    assert watch.firing() == {}


def test_nothing_is_scraped() -> None:
    watch = Watch()
    assert watch.firing() == {"OncueNotScraped": [{}]}
    watch.scrape()
    assert watch.firing() == {}


# --- real processes -------------------------------------------------------------------------------------------------


def families(text: str) -> set[str]:
    """The names under which samples of these metrics would come, whether there are any or not."""
    found = set()
    for family in text_string_to_metric_families(text):
        names = {sample.name for sample in family.samples}
        found |= names or {f"{family.name}_total" if family.type == "counter" else family.name}
    return found


@pytest.mark.contract("QUE-19")
def test_the_metrics_of_the_rules_are_exported(tmp_path: Path, sqlite_url: str) -> None:
    """By a worker all of them. A web process alone tells what is about the database, and its API counts right."""
    wanted = {selector.name for query in queries().values() for selector in query.selectors}

    async def fill(app: Oncue) -> None:
        from tests.cli.shop import app as shop

        await app.internals.enqueueing.write(Call(shop.find("add")), [((), {"a": number}) for number in range(1100)])
        await app.queues.pause("default")
        await app.queues.limit("default", globally=5)

    on_database(sqlite_url, fill)
    places, processes = [free_address(), free_address()], []
    try:
        web = Process(tmp_path, sqlite_url, "serve", "--http", places[0])
        processes.append(web)
        web.says("http: listening on")
        web.until(lambda: "oncue_database_up 1.0" in get(places[0], "/metrics")[1])
        text = get(places[0], "/metrics")[1]
        for line in (
            'oncue_queue_depth{queue="default"} 1100.0', 'oncue_queue_paused{queue="default"} 1.0',
            'oncue_queue_limit{queue="default",scope="global"} 5.0', 'oncue_queue_nodes{queue="default"} 0.0',
            'oncue_queue_oldest_wait_seconds{queue="default"} ', "oncue_leader_present 0.0",
            "oncue_schedules_enabled 0.0", "oncue_schedule_overdue_seconds 0.0",
        ):  # fmt: skip
            assert line in text
        assert "\noncue_node_alive" not in text, "it is no node, so it is not a dead one"
        assert json.loads(get(places[0], "/api/admin/jobs/stats")[1])["queued"] == 1100, "nobody else counts"
        (tmp_path / "worker").mkdir()
        worker = Process(tmp_path / "worker", sqlite_url, "worker", "--http", places[1])
        processes.append(worker)
        worker.says("http: listening on")
        worker.until(lambda: "oncue_database_up 1.0" in get(places[1], "/metrics")[1])
        text = get(places[1], "/metrics")[1]
        assert wanted - families(text) == set()
        assert "oncue_node_alive 1.0" in text
        assert 'oncue_jobs_finished_total{queue="default",state="failed",task="add"} 0.0' in text
        worker.until(lambda: 'oncue_queue_seats{queue="default"}' in get(places[1], "/metrics")[1])
        for process in processes:
            process.process.send_signal(signal.SIGTERM)
        assert [process.ends() for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.close()
