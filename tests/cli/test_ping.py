"""`oncue ping`: a worker runs a task that oncue brings, or the answer says why none does."""

from __future__ import annotations

from tests.cli.conftest import Shell


def test_without_a_worker_it_says_why(oncue: Shell, shop: str) -> None:
    oncue("migrate")
    answer = oncue("ping", "--queue", "mail", "--timeout", "50ms")
    assert answer.code == 4, answer
    assert "No worker ran job 1 of queue mail within 50ms." in answer.out
    assert "No node is alive" in answer.out or "no worker" in answer.out.lower()
    job = oncue("job", "1", "--json").json
    assert (job["task"], job["status"], job["priority"]) == ("oncue.ping", "cancelled", 100)
    told = oncue("ping", "--address", "node:absent", "--timeout", "50ms", "--json")
    assert (told.code, told.json["status"], told.json["node"]) == (4, "queued", None)
    codes = [finding["code"] for finding in told.json["explanation"]["findings"]]
    assert codes == ["no_node_alive"], "the deadline and the priority of its own job do not tell why no worker came"


def test_what_it_cannot_ask_for_is_refused(oncue: Shell, shop: str) -> None:
    oncue("migrate")
    for words, said in (
        (("--address", "somewhere"), "address: expected node:NAME"),
        (("--timeout", "soon"), "--timeout"),
        (("--queue", "a,b"), "queue: expected a name without commas"),
    ):
        answer = oncue("ping", *words)
        assert (answer.code, said in answer.err) == (2, True), answer
    assert oncue("jobs", "--json").json == []
