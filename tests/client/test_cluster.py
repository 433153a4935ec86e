"""Cluster jobs by the client, on each back end, and how it follows a server that does not lead to the leader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oncue import AsyncClient, Client, ConfigError, Conflict, InvalidJob, JobNotFound, NotLeader, Unreachable
from oncue.client.servers import MOST_HOPS
from oncue.server.api import AccessMode
from tests.app.watching import Watcher
from tests.client.conftest import Aside, Shop, Site
from tests.server.conftest import a_shop, a_token
from tests.server.nodes import declare_cluster_tasks
from tests.server.test_health import heard

SECRET = "oncue_abcdefgh_" + "s3cret" * 7 + "!"


class NodeSite(Shop):
    """A node that is also a server, as `oncue run` is."""

    def __init__(self, aside: Aside, url: str, folder: Path, name: str, access: AccessMode) -> None:
        app = a_shop(url, folder)
        self.go_on = declare_cluster_tasks(app)
        self.watcher = Watcher(app)
        app.override({"node_name": name})
        super().__init__(aside, app, access)

    @contextmanager
    def working(self, *, leads: bool) -> Iterator[None]:
        elected, worker = self.aside.run(self._heard()), self.app.worker(address=self.url)
        self.aside.run(worker.__aenter__())
        try:
            if leads:
                self.aside.run(asyncio.wait_for(elected.wait(), 60))
            yield
        finally:
            self.aside.run(worker.__aexit__(None, None, None))

    async def _heard(self) -> asyncio.Event:
        return heard(self.app, "leader.elected")

    def go_on_now(self) -> None:
        async def tell() -> None:
            self.go_on.set()

        self.aside.run(tell())

    def until_ended(self, job_id: int) -> None:
        self.aside.run(self.watcher.ended([job_id]))


@pytest.fixture
def pair(aside: Aside, database_url: str, tmp_path: Path) -> Iterator[tuple[NodeSite, NodeSite]]:
    """The leader and a node that does not lead."""
    leader, follower = (
        NodeSite(aside, database_url, tmp_path, name, AccessMode.LOOPBACK) for name in ("ann", "bob")
    )  # fmt: skip
    with leader.working(leads=True), follower.working(leads=False):
        yield leader, follower


@pytest.mark.contract("CLUS-3", "CLUS-4", "CLUS-15")
def test_the_client_follows_a_server_that_does_not_lead(pair: tuple[NodeSite, NodeSite]) -> None:
    leader, follower = pair
    with Client(follower.url, leaders=[leader.url]) as client:
        made = client.cluster.run("compact", {"level": 2}, nodes=["bob"], key="nightly", priority=70)
        assert (made.task, made.args, made.nodes, made.priority) == ("compact", {"level": 2}, ("bob",), 70)
        assert [part.node for part in made.parts] == ["bob"]
        assert ("POST", "/api/admin/cluster/jobs") in leader.asked
        leader.until_ended(made.id)
        found = client.cluster.get(made.id)
        assert (found.status, found.finished, found.result, found.parts[0].result) == (
            "completed", True, ["bob at 2"], "bob at 2"
        )  # fmt: skip
        assert client.cluster.get(found.uid) == found
        assert [job.id for job in client.cluster.list()] == [job.id for job in client.cluster.all()] == [made.id]
        told = client.cluster.leader()
        assert told is not None
        assert (told.name, told.address, told.epoch) == ("ann", leader.url, 1)
        receipt = client.enqueue("rotate")
        assert receipt.created
        assert client.cluster.get(receipt.id).parts[0].node == "ann"


@pytest.mark.contract("CLUS-4")
def test_what_the_leader_refuses(pair: tuple[NodeSite, NodeSite]) -> None:
    leader, follower = pair
    with Client(follower.url, leaders=[leader.url]) as client:
        held = client.cluster.run("compact", {"level": 9}, key="nightly")
        with pytest.raises(Conflict) as refused:
            client.cluster.run("compact", {"level": 9}, key="nightly")
        assert refused.value.job_id == held.id
        for field, wanted in (("args.level", {"args": {"level": "x"}}), ("nodes", {"nodes": ["zoe"]})):
            with pytest.raises(InvalidJob) as wrong:
                client.cluster.run("compact", **wanted)
            assert wrong.value.field == field
        with pytest.raises(JobNotFound):
            client.cluster.get(99)
        for node in pair:
            node.go_on_now()
        leader.until_ended(held.id)


@pytest.mark.contract("CLUS-3")
def test_an_address_that_the_user_did_not_name_is_told_and_not_asked(pair: tuple[NodeSite, NodeSite]) -> None:
    leader, follower = pair
    with Client(follower.url) as client, pytest.raises(NotLeader) as refused:
        client.cluster.run("compact")
    assert (refused.value.leader, refused.value.address) == ("ann", leader.url)
    assert leader.asked == []


@pytest.mark.contract("CLUS-3")
async def test_the_async_client_follows_too(aside: Aside, database_url: str, tmp_path: Path) -> None:
    leader, follower = (
        NodeSite(aside, database_url, tmp_path, name, AccessMode.TOKEN) for name in ("ann", "bob")
    )  # fmt: skip
    with leader.working(leads=True), follower.working(leads=False):
        token = aside.run(a_token(leader.app, "enqueue", "read"))
        async with AsyncClient(follower.url, token=token, leaders=[leader.url]) as client:
            made = await client.cluster.run("rotate")
            assert (made.task, (await client.cluster.get(made.id)).id) == ("rotate", made.id)
            assert [job.id async for job in client.cluster.all()] == [made.id]


# --- servers that lie -----------------------------------------------------------------------------------------------


class Pointing:
    """Answers that another server leads, and remembers what it was asked."""

    def __init__(self, leads_to: str | None = None, name: str | None = "next") -> None:
        self.leads_to = leads_to
        self.name = name
        self.asked: list[tuple[str, str | None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.asked.append((request.headers["idempotency-key"], request.headers.get("authorization")))
        leader = None if self.name is None else {"name": self.name, "address": self.leads_to}
        body = {"type": "/problems/not-leader", "title": "No", "status": 421, "detail": "no", "leader": leader}
        await Response(json.dumps(body), 421, media_type="application/problem+json")(scope, receive, send)


def pointing(aside: Aside, count: int) -> tuple[list[Pointing], list[Site]]:
    servers = [Pointing() for _ in range(count)]
    return servers, [Site(aside, server) for server in servers]


@pytest.mark.contract("CLUS-3")
def test_two_followers_that_point_at_each_other_end_the_chase(aside: Aside) -> None:
    (one, other), (here, there) = pointing(aside, 2)
    one.leads_to, other.leads_to = there.url, here.url
    with Client(here.url, token=SECRET, leaders=[there.url, here.url]) as client, pytest.raises(NotLeader) as refused:
        client.cluster.run("compact")
    assert refused.value.address == here.url
    assert [len(one.asked), len(other.asked)] == [1, 1]
    assert one.asked == other.asked, "the leader is asked under the same idempotency key"


@pytest.mark.contract("CLUS-3")
def test_a_chase_is_short(aside: Aside) -> None:
    servers, sites = pointing(aside, MOST_HOPS + 3)
    for server, following in zip(servers, sites[1:], strict=False):
        server.leads_to = following.url
    with Client(sites[0].url, leaders=[site.url for site in sites]) as client, pytest.raises(NotLeader):
        client.cluster.run("compact")
    assert [len(server.asked) for server in servers] == [1] * (MOST_HOPS + 1) + [0, 0]


@pytest.mark.contract("CLUS-3")
def test_a_server_that_points_at_itself_is_asked_once(aside: Aside) -> None:
    (server,), (site,) = pointing(aside, 1)
    server.leads_to = f"{site.url}/"
    with Client(site.url) as client, pytest.raises(NotLeader):
        client.cluster.run("compact")
    assert len(server.asked) == 1


@pytest.mark.contract("CLUS-3")
@pytest.mark.parametrize("suffix", ["", "/elsewhere", "?token=1", "#x"])
def test_a_token_goes_to_no_address_that_the_user_did_not_name(aside: Aside, suffix: str) -> None:
    (server, thief), (site, den) = pointing(aside, 2)
    server.leads_to = f"{den.url}{suffix}"
    named = "http://127.0.0.1:1" if not suffix else den.url
    with Client(site.url, token=SECRET, leaders=[named]) as client, pytest.raises(NotLeader) as refused:
        client.cluster.run("compact")
    assert thief.asked == []
    assert (refused.value.leader, refused.value.address) == ("next", server.leads_to)
    assert SECRET not in str(refused.value)


def test_a_leader_without_an_address_or_none_at_all(aside: Aside) -> None:
    (server,), (site,) = pointing(aside, 1)
    with Client(site.url, leaders=["http://web-1:8080"]) as client:
        with pytest.raises(NotLeader, match="next leads") as refused:
            client.cluster.run("compact")
        assert (refused.value.leader, refused.value.address) == ("next", None)
        server.name = None
        with pytest.raises(NotLeader, match="no node leads at this moment"):
            client.cluster.run("compact")


def test_a_leader_that_has_no_api_or_is_gone(aside: Aside) -> None:
    (server,), (site,) = pointing(aside, 1)

    async def worker(scope: Scope, receive: Receive, send: Send) -> None:
        body = {"type": "/problems/not-found", "title": "No", "status": 404, "detail": "A worker has no admin API."}
        await Response(json.dumps(body), 404, media_type="application/problem+json")(scope, receive, send)

    den = Site(aside, worker)
    server.leads_to = den.url
    with Client(site.url, leaders=[den.url, "http://127.0.0.1:1"], patience=0) as client:
        with pytest.raises(NotLeader) as refused:
            client.cluster.run("compact")
        assert refused.value.address == den.url
        server.leads_to = "http://127.0.0.1:1"
        with pytest.raises(Unreachable, match=r"no answer from the leader at http://127\.0\.0\.1:1: "):
            client.cluster.run("compact")


@pytest.mark.parametrize("leaders", [["web-1:8080"], ["http://ann:secret@web-1"], "http://web-1:8080"])
def test_leaders_that_are_no_addresses(leaders: Any) -> None:
    with pytest.raises(ConfigError, match=r"^leaders: expected ") as refused:
        Client("http://127.0.0.1:8080", leaders=leaders)
    assert "secret" not in str(refused.value)
