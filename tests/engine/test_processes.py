"""Process tasks: real children, real signals. Only the executor's clock is virtual."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.engine.executor import GRACE_SECONDS
from oncue.engine.messages import Setup
from oncue.model import Cancelled, Failed, Outcome, Released, Skipped, Snoozed, Succeeded, TimedOut
from oncue.policy.options import Options
from oncue.settings import load
from tests.engine import heavy, pooled
from tests.engine.stage import Stage, settle

TIMED = Options(timeout=5.0)
PATIENCE = 60.0


class Pipe:
    """What the tasks tell."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        # Opened for both, so that it need not wait for a writer; this end is closed once there is one.
        self._writer = os.fdopen(os.open(self.path, os.O_RDWR), "r+b", buffering=0)
        self._reader = os.fdopen(os.open(self.path, os.O_RDONLY), "r")

    async def line(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return (await asyncio.to_thread(self._reader.readline)).strip()

    async def last_words(self) -> list[str]:
        """All that is still told, once nobody is left who could tell more."""
        self._writer.close()
        async with asyncio.timeout(PATIENCE):
            return (await asyncio.to_thread(self._reader.read)).splitlines()

    def close(self) -> None:
        self._writer.close()
        self._reader.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "pipe")
    yield pipe
    pipe.close()


MakeStage = Callable[..., Stage]


@pytest.fixture
def make_stage(runner: asyncio.Runner, pipe: Pipe) -> Iterator[MakeStage]:
    """Makes stages, and sees to it that none of them leaves a process behind, and before the pipe is closed."""
    made: list[Stage] = []

    def make(*tasks: Any, **options: Any) -> Stage:
        made.append(Stage(*tasks, **options))
        return made[-1]

    yield make
    for stage in made:
        stage.executor.close()
    runner.run(until(lambda: not children()))


