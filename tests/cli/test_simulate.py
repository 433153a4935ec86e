"""`oncue simulate`: the application's own schedules and queues, in virtual time."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from oncue.planning.sentences import NOT_SIMULATED
from tests.cli.conftest import BAKERY, OURS, ROOT, Shell, work_off

Simulate = Callable[..., Any]


@pytest.fixture
def simulate(oncue: Shell) -> Simulate:
    """Simulates the bakery; the figures as JSON."""

    def simulated(*arguments: str) -> Any:
        answer = oncue("simulate", "--app", BAKERY, "--json", *arguments)
        assert answer.code == 0, answer.err
        return answer.json

    return simulated


BUSY = [
    "--for", "90m", "--nodes", "2", "-c", "2", "--durations", "bake=~2m,*=1s..20s", "--arrivals", "bake=40/h,serve=1/m",
    "--failures", "*=5%", "--outage", "00:30+5m",
]  # fmt: skip


def test_the_same_seed_gives_the_same_bytes(oncue: Shell, tmp_path: Path) -> None:
    """In two processes, whose sets and dictionaries of strings are in another order."""

    def run(hash_seed: str) -> tuple[str, bytes]:
        page = tmp_path / "report.html"
        done = subprocess.run(
            [sys.executable, "-m", "oncue", "simulate", "--app", BAKERY, *BUSY, "--report", str(page)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": OURS},
            cwd=tmp_path, capture_output=True, check=True, text=True, timeout=100,
        )  # fmt: skip
        assert not done.stderr
        return done.stdout, page.read_bytes()

    first = run("1")
    assert run("2") == first
    assert oncue("simulate", "--app", BAKERY, *BUSY, "--seed", "7").out.splitlines()[1:] != first[0].splitlines()[1:]


def test_schedules_run_as_they_are_declared(simulate: Simulate) -> None:
    """The first instant of the simulated time may be a slot; its last belongs to what comes after."""
    found = simulate("--days", "1", "--start", "2030-03-01T06:00", "--durations", "*=5s")
    ran = {one["name"]: (one["slots"], one["ran"], one["latest"]) for one in found["schedules"]}
    assert ran == {"check_ovens": (144, 144, 0.0), "count_the_till": (2, 2, 0.0), "open_doors": (1, 1, 0.0)}
    assert found["ended"] == {"succeeded": 147}
    assert found["findings"][0]["text"] == "1 node is enough to start every job within 1m."
    assert not Path("oncue.db").exists()


def test_an_outage_shows_in_the_slots_and_in_the_backlog(simulate: Simulate) -> None:
    found = simulate(
        "--for", "4h", "--start", "2030-03-01T04:00", "--outage", "05:45+30m", "--arrivals", "serve=2/m", "--durations",
        "*=5s",
    )  # fmt: skip
    slots = {one["name"]: one for one in found["schedules"]}
    assert slots["check_ovens"]["did_not_run"] == {"missed: misfire": 3}
    assert slots["open_doors"]["ran"] == 1
    assert 900 <= slots["open_doors"]["latest"] < 960
    (backlog,) = [backlog for backlog in found["backlogs"] if backlog["outage"]]
    assert "2030-03-01T05:45" < backlog["start"] < "2030-03-01T05:48"
    assert "2030-03-01T06:15" < backlog["end"] < "2030-03-01T06:17"
    assert backlog["waiting"] > 40
    assert found["capacity"]["nodes_for_all"] == 1


def test_too_few_nodes_are_told_and_what_is_advised_is_enough(simulate: Simulate) -> None:
    busy = ["--for", "3h", "-c", "2", "--arrivals", "bake=60@01:05", "--durations", "bake=4m,*=5s", "--target", "10m"]
    found = simulate(*busy)
    (backlog,) = found["backlogs"]
    assert (backlog["start"], backlog["end"]) > ("2030-01-01T01:00", "2030-01-01T02:55")
    assert found["most_waiting"]["value"] == 58
    told = "16 nodes would start every job within 10m, and before it is given up, about 10 nodes 99 % of them."
    assert found["findings"][0]["text"] == f"1 node is too few: {told}"
    advised = simulate(*busy, "--nodes", "16")
    assert advised["findings"][0]["tone"] == "good"
    assert advised["lateness"]["max"] <= 600
    fewer = simulate(*busy, "--nodes", "15")
    assert fewer["findings"][0]["text"].startswith("15 nodes are too few: 16 nodes would")
    ovens = next(schedule for schedule in fewer["schedules"] if schedule["name"] == "check_ovens")
    assert ovens["did_not_run"] == {"not started: misfire": 1}  # it has two minutes, whatever the target is


def test_failures_are_retried_by_the_tasks_own_rule(simulate: Simulate) -> None:
    found = simulate("--for", "1h", "--arrivals", "bake=10@00:05", "--durations", "*=10s", "--failures", "bake=100%")
    (bake,) = [task for task in found["tasks"] if task["name"] == "bake"]
    assert (bake["jobs"], bake["attempts"], bake["retries"], bake["ended"]) == (10, 30, 20, {"failed": 10})
    assert found["lateness_by_queue"]["ovens"]["max"] < 1.0  # a retry is due when its ladder says so


def test_an_attempt_ends_at_its_time_out(simulate: Simulate) -> None:
    found = simulate("--for", "2h", "--arrivals", "bake=1@00:05", "--durations", "bake=1h,*=1s")
    (bake,) = [task for task in found["tasks"] if task["name"] == "bake"]
    assert (bake["attempts"], bake["ended"]) == (3, {"failed": 1})
    assert bake["seconds_in_seats"] == 3 * 3600.0  # a thread keeps its seat until it really ends


def test_urgent_jobs_go_first_and_limits_are_kept(simulate: Simulate) -> None:
    crowd = ["--for", "1h", "-c", "8", "--durations", "*=1m", "--arrivals", "bake=40@00:01,serve=8@00:01"]
    free = simulate(*crowd)["lateness_by_queue"]
    assert (free["counter"]["max"], free["ovens"]["max"]) == (0.0, 300.0)
    limited = simulate(*crowd, "--nodes", "3", "--limit", "ovens=3/node,ovens=5")
    assert limited["lateness_by_queue"]["ovens"]["max"] == pytest.approx(420.0, abs=2)
    text = "More nodes do not help: the limit of queue ovens would keep jobs waiting beyond 1m."
    assert limited["findings"][0]["text"] == text


def test_process_tasks_have_seats_of_their_own(simulate: Simulate) -> None:
    found = simulate("--for", "1h", "--processes", "2", "--durations", "*=1m", "--arrivals", "knead=8@00:01")
    assert found["lateness_by_queue"]["ovens"]["max"] == pytest.approx(180.0, abs=2)


def test_queues_that_no_node_serves_are_told(oncue: Shell) -> None:
    answer = oncue(
        "simulate", "--app", BAKERY, "--for", "1h", "--queues", "default,ovens", "--arrivals", "serve=6@00:10"
    )
    assert answer.code == 0
    assert answer.out.splitlines()[2] == "No node serves counter (--queues): its jobs never run."
    assert "6 jobs were not finished at the end (6 queued)." in answer.out
    assert "Jobs that wait" in answer.out
    assert "6 ┤" in answer.out


def test_what_is_typed_can_be_read_from_a_file(simulate: Simulate, tmp_path: Path) -> None:
    durations, outages, limits = tmp_path / "durations", tmp_path / "outages", tmp_path / "limits"
    durations.write_text("# in the bakery\nbake = 90s  # at least\n* = 2s\n")
    outages.write_text("00:10+5m, 00:30+5m # twice\n")
    limits.write_text("ovens=3\novens=1/node\n")
    files = ("--durations", f"@{durations}", "--outage", f"@{outages}", "--limit", f"@{limits}")
    found = simulate("--for", "1h", *files)["simulated"]
    others = ("check_ovens", "count_the_till", "knead", "open_doors", "serve")
    assert found["durations"] == {"bake": "1m30s", **dict.fromkeys(others, "2s")}
    assert found["outages"] == [{"start": 600, "end": 900}, {"start": 1800, "end": 2100}]
    ovens = found["limits"]["ovens"]
    assert (ovens["globally"], ovens["per_node"]) == (3, 1)


@pytest.mark.usefixtures("no_sqlite_file")
def test_durations_can_be_measured(oncue: Shell, sqlite_shop: str) -> None:
    measured = ("simulate", "--for", "1h", "--arrivals", "add=5@00:10", "--durations", "measured,greet=3s", "--json")
    refused = oncue(*measured)
    assert refused.code == 2
    assert "there is no database yet in which anything was measured" in refused.err
    oncue("enqueue", "add", "a=1")
    oncue("enqueue", "add", "a=2")
    work_off(sqlite_shop)
    found = oncue(*measured).json
    assert found["simulated"]["durations"]["add"].startswith("measured, 2 times, ")
    assert found["simulated"]["durations"]["greet"] == "3s"
    idle = "boom, crawl, greet, nap and stuck never ran: without a schedule, and without --arrivals."
    assert found["notes"] == [idle, NOT_SIMULATED]


def test_the_documentation_s_example_works(oncue: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for its length: three days are for people."""
    text = (ROOT / "docs" / "simulate.md").read_text("utf-8")
    (tmp_path / "documented.py").write_text(text.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    written = re.search(r"^oncue (simulate(?:.*\\\n)*.*)", text, re.MULTILINE)
    assert written is not None
    command = shlex.split(written[1].replace("\\\n", ""))
    shorter = {"--days": "--for", "3": "3h", "shop:app": "documented:app", "2030-01-03T08:20+30m": "08:20+30m"}
    answer = oncue(*(shorter.get(word, word) for word in command), "--start", "2030-01-01T07:00")
    assert answer.code == 0, answer.err
    assert "2 nodes are too few: 1" in answer.out
    assert (tmp_path / "shop.html").exists()


BAD = [
    (["--arrivals", "open_doors=1/h"], "--arrivals", "runs at most once"),
    (["--days", "1", "--for", "1h"], "--for", "expected either --days or --for, not both"),
    (["--for", "soon"], "--for", "expected a duration such as"),
    (["--for", "10s"], "--for", "from 1m to 3660d, not '10s'"),
    (["--for", "99999999d"], "--for", "from 1m to 3660d, not '99999999d'"),
    (["--for", "2h", "--outage", "08:00+30m"], "--outage", "'08:00+30m' is not in the simulated time"),
    (["--queues", "default,oven"], "--queues", "there is no queue 'oven'; did you mean 'ovens'?"),
    (["--arrivals", "bake=100000000@00:30"], "--arrivals", "expected 1,000,000 jobs in the simulated time at most"),
    (["--arrivals", "bake=1/d,bake=2/d"], "--arrivals", "expected bake once for every hour, not both 1/d and 2/d"),
    (["--failures", "bake=1%,bake=2%"], "--failures", "expected bake once, not twice"),
    (["--report", ""], "--report", "expected a file that can be written"),
    (["--days", "0"], "--days", "is not in the range"),
    (["--nodes", "0"], "--nodes", "is not in the range"),
    (["--concurrency", "0"], "--concurrency", "expected at least 1, not 0"),
    (["--start", "tomorrow"], "--start", "expected a date or an instant such as 2030-01-31"),
    (["--start", "1066-10-14"], "--start", "from 1970 to 2200"),
    (["--durations", "bake=long"], "--durations", "expected a duration such as 200ms"),
    (["--durations", "bakes=1s"], "--durations", "there is no task 'bakes'; did you mean 'bake'?"),
    (["--durations", "@nowhere"], "--durations", "expected a file to read after the @"),
    (["--arrivals", "bake=often"], "--arrivals", "expected a rate such as 20/m"),
    (["--arrivals", "*=5/d"], "--arrivals", "expected the name of a task before the =, not *"),
    (["--failures", "bake=200%"], "--failures", "expected a share such as 2%"),
    (["--outage", "noon"], "--outage", "expected a time of day and a length such as 08:00+30m"),
    (["--limit", "ovens=1000001"], "--limit", "1,000,000 at most; not '1000001'"),
    (["--limit", "oven=2"], "--limit", "there is no queue 'oven'; did you mean 'ovens'?"),
    (["--target", "soon"], "--target", "expected a duration such as"),
    (["--report", "no/such/folder/report.html"], "--report", "expected a file that can be written"),
    (["--report", "."], "--report", "expected a file that can be written"),
    (["--queues", ""], "--queues", "expected the names of queues, separated by commas"),
]


@pytest.mark.parametrize(("arguments", "option", "complaint"), BAD, ids=[" ".join(one[0]) for one in BAD])
def test_bad_input_names_the_option(oncue: Shell, arguments: list[str], option: str, complaint: str) -> None:
    answer = oncue("simulate", "--app", BAKERY, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert option in answer.err
    assert complaint in answer.err


def test_a_run_that_comes_to_nothing_leaves_no_report(oncue: Shell, tmp_path: Path) -> None:
    """What was there before stays, and where nothing was there is nothing."""
    fresh, old = tmp_path / "fresh.html", tmp_path / "old.html"
    old.write_text("of yesterday")
    before = sorted(tmp_path.iterdir())
    for page in (fresh, old):
        assert oncue("simulate", "--app", BAKERY, "--for", "soon", "--report", str(page)).code == 2
    assert sorted(tmp_path.iterdir()) == before
    assert old.read_text() == "of yesterday"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is needed")
def test_a_report_that_cannot_be_written_in_the_end_does_not_cost_the_figures(oncue: Shell) -> None:
    answer = oncue("simulate", "--app", BAKERY, "--for", "1h", "--report", "/dev/full")
    assert answer.code == 1
    assert "Lateness by queue" in answer.out
    assert "--report: /dev/full could not be written: No space left on device" in answer.err


def test_it_needs_an_application(oncue: Shell) -> None:
    answer = oncue("simulate")
    assert answer.code == 2
    assert "--app: expected the place of an application" in answer.err


def test_the_report_is_a_page(oncue: Shell, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("of yesterday")
    assert oncue("simulate", "--app", BAKERY, "--for", "1h", "--report", str(page)).code == 0
    assert not list(tmp_path.glob(".*"))
    text = page.read_text("utf-8")
    assert ElementTree.fromstring(text.partition("\n")[2]).find("body/h1").text == f"oncue simulate: {BAKERY}"  # type: ignore[union-attr]
