"""The commands, with real nodes: what one sees when nodes compact, and when the leader is killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.examples.cluster_maintenance.conftest import MakeProgram
from tests.examples.cluster_maintenance.program import Program


def statuses(program: Program) -> dict[str, str]:
    """How it is with the parts of the newest job."""
    from oncue.policy.quorum import status_of

    newest = program.jobs()[0]
    return {part.node_name: status_of(part, newest.job) for part in newest.parts}


@pytest.mark.contract("CLUS-2", "CLUS-6", "CLUS-7", "CLUS-9")
def test_all_nodes_compact_their_stores_and_the_leader_publishes_the_manifest(program: Program) -> None:
    said = program.up(3)
    assert "3 nodes started" in said
    said = program.run("compact", "--pause", "0.05")
    (job,) = program.jobs()
    assert (job.job.state, job.quorum, len(job.parts)) == ("succeeded", True, 3)
    assert job.job.result["by"] == program.leader()
    (path,) = program.published(job)
    content = json.loads(path.read_text("utf-8"))
    assert (content["generation"], content["quorum"]) == (1, True)
    for part in job.parts:
        if part.node_name in content["segments"]:
            assert content["segments"][part.node_name]["checksum"] == part.result["checksum"]
            assert f"{part.node_name}      completed" in said
    assert "the leader acts, with a quorum" in said
    assert f"action    recorded once, by {program.leader()}, attempt 1" in said
    assert "3 completed" in program.run("status")
    program.run("evict")
    assert [part.node_name for part in program.jobs()[0].parts] == [program.leader()]
    assert "3 nodes stopped" in program.run("down")
    assert program.fleet.alive() == []


@pytest.mark.contract("CLUS-6", "CLUS-9", "CLUS-11", "CLUS-12", "CLUS-15")
def test_the_leader_is_killed_while_the_nodes_work(program: Program) -> None:
    program.up(3)
    victim = program.leader()
    said = program.run("kill-leader", "--pause", "0.4")
    (job,) = program.jobs()
    assert (job.job.state, job.quorum) == ("succeeded", True)
    assert job.job.result["by"] == program.leader() != victim
    assert statuses(program)[victim] == "skipped"
    assert f"{victim}      lost: its node is gone" in said
    assert f"leader    {program.leader()} took over" in said
    assert f"{victim} skipped" in said
    assert len(program.published(job)) == 1
    assert "1 nodes started, 2 were there" in program.up(3)
    said = program.run("compact", "--pause", "0")
    assert program.jobs()[0].job.state == "succeeded"
    assert "an interrupted compaction went on" in said or statuses(program)[victim] != "completed"


@pytest.mark.contract("CLUS-9", "CLUS-12")
def test_the_leader_is_killed_when_it_has_published_and_not_recorded_it(program: Program) -> None:
    program.up(3)
    victim = program.leader()
    said = program.run("kill-leader", "--during", "action", "--pause", "1")
    (job,) = program.jobs()
    assert (job.job.state, job.job.crashes) == ("succeeded", 1)
    successor = program.leader()
    assert (job.job.result["by"], job.job.result["published_now"]) == (successor, False)
    (path,) = program.published(job)
    assert json.loads(path.read_text("utf-8"))["by"] == victim
    assert f"action    recorded once, by {successor}, attempt 2" in said


@pytest.mark.contract("CLUS-4", "CLUS-10")
def test_a_busy_disk_is_tried_again_and_of_two_compactions_one_is_made(program: Program) -> None:
    program.up(2)
    busy = program.start("busy", "node-1", "--seconds", "600")
    assert busy.stdout is not None
    assert "is locked" in busy.stdout.readline()
    first = program.start("compact", "--pause", "0")
    program.until(lambda: program.jobs() and statuses(program).get("node-1") == "retrying", "a part is tried again")
    second = program.start("compact", "--pause", "0")
    assert second.stdout is not None
    number = program.jobs()[0].id
    assert f"job {number} is under way already" in second.stdout.readline()
    busy.send_signal(signal.SIGINT)
    ended(busy, 130)
    assert "node-1      retrying: the disk is busy" in ended(first)
    assert f"job       {number} completed" in ended(second)
    assert len(program.jobs()) == 1


@pytest.mark.contract("CLUS-10", "CLUS-14")
def test_a_single_node_needs_no_other_and_skips_what_there_is_not_to_do(
    program_url: str, make_program: MakeProgram
) -> None:
    program = make_program(program_url, MAINTENANCE_WRITES="0")
    program.up(1)
    assert "node-1 skipped" in program.run("compact", "--pause", "0")
    (job,) = program.jobs()
    assert (job.job.state, job.job.reason) == ("skipped", "nothing_to_do")
    assert not program.published(job)
    assert "three nodes are needed" in program.run("kill-leader", code=1)
    program.environment["MAINTENANCE_WRITES"] = "10"
    program.run("down")
    program.up(1)
    assert "completed, with a quorum" in program.run("compact", "--pause", "0")
    assert len(program.jobs()[0].parts) == 1


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    said, _ = process.communicate()
    assert process.returncode == code, said
    return said