def children() -> list[int]:
    """The child processes of this one: those that run, and those that nobody has waited for."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _is_child(folder)]


def _is_child(folder: Path) -> bool:
    try:
        state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        told = (folder / "cmdline").read_bytes()
    except OSError:
        return False
    return int(parent) == os.getpid() and (state == "Z" or b"oncue.process_tasks.child" in told)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def timed(stage: Stage, number: int) -> None:
    """Wait until the worker knows that a job has begun, so that its time is running."""
    await until(lambda: stage.executor._running[number, 1].deadline is not None)


async def test_the_jobs_of_a_child_share_what_its_lifespans_opened(
    make_stage: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    monkeypatch.setenv("CLOSED_HERE", str(closed))
    stage = make_stage(pooled.use, pooled.use_plainly, processes=1)
    assert await stage.outcome("use") == Succeeded("[1,true,true]")
    assert await stage.outcome("use") == Succeeded("[2,true,true]")
    assert await stage.outcome("use_plainly") == Succeeded("3")
    stage.executor.close()
    await until(closed.exists)
    assert closed.read_text() == "3"


async def test_a_child_is_started_for_the_first_job_and_kept_for_the_next(make_stage: MakeStage) -> None:
    stage = make_stage(heavy.place, heavy.place_too, processes=1)
    assert children() == []
    assert await stage.outcome("place") == await stage.outcome("place_too")
    (pid,) = children()
    assert stage.ended[1].outcome == Succeeded(f"[{pid},{pid},{pid},{os.getpid()}]"), "it leads a group of its own"


async def test_a_handler_in_a_child_knows_its_job_and_its_application(make_stage: MakeStage, tmp_path: Path) -> None:
    slot = datetime(2030, 1, 1, 12, tzinfo=UTC)
    settings = load({"database_url": "sqlite:///elsewhere.db"}, environment={}, folder=tmp_path)
    stage = make_stage(heavy.context, setup=Setup(settings))
    claim = stage.claim("context", args={"number": 3}, scheduled_for=slot, attempt=2)
    stage.submit(claim)
    await stage.quiet()
    assert stage.ended[1].outcome == Succeeded(
        f'{{"id":1,"uid":"{claim.uid}","attempt":3,"slot":"{slot}","same":true,"cancel":false,"number":3,'
        '"database":"sqlite:///elsewhere.db"}'
    )
    assert stage.ended[1].rows == 12


@pytest.mark.contract("QUE-8")
async def test_outcomes_are_those_of_every_other_task(make_stage: MakeStage) -> None:
    stage = make_stage(heavy.broken, heavy.broken_too, heavy.dedented, heavy.helped, processes=1)

    async def outcome(how: str, task: str = "broken") -> Outcome:
        return await stage.outcome(task, args={"how": how})

    assert await outcome("skip") == Skipped("nothing to do")
    assert await outcome("snooze") == Snoozed(5.0)
    assert await outcome("retry") == Failed("later", 9.0)
    assert await outcome("strange") == Succeeded(reason="result_not_json")
    hopeful, hopeless = await outcome("hope"), await outcome("hopeless")
    assert isinstance(hopeful, Failed)
    assert "heavy.py" in hopeful.error
    assert hopeful.error.endswith("ValueError: hope")
    assert (hopeful.delay, hopeful.final) == (7.0, False)
    assert isinstance(hopeless, Failed)
    assert hopeless.final, "the task's own rule is asked, in the child"
    for how, task, words in (("exit", "broken", "SystemExit: 4"), ("cancel", "broken_too", "cancelled itself")):
        failed = await outcome(how, task)
        assert isinstance(failed, Failed)
        assert words in failed.error
    unbound = await stage.outcome("broken", args={"what": 1})
    assert isinstance(unbound, Failed)
    assert "how" in unbound.error
    assert await stage.outcome("dedented", args={"text": "  a text"}) == Succeeded('"a text"')
    assert await stage.outcome("helped") == Succeeded(str(-signal.SIGTERM)), "it may have processes of its own"
    assert len(children()) == 1, "all that in one process"


async def test_a_child_that_dies_fails_its_attempt_and_is_replaced(make_stage: MakeStage) -> None:
    stage = make_stage(heavy.broken, heavy.place, processes=1)
    for how, words in (
        ("segfault", "its process was killed by SIGSEGV"),
        ("leave", "its process ended with exit code 3"),
    ):
        assert await stage.outcome("broken", args={"how": how}) == Failed(words)
    assert isinstance(await stage.outcome("place"), Succeeded)
    (between,) = children()
    os.kill(between, signal.SIGKILL)
    await until(lambda: b"Z" in Path(f"/proc/{between}/stat").read_bytes().split()[2])
    assert isinstance(await stage.outcome("place"), Succeeded), "it was not the fault of the next job"
    assert children() != [between]


@pytest.mark.contract("QUE-9")
@pytest.mark.parametrize(
    ("task", "options"), [("hold", {}), ("hold_too", {}), ("hold_too", {"busy": True})], ids=["plain", "async", "busy"]
)
async def test_a_job_over_its_time_is_interrupted_and_all_its_processes_die(
    make_stage: MakeStage, pipe: Pipe, task: str, options: dict[str, bool]
) -> None:
    stage = make_stage(heavy.hold, heavy.hold_too, heavy.place, processes=1)
    stage.submit(stage.claim(task, args={"pipe": pipe.path, "grandchild": True, **options}, options=TIMED))
    assert {(await pipe.line()).split()[0], (await pipe.line()).split()[0]} == {"begun", "grandchild"}
    (first,) = children()
    await timed(stage, 1)
    stage.submit(stage.claim("place"))
    await stage.pass_time(4.9)
    assert stage.ended == {}
    await stage.pass_time(0.1)
    assert await pipe.last_words() == ["tidied up"], "and the grandchild, which does not listen, is gone"
    await stage.quiet()
    assert stage.ended[1].outcome == TimedOut("timed out: cut off after 5 s")
    assert isinstance(stage.ended[2].outcome, Succeeded)
    assert first not in children(), "the next job has a process of its own"


@pytest.mark.contract("QUE-9")
async def test_a_job_that_does_not_listen_is_killed_and_frees_its_seat(make_stage: MakeStage, pipe: Pipe) -> None:
    stage = make_stage(heavy.hold, heavy.place, processes=1, concurrency=1)
    stage.submit(stage.claim("hold", args={"pipe": pipe.path, "deaf": True, "grandchild": True}), stage.claim("place"))
    assert {(await pipe.line()).split()[0], (await pipe.line()).split()[0]} == {"begun", "grandchild"}
    stage.executor.cancel(1, 1)
    await stage.pass_time(GRACE_SECONDS - 0.1)
    assert stage.ended == {}
    assert stage.executor.running == 1
    await stage.pass_time(0.1)
    assert await pipe.last_words() == []
    await stage.quiet()
    assert stage.ended[1].outcome == Cancelled()
    assert isinstance(stage.ended[2].outcome, Succeeded)


@pytest.mark.contract("QUE-9")
@pytest.mark.parametrize("how", ["fence", "shutdown"])
async def test_a_job_is_stopped_by_whoever_may(make_stage: MakeStage, pipe: Pipe, how: str) -> None:
    stage = make_stage(heavy.hold)
    stage.submit(stage.claim("hold", args={"pipe": pipe.path, "grandchild": True}))
    assert {(await pipe.line()).split()[0], (await pipe.line()).split()[0]} == {"begun", "grandchild"}
    if how == "fence":
        stage.executor.fence(1, 1)
    else:
        stage.executor.release_running("shutdown")
    assert await pipe.last_words() == ["tidied up"]
    await stage.quiet()
    assert stage.ended[1].outcome == Released("fenced" if how == "fence" else "shutdown")
    assert children() == []


async def test_a_job_that_finishes_all_the_same_has_done_its_work(make_stage: MakeStage, pipe: Pipe) -> None:
    stage = make_stage(heavy.stubborn)
    stage.submit(stage.claim("stubborn", args={"pipe": pipe.path}))
    await pipe.line()
    stage.executor.cancel(1, 1)
    await stage.quiet()
    assert stage.ended[1].outcome == Succeeded('"finished"')


async def test_a_job_can_be_stopped_before_its_child_is_ready(make_stage: MakeStage) -> None:
    stage = make_stage(heavy.place)
    stage.submit(stage.claim("place"))
    await settle()
    stage.executor.cancel(1, 1)
    await stage.quiet()
    assert stage.ended[1].outcome in (Cancelled(), Succeeded("never"))
    assert children() == []


async def test_signals_of_others_are_for_the_worker(make_stage: MakeStage, pipe: Pipe) -> None:
    """A terminal or a supervisor may send them to everyone; it is the worker that drains."""
    stage = make_stage(heavy.hold)
    stage.submit(stage.claim("hold", args={"pipe": pipe.path}))
    child = int((await pipe.line()).split()[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        os.kill(child, number)
    stage.executor.cancel(1, 1)
    assert await pipe.last_words() == ["tidied up"]
    await stage.quiet()
    assert stage.ended[1].outcome == Cancelled()


async def test_progress_comes_from_the_child_while_it_runs(make_stage: MakeStage, pipe: Pipe) -> None:
    stage = make_stage(heavy.hold)
    stage.submit(stage.claim("hold", args={"pipe": pipe.path}))
    await pipe.line()
    await until(stage.executor.progressed)
    (told,) = stage.executor.progressed()
    assert (told.job_id, told.claim_no, told.fraction, told.note, told.told_at) == (1, 1, 0.5, None, stage.now)
    stage.executor.saved([told])
    assert stage.executor.progressed() == []


async def test_no_more_processes_run_than_are_allowed(make_stage: MakeStage, pipe: Pipe, tmp_path: Path) -> None:
    stage = make_stage(heavy.wait, processes=2, concurrency=8)
    stage.executor.allow("narrow", 1)
    gates = [tmp_path / f"gate{number}" for number in range(6)]
    for gate in gates:
        os.mkfifo(gate)
    for number, queue in zip((1, 2, 3, 4, 5), ("narrow", "narrow", "wide", "wide", "wide"), strict=True):
        stage.submit(stage.claim("wait", args={"pipe": pipe.path, "gate": str(gates[number])}, queue=queue))

    async def goes_on(number: int) -> str:
        await asyncio.to_thread(gates[number].write_text, "")
        return await pipe.line()

    assert {await pipe.line(), await pipe.line()} == {"job 1", "job 3"}
    assert (stage.executor.running, stage.executor.waiting, stage.executor.process_room()) == (2, 3, 0)
    assert (stage.executor.running_in("narrow"), stage.executor.held_in("narrow")) == (1, 1)
    assert await goes_on(3) == "job 4", "job 2 is older, but its queue has no room"
    assert await goes_on(1) == "job 2"
    assert await goes_on(4) == "job 5"
    assert len(children()) == 2
    for number in (2, 5):
        await asyncio.to_thread(gates[number].write_text, "")
    await stage.quiet()
    assert (len(children()), stage.executor.process_room()) == (2, 2)


async def test_a_closed_executor_leaves_no_process_behind(make_stage: MakeStage, pipe: Pipe) -> None:
    stage = make_stage(heavy.hold, heavy.forget, processes=2)
    other = Pipe(Path(f"{pipe.path}.other"))
    stage.submit(stage.claim("hold", args={"pipe": pipe.path, "deaf": True, "grandchild": True}))
    assert {(await pipe.line()).split()[0], (await pipe.line()).split()[0]} == {"begun", "grandchild"}
    stage.submit(stage.claim("forget", args={"pipe": other.path}))
    assert {(await other.line()).split()[0], (await other.line()).split()[0]} == {"begun", "grandchild"}
    await until(lambda: 2 in stage.ended)
    assert len(children()) == 2
    stage.executor.close()
    assert await pipe.last_words() == []
    assert await other.last_words() == [], "also what a finished job has left running"
    other.close()


async def test_a_child_inherits_nothing_but_its_wire(make_stage: MakeStage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        outcome = await make_stage(heavy.descriptors).outcome("descriptors")
        theirs = os.readlink(f"/proc/self/fd/{listening.fileno()}")
    assert isinstance(outcome, Succeeded)
    assert outcome.result is not None
    assert theirs not in outcome.result
    assert outcome.result.count("socket:") == 1


# --- where a child finds its code -------------------------------------------------------------------------------------


def test_a_function_that_a_child_could_not_find_is_refused() -> None:
    app = Oncue()

    def inner() -> None: ...

    with pytest.raises(ValueError, match=r"^process: a child process could not import inner, since it is not at"):
        app.task(process=True)(inner)
    assert app.tasks == {}
    typed = "import oncue\n@oncue.Oncue().task(process=True)\ndef typed(): ..."
    refused = subprocess.run([sys.executable, "-c", typed], capture_output=True, text=True, check=False)
    assert "ValueError: process: a child process could not import typed, since it was typed into" in refused.stderr


PROGRAM = """
import asyncio
import os
from oncue import Oncue

app = Oncue(f"sqlite:///{{__file__}}.db")

@app.task(process=True, max_retries=0)
async def follow() -> int:
    return (await after.aenqueue(os.getpid())).id

@app.task
async def after(pid: int) -> None:
    assert pid != os.getpid()

async def main() -> None:
    async with app.worker():
        await follow.aenqueue()
        while not (jobs := await app.jobs.list()) or not all(job.finished for job in jobs):
            await asyncio.sleep(0.02)
    for job in jobs:
        print(job.task, job.state, job.error)

{start}
"""


@pytest.mark.parametrize("as_module", [False, True])
def test_the_program_itself_may_declare_process_tasks(tmp_path: Path, as_module: bool) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(start='if __name__ == "__main__":\n    asyncio.run(main())'))
    arguments = ["-m", "program"] if as_module else ["program.py"]
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["after succeeded None", "follow succeeded None"]
    assert done.stderr == ""


def test_a_program_that_would_start_a_worker_in_its_children_is_told(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(start="asyncio.run(main())"))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "follow failed" in done.stdout
    assert 'start the worker under `if __name__ == "__main__":`' in done.stdout
