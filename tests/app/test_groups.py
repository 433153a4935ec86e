"""Groups of a queue: enqueueing into them, limiting, pausing and listing them, in code."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue import InvalidJob, Oncue, Task
from oncue.model import PARKED, Limits, Rate


@pytest.fixture
def send(app: Oncue) -> Task[[int], None]:
    @app.task(queue="mail", max_retries=0)
    async def send(n: int) -> None: ...

    return send


async def test_a_job_has_the_group_that_using_names(app: Oncue, send: Task[[int], None]) -> None:
    one = await send.using(group="tenant:7").aenqueue(1)
    many = await send.using(group="tenant:8", key=lambda n: f"k{n}").aenqueue_many([2, 3])
    none = await send.aenqueue(4)
    groups = [(await app.jobs.get(receipt.id)).group for receipt in (one, *many, none)]
    assert groups == ["tenant:7", "tenant:8", "tenant:8", None]


async def test_calls_of_several_groups_are_written_together(app: Oncue, send: Task[[int], None]) -> None:
    """What the API writes: neighbours of another group are another batch."""
    groups = ["a", "a", "b", None, "a"]
    wanted: Any = [(send.using(group=group), ((number,), {})) for number, group in enumerate(groups)]
    receipts = await app.internals.enqueueing.write_all(wanted)
    assert [(await app.jobs.get(receipt.id)).group for receipt in receipts] == groups


async def test_a_retried_job_keeps_its_group(app: Oncue, send: Task[[int], None]) -> None:
    receipt = await send.using(group="tenant:7").aenqueue(1)
    await app.jobs.cancel(receipt.id)
    retried = await app.jobs.retry(receipt.id)
    assert (retried.state, retried.group) == ("queued", "tenant:7")


@pytest.mark.parametrize("wrong", ["", " a", "a ", "a\n", "a\x00", "\ud800", "x" * 129, 7, ["a"], b"a"], ids=range(10))
async def test_a_name_that_no_group_can_have_is_refused(app: Oncue, send: Task[[int], None], wrong: Any) -> None:
    expected = "group: expected a printable name of 1 to 128 characters"
    with pytest.raises(InvalidJob, match=expected):
        send.using(group=wrong)
    for change in (app.queues.limit, app.queues.pause, app.queues.resume):
        with pytest.raises(InvalidJob, match=expected):
            await change("mail", group=wrong)
    if wrong:  # from the beginning
        with pytest.raises(InvalidJob, match=expected.replace("group", "after")):
            await app.queues.groups("mail", after=wrong)


async def test_limits_of_a_queue_and_its_groups(app: Oncue) -> None:
    """What is not given stays, None lifts a limit."""
    assert await app.queues.limit("mail", per_group=4, rate="100/s") == Limits(per_group=4, rate=Rate(100, 1))
    every = await app.queues.limit("mail", globally=50, per_node=5, rate_per_group="10/min")
    assert every == Limits(50, 5, 4, Rate(100, 1), Rate(10, 60))
    assert await app.queues.limit("mail") == every
    (queue,) = await app.queues.list()
    assert (queue.global_limit, queue.node_limit, queue.group_limit) == (50, 5, 4)
    assert (queue.rate, queue.group_rate) == ("100/s", "10/min")
    lifted = await app.queues.limit("mail", per_group=None, rate=None)
    assert lifted == Limits(50, 5, None, None, Rate(10, 60))


async def test_limits_of_one_group(app: Oncue) -> None:
    await app.queues.limit("mail", per_group=4, rate_per_group="100/s")
    own = await app.queues.limit("mail", group="tenant:7", per_group=2)
    assert own == Limits(per_group=2), "what is set for the group alone"
    (group,) = await app.queues.groups("mail")
    assert (group.queue, group.name, group.limit, group.rate) == ("mail", "tenant:7", 2, "100/s")
    assert await app.queues.limit("mail", group="tenant:7", rate_per_group="5/s") == Limits(
        per_group=2, rate_per_group=Rate(5, 1)
    )
    assert await app.queues.limit("mail", group="tenant:7", per_group=None) == Limits(rate_per_group=Rate(5, 1))
    (group,) = await app.queues.groups("mail")
    assert (group.limit, group.rate, group.has_settings) == (4, "5/s", True)
    assert (await app.queues.limit("mail")).per_group == 4, "the queue's own are as they were"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"per_group": 0}, "per_group: expected a whole number from 1 to 1,000,000, or None, not 0"),
        ({"per_group": True}, "per_group: expected a whole number"),
        ({"rate": "fast"}, "rate: expected a number of jobs from 1 to 1,000,000 in a second"),
        ({"rate_per_group": 5}, "rate_per_group: expected a number of jobs"),
        ({"group": "a", "globally": 5}, "globally: expected only without a group"),
        ({"group": "a", "per_node": None}, "per_node: expected only without a group"),
        ({"group": "a", "rate": "5/s"}, "rate: expected only without a group"),
    ],
)
async def test_limits_that_cannot_be_are_refused(app: Oncue, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        await app.queues.limit("mail", **options)
    assert await app.queues.list() == []
    assert await app.queues.groups("mail") == []


async def test_a_group_is_paused_until_it_is_resumed_or_for_a_while(app: Oncue) -> None:
    async def paused_until() -> datetime | None:
        groups = await app.queues.groups("mail")
        return groups[0].paused_until if groups else None

    now = await app.now()
    await app.queues.pause("mail", group="a")
    assert await paused_until() == PARKED
    await app.queues.pause("mail", group="a", until=now + timedelta(hours=1))
    assert await paused_until() == now + timedelta(hours=1)
    await app.queues.pause("mail", group="a", for_="10m")
    until = await paused_until()
    assert until is not None
    assert now + timedelta(minutes=10) <= until <= await app.now() + timedelta(minutes=10)
    await app.queues.resume("mail", group="a")
    assert await paused_until() is None
    await app.queues.pause("mail", group="a", for_=0)
    assert await paused_until() is None, "a pause that is over is none"
    assert (await app.queues.list() == []) or all(queue.paused_at is None for queue in await app.queues.list())


async def test_pauses_that_cannot_be_are_refused(app: Oncue) -> None:
    now = await app.now()
    for options, said in (
        ({"until": now + timedelta(hours=1)}, "until: expected only with a group"),
        ({"for_": "1h"}, "for_: expected only with a group"),
        ({"group": "a", "until": now - timedelta(hours=1)}, "until: expected an instant that is to come"),
        ({"group": "a", "until": datetime(2030, 1, 1)}, "until: expected a datetime with a time zone"),
        ({"group": "a", "until": PARKED}, "until: expected an instant that is to come, before 9000"),
        ({"group": "a", "until": now + timedelta(hours=1), "for_": "1h"}, "until: give either"),
        ({"group": "a", "for_": "soon"}, "for_: expected a duration"),
    ):
        with pytest.raises(InvalidJob, match=said):
            await app.queues.pause("mail", **options)  # type: ignore[arg-type]
    assert await app.queues.groups("mail") == []


async def test_groups_are_listed_by_name_before_any_worker_has_seen_them(app: Oncue, send: Task[[int], None]) -> None:
    for name in ("c", "a", "b"):
        await send.using(group=name).aenqueue_many([1, 2])
    await send.using(group="elsewhere", queue="other").aenqueue(1)
    await send.using(group="later", delay="1h").aenqueue(1)
    found = await app.queues.groups("mail")
    assert [(group.name, group.queued, group.running) for group in found] == [("a", 2, 0), ("b", 2, 0), ("c", 2, 0)]
    assert [group.name for group in await app.queues.groups("mail", limit=2)] == ["a", "b"]
    assert [group.name for group in await app.queues.groups("mail", after="b")] == ["c"]
    assert await app.queues.groups("mail", after="c") == []


async def test_every_change_of_a_group_is_in_the_audit_log(app: Oncue) -> None:
    await app.queues.limit("mail", per_group=4, rate="9/s", by="ann")
    await app.queues.limit("mail", group="a", per_group=2, rate_per_group="5/s", by="ann")
    await app.queues.limit("mail", group="a", per_group=2, by="ann")  # changes nothing
    await app.queues.pause("mail", group="a", by="ben")
    await app.queues.resume("mail", group="a", by="ben")
    resumed, paused, of_group, of_queue = await app.audit_log.list(subject="queue:mail")
    actions = [(entry.actor, entry.action) for entry in (of_queue, of_group, paused, resumed)]
    assert actions == [
        ("ann", "queue.limits"), ("ann", "group.limits"), ("ben", "group.pause"), ("ben", "group.resume"),
    ]  # fmt: skip
    assert (of_queue.before, of_queue.after) == ({"per_group": None, "rate": None}, {"per_group": 4, "rate": "9/s"})
    assert of_group.before == {"group": "a", "per_group": None, "rate_per_group": None}
    assert of_group.after == {"group": "a", "per_group": 2, "rate_per_group": "5/s"}
    assert paused.after == resumed.before == {"group": "a", "paused_until": "resumed"}
    assert paused.before == resumed.after == {"group": "a", "paused_until": None}
