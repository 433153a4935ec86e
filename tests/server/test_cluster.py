"""Cluster jobs over HTTP, on each back end: the leader creates them, and every other node says who leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from oncue import identity
from oncue.errors import ConfigError
from oncue.model import ClusterJob
from oncue.server.api import AccessMode
from oncue.settings import load
from tests.server.conftest import Api, MakeApi, a_token, bearer
from tests.server.nodes import a_cluster, declare_cluster_tasks
from tests.server.test_enqueueing import cut_off

CLUSTER = "/api/admin/cluster"
JOBS = f"{CLUSTER}/jobs"


@pytest.mark.contract("CLUS-1", "CLUS-13", "CLUS-15")
async def test_a_cluster_job_from_its_making_to_its_end(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann", "bob") as (leader, _):
        reply = await leader.api("POST", JOBS, {"task": "compact", "args": {"level": 2}, "priority": 70})
        made = reply.json()
        assert (reply.status_code, reply.headers["location"]) == (201, f"{JOBS}/{made['id']}"), reply.text
        assert (made["task"], made["args"], made["priority"], made["nodes"]) == ("compact", {"level": 2}, 70, None)
        assert [part["node"] for part in made["parts"]] == ["ann", "bob"]
        assert (made["quorum"]["parts"], made["quorum"]["needed"]) == (2, 2)
        await leader.ended(made["id"])
        found = await leader.api.get(f"{JOBS}/{made['id']}")
        assert (found["status"], found["reason"], found["waits_for"]) == ("completed", None, None)
        assert (found["quorum"]["reached"], found["epoch"], found["decided_epoch"]) == (True, 1, 1)
        assert [part["status"] for part in found["parts"]] == ["completed", "completed"]
        assert found["result"] == [part["result"] for part in found["parts"]] == ["ann at 2", "bob at 2"]
        assert await leader.api.get(f"{JOBS}/{found['uid']}") == found
        (listed,) = (await leader.api.get(JOBS))["jobs"]
        assert listed == {name: value for name, value in found.items() if name != "parts"}


@pytest.mark.contract("CLUS-6", "CLUS-13")
async def test_what_runs_is_shown_part_by_part(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann", "bob") as (leader, follower):
        made = (await leader.api("POST", JOBS, {"task": "compact", "args": {"level": 9}})).json()
        follower.go_on.set()
        mine, other = (part["job_id"] for part in made["parts"])
        await leader.watcher.begun(mine)
        await follower.ended(other)
        found = await leader.api.get(f"{JOBS}/{made['id']}")
        assert [part["status"] for part in found["parts"]] == ["running", "completed"]
        assert (found["status"], found["quorum"]) == (
            "running", {"parts": 2, "needed": 2, "completed": 1, "reached": None}
        )  # fmt: skip
        assert found["waits_for"] == "1 of 2 parts are done, a quorum is 2: ann runs its part"
        ann, bob = found["parts"]
        assert (ann["lost"], ann["late"], ann["result"]) == (False, False, None)
        assert (bob["result"], bob["finished_at"] is not None) == ("bob at 9", True)
        assert (await leader.api("GET", f"{JOBS}/{bob['job_id']}")).status_code == 404, "a part is no cluster job"
        leader.go_on.set()
        assert (await leader.ended(made["id"])).result == ["ann at 9", "bob at 9"]


@pytest.mark.contract("CLUS-3")
async def test_a_node_that_does_not_lead_names_the_leader(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann", "bob") as (_, follower):
        for path in (JOBS, "/api/admin/jobs"):
            reply = await follower.api("POST", path, {"task": "compact"}, headers={"Idempotency-Key": path})
            problem = reply.json()
            assert (reply.status_code, problem["type"]) == (421, "/problems/not-leader"), reply.text
            assert problem["leader"] == {"name": "ann", "address": "http://ann:8080"}
            assert "ann (http://ann:8080) leads" in problem["detail"]
        assert (await follower.api.get(JOBS))["jobs"] == []
        shown = await follower.api.get(CLUSTER)
        assert (shown["leader"]["name"], shown["leader"]["address"]) == ("ann", "http://ann:8080")
        assert {node["name"]: node["leads"] for node in shown["nodes"]} == {"ann": True, "bob": False}
        assert shown["leader"]["epoch"] == 1


@pytest.mark.contract("CLUS-3")
async def test_the_leader_is_asked_under_the_same_idempotency_key(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann", "bob") as (leader, follower):
        key = {"Idempotency-Key": "once"}
        assert (await follower.api("POST", JOBS, {"task": "compact"}, headers=key)).status_code == 421
        made = await leader.api("POST", JOBS, {"task": "compact"}, headers=key)
        assert (made.status_code, made.headers.get("Idempotency-Replayed")) == (201, None)
        again = await follower.api("POST", JOBS, {"task": "compact"}, headers=key)
        assert (again.json()["id"], again.headers["Idempotency-Replayed"]) == (made.json()["id"], "true")
        assert len((await leader.api.get(JOBS))["jobs"]) == 1


async def test_a_request_that_was_cut_off_makes_one_cluster_job(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann") as (leader,):
        key = {"Idempotency-Key": "once"}
        made = (await leader.api("POST", JOBS, {"task": "compact"}, headers=key)).json()
        await cut_off(leader.api, "once")
        again = await leader.api("POST", JOBS, {"task": "compact"}, headers=key)
        assert (again.status_code, again.json()["id"]) == (201, made["id"]), again.text
        assert len((await leader.api.get(JOBS))["jobs"]) == 1
        assert [part["node"] for part in again.json()["parts"]] == ["ann"]


@pytest.mark.contract("CLUS-3")
async def test_a_loopback_address_is_told_on_this_machine_alone(database_url: str, tmp_path: Path) -> None:
    here = {"ann": "http://127.0.0.1:8080", "bob": None}
    async with a_cluster(database_url, tmp_path, "ann", "bob", addresses=here) as (leader, follower):

        async def told(peer: str, host: str, **headers: str) -> tuple[str | None, str | None]:
            transport = httpx.ASGITransport(follower.api.gate, client=(peer, 4711))
            token = bearer(await a_token(follower.app, "read", "enqueue"))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}:8080") as client:
                refused = await client.post(JOBS, json={"task": "compact"}, headers={**token, **headers})
                shown = await client.get(CLUSTER, headers={**token, **headers})
            assert refused.status_code == 421
            assert refused.json()["leader"]["name"] == shown.json()["leader"]["name"] == "ann"
            assert ("127.0.0.1:8080" in refused.json()["detail"]) is (refused.json()["leader"]["address"] is not None)
            return refused.json()["leader"]["address"], shown.json()["leader"]["address"]

        address = "http://127.0.0.1:8080"
        assert await told("127.0.0.1", "127.0.0.1") == (address, address)
        assert await told("::1", "localhost") == (address, address)
        assert await told("10.0.0.7", "10.0.0.1") == (None, None)
        assert await told("127.0.0.1", "jobs.example") == (None, None)
        assert await told("127.0.0.1", "127.0.0.1", **{"X-Forwarded-For": "10.0.0.7"}) == (None, None)
        assert leader.name == "ann"


@pytest.mark.contract("CLUS-3")
async def test_a_loopback_address_of_another_host_is_none(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_cluster(database_url, tmp_path, "ann", "bob", addresses={"ann": "http://[::1]:80"}) as (_, follower):
        monkeypatch.setattr(identity, "host", lambda: "elsewhere")
        reply = await follower.api("POST", JOBS, {"task": "compact"})
        assert (reply.status_code, reply.json()["leader"]) == (421, {"name": "ann", "address": None})


@pytest.mark.contract("CLUS-3")
async def test_the_advertised_address_is_told(database_url: str, tmp_path: Path) -> None:
    advertised = {"advertise_url": "http://Web-1.example:8080/oncue/"}
    async with a_cluster(database_url, tmp_path, "ann", **advertised) as (leader,):
        assert (await leader.api.get(CLUSTER))["leader"]["address"] == "http://web-1.example:8080/oncue"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("web-1:8080", "expected a URL that begins with https:// or http://"),
        ("http://web-1:8080/?a=1", "expected a URL without a query"),
        ("http://ann:secret@web-1", "expected a URL without a user name and password"),
        ("http://web-1:99999", "expected a port from 1 to 65535"),
        ("http://", "expected a host"),
    ],
)
def test_an_advertised_address_that_is_none(value: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^ONCUE_ADVERTISE_URL: {complaint}") as refused:
        load(environment={"ONCUE_ADVERTISE_URL": value}, folder=tmp_path)
    assert "secret" not in str(refused.value)


@pytest.mark.contract("CLUS-4")
async def test_a_key_whose_job_is_unfinished_is_refused_with_its_id(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann") as (leader,):
        wanted = {"task": "compact", "args": {"level": 9}, "key": "nightly"}
        first = (await leader.api("POST", JOBS, wanted)).json()
        for path in (JOBS, "/api/admin/jobs"):
            reply = await leader.api("POST", path, wanted)
            assert (reply.status_code, reply.json()["job_id"]) == (409, first["id"]), reply.text
        leader.go_on.set()
        await leader.ended(first["id"])
        assert (await leader.api("POST", JOBS, wanted)).status_code == 201


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("args.level", {"args": {"level": "high"}}), ("args.depth", {"args": {"depth": 1}}), ("args", {"args": 7}),
        ("nodes", {"nodes": ["ann", "zoe"]}), ("nodes", {"nodes": []}), ("nodes.0", {"nodes": [""]}),
        ("task", {"task": "add"}), ("task", {"task": "nothing"}), ("task", {"task": "compact.part"}),
        ("task", {"task": "oncue.ping"}), ("priority", {"priority": 101}), ("key", {"key": ""}),
        ("queue", {"queue": "mail"}),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(database_url: str, tmp_path: Path, field: str, wanted: dict[str, Any]) -> None:
    async with a_cluster(database_url, tmp_path, "ann") as (leader,):
        reply = await leader.api("POST", JOBS, {"task": "compact", **wanted})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text
        assert (await leader.api.get(JOBS))["jobs"] == []


@pytest.mark.contract("CLUS-2")
async def test_named_nodes_take_part_and_the_leader_alone(database_url: str, tmp_path: Path) -> None:
    async with a_cluster(database_url, tmp_path, "ann", "bob") as (leader, _):
        made = (await leader.api("POST", JOBS, {"task": "compact", "nodes": ["bob"]})).json()
        assert (made["nodes"], [part["node"] for part in made["parts"]]) == (["bob"], ["bob"])
        alone = (await leader.api("POST", JOBS, {"task": "rotate"})).json()
        assert [(part["node"], part["job_id"]) for part in alone["parts"]] == [("ann", None)]
        assert (await leader.ended(alone["id"])).result == "ann"
        receipt = await leader.api("POST", "/api/admin/jobs", {"task": "compact"})
        assert (receipt.status_code, receipt.json()["created"]) == (201, True)
        assert len((await leader.api.get(f"{JOBS}/{receipt.json()['id']}"))["parts"]) == 2
        many = await leader.api(
            "POST", "/api/admin/jobs/bulk", {"jobs": [{"task": "add", "args": {"a": 1}}, {"task": "compact"}]}
        )
        assert (many.status_code, many.json()["errors"][0]["field"]) == (422, "jobs.1.task")


@pytest.mark.contract("CLUS-3")
async def test_a_web_process_hands_the_job_to_the_leader(database_url: str, tmp_path: Path, make_api: MakeApi) -> None:
    web = make_api(database_url)
    declare_cluster_tasks(web.app)
    early = await web("POST", JOBS, {"task": "compact", "key": "early"})
    assert (early.status_code, early.json()["status"], early.json()["parts"]) == (201, "new", []), early.text
    assert (await web("POST", JOBS, {"task": "compact", "key": "early"})).json()["job_id"] == early.json()["id"]
    assert await web.get(CLUSTER) == {"leader": None, "nodes": []}
    unknown = await web("POST", JOBS, {"task": "compact", "nodes": ["zoe"]})
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "nodes")
    async with a_cluster(database_url, tmp_path, "ann") as (leader,):
        await leader.ended(early.json()["id"])
        made = await web("POST", JOBS, {"task": "compact", "nodes": ["ann"]})
        assert (made.status_code, made.json()["nodes"]) == (201, ["ann"])
        await leader.ended(made.json()["id"])
        found = await web.get(f"{JOBS}/{made.json()['id']}")
        assert [(part["node"], part["status"]) for part in found["parts"]] == [("ann", "completed")]
        page = await web.get(f"{JOBS}?limit=1")
        assert [job["id"] for job in page["jobs"]] == [made.json()["id"]]
        assert [job["id"] for job in (await web.get(page["next"]))["jobs"]] == [early.json()["id"]]


async def test_the_scopes_are_those_of_jobs(make_api: MakeApi, database_url: str) -> None:
    api = make_api(database_url, AccessMode.TOKEN)
    declare_cluster_tasks(api.app)
    reading, writing = bearer(await a_token(api.app, "read")), bearer(await a_token(api.app, "enqueue"))
    assert (await api("POST", JOBS, {"task": "compact"}, headers=reading)).status_code == 403
    assert (await api("POST", JOBS, {"task": "compact"}, headers=writing)).status_code == 201
    for path in (JOBS, CLUSTER, f"{JOBS}/1"):
        assert (await api("GET", path, headers=reading)).status_code == 200
        assert (await api("GET", path, headers=writing)).status_code == 403
    assert (await api("GET", f"{JOBS}/99", headers=reading)).status_code == 404
    assert (await api("GET", f"{JOBS}?limit=1001", headers=reading)).status_code == 422


async def test_what_a_job_came_to_before_the_answer_is_told_to_those_who_may_read(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_cluster(database_url, tmp_path, "ann") as (leader,):
        api = Api(leader.app, AccessMode.TOKEN)

        async def spread(ref: int, *, timeout: float) -> ClusterJob:
            await leader.ended(ref)
            return await leader.app.cluster.get(ref)

        monkeypatch.setattr(leader.app.cluster, "spread", spread)
        for scopes, told in ((("enqueue",), (None, None)), (("enqueue", "read"), (["ann at 2"], "ann at 2"))):
            token = bearer(await a_token(leader.app, *scopes))
            made = (await api("POST", JOBS, {"task": "compact", "args": {"level": 2}}, headers=token)).json()
            assert (made["status"], made["result"], made["parts"][0]["result"]) == ("completed", *told)
        await api.client.aclose()
