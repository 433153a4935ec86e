"""Gathers what is stored about a job, a slot or a schedule, for `policy/explain` to put into words. It only reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, date, datetime

from oncue.application.connecting import Connected
from oncue.engine.counting import counted_queues, latest_sample
from oncue.model import (
    CLUSTER_ADDRESS,
    PARKED,
    UNFINISHED,
    WAITING,
    Job,
    JobFilter,
    Node,
    Queue,
    Schedule,
    Subject,
)
from oncue.policy import quorum
from oncue.policy.aging import Rules
from oncue.policy.explain import (
    Cluster,
    DayFacts,
    JobFacts,
    LimitFacts,
    QueueFacts,
    ScheduleFacts,
    SlotFacts,
    WindowFacts,
    day_in_question,
)
from oncue.policy.explain.jobs import MOST_COUNTED
from oncue.policy.explain.schedules import MOST_SHOWN
from oncue.policy.suspicion import ALONE, isolation_of
from oncue.policy.windows import slot_of
from oncue.store.contract import EXCLUSIVE, LEADER, Store
from oncue.verbs.jobs.reading import attempts_of, cluster_job_of

MOST_ASKED = 20
"""How many nodes are asked what they hold."""
MOST_ROWS = 10
MOST_HELD, MOST_HELD_BACK = 1000, 1000
FIRST = datetime(1970, 1, 1, tzinfo=UTC)


async def job_facts(connected: Connected, job: Job, aging: Rules) -> JobFacts:
    return await _job_facts(connected.store, job, await _cluster(connected), aging)


async def queue_facts(connected: Connected, queue: str) -> QueueFacts:
    """Of a queue that is not known yet, too: nothing waits in it."""
    store, now = connected.store, connected.now()
    cluster = await _cluster(connected)
    found = next((known for known in await counted_queues(store, now) if known.name == queue), None)
    serving = [node for node in cluster.workers if queue in node.queues][:MOST_ASKED]
    held = await store.nodes.work([node.id for node in serving], MOST_HELD)
    ages = (await latest_sample(store, now)).ages
    waiting = [age.since for age in ages if (age.kind, age.queue) == ("queued", queue)]
    return QueueFacts(
        found or Queue(queue, None, 0, 0, 0, 0, 0, 0, 0),
        cluster,
        await store.queues.rated_until(queue),
        [group for group in await store.groups.held_back(now, MOST_HELD_BACK) if group.queue == queue],
        all(len(held[node.id]) >= node.concurrency for node in serving),
        min(waiting, default=None),
    )


async def schedule_facts(connected: Connected, schedule: Schedule) -> ScheduleFacts:
    store = connected.store
    revisions, cluster = await store.schedules.revisions(schedule.id), await _cluster(connected)
    return ScheduleFacts(
        schedule,
        revisions,
        cluster,
        await _paused_at(store, schedule.queue),
        await store.slots.unfinished(schedule.id, schedule.max_instances),
        await _holder(store, schedule),
        await store.slots.latest(schedule.id, MOST_SHOWN),
    )


async def slot_facts(connected: Connected, schedule: Schedule, at: datetime, aging: Rules) -> SlotFacts:
    store = connected.store
    revisions, cluster = await store.schedules.revisions(schedule.id), await _cluster(connected)
    facts = SlotFacts(schedule, revisions, at, cluster, await store.slots.between(schedule.id, at, at))
    row = facts.row
    if row is not None and row.job_id is not None and (job := await store.jobs.get(row.job_id)) is not None:
        facts = dataclasses.replace(facts, job=await _job_facts(store, job, cluster, aging))
    if row is not None and row.blocked_by is not None:
        facts = dataclasses.replace(facts, in_the_way=await store.jobs.get(row.blocked_by))
    return facts


async def window_facts(connected: Connected, window: Schedule) -> WindowFacts:
    store = connected.store
    revisions, cluster = await store.schedules.revisions(window.id), await _cluster(connected)
    paused_at = await _paused_at(store, window.queue)
    return WindowFacts(window, revisions, cluster, paused_at, await store.windows.next_at())


async def day_facts(
    connected: Connected, window: Schedule, subject: Subject, day: date | None, aging: Rules
) -> DayFacts:
    store = connected.store
    revisions, cluster = await store.schedules.revisions(window.id), await _cluster(connected)
    asked = day_in_question(subject, window, cluster.now) if day is None else day
    at = slot_of(asked)
    rows = await store.windows.ledger(window.id, subject.name, at, at, MOST_ROWS)
    facts = DayFacts(window, revisions, subject, asked, cluster, rows, paused_at=await _paused_at(store, window.queue))
    row = facts.row
    if row is not None and row.job_id is not None and (job := await store.jobs.get(row.job_id)) is not None:
        facts = dataclasses.replace(facts, job=await _job_facts(store, job, cluster, aging))
    return facts


async def _job_facts(store: Store, job: Job, cluster: Cluster, aging: Rules) -> JobFacts:
    attempts = await attempts_of(store, job)
    workers = {node for node in (job.node_id, *(attempt.node_id for attempt in attempts)) if node is not None}
    facts = JobFacts(
        job,
        dataclasses.replace(cluster, names=await store.nodes.names(sorted(workers))),
        attempts,
        schedule=await _schedule_of(store, job),
        retries=await store.jobs.retries_of(job.id) if job.finished else (),
        aging=aging,
        whole=await cluster_job_of(store, job, cluster.now),
    )
    if job.state not in WAITING:
        return facts
    if facts.whole is not None and job.address == CLUSTER_ADDRESS:
        queue = quorum.terms_of(facts.whole).parts.queue
        return dataclasses.replace(facts, parts_paused_at=await _paused_at(store, queue))
    limits = await _limits(store, job)
    facts = dataclasses.replace(
        facts, limits=limits, paused_at=None if limits.queue is None else limits.queue.paused_at
    )
    if job.visible_at == PARKED and job.schedule_id is not None:
        return dataclasses.replace(facts, in_turn=await store.slots.unfinished(job.schedule_id, MOST_ASKED))
    if job.visible_at > cluster.now:
        return facts
    takers = cluster.takers(job.queue, job.task, job.address)[:MOST_ASKED]
    held = [[row.id for row in await store.jobs.held(node.id)] for node in takers]
    first_of_its_priority = dataclasses.replace(job, order_at=FIRST, id=0)
    return dataclasses.replace(
        facts,
        ahead=await store.jobs.count_ahead(job, MOST_COUNTED),
        above=await store.jobs.count_ahead(first_of_its_priority, MOST_COUNTED),
        held=sum(map(len, held)),
        alone=await _alone(store, held, takers),
    )


async def _cluster(connected: Connected) -> Cluster:
    store = connected.store
    nodes, leader, exclusive = (
        await store.nodes.alive(),
        await store.leases.get(LEADER),
        await store.leases.get(EXCLUSIVE),
    )
    return Cluster(connected.now(), nodes, leader, exclusive)


async def _schedule_of(store: Store, job: Job) -> str | None:
    """The name of the schedule that a job was made for."""
    found = None if job.schedule_id is None else await store.schedules.by_id(job.schedule_id)
    return None if found is None else found.name


async def _holder(store: Store, schedule: Schedule) -> int | None:
    if schedule.key is None:
        return None
    wanted = JobFilter(tuple(UNFINISHED), task=schedule.task, key=schedule.key, limit=1)
    return next((job.id for job in await store.jobs.find(wanted)), None)


async def _limits(store: Store, job: Job) -> LimitFacts:
    """The limits, rates and pauses of its queue and of its group."""
    facts = LimitFacts(await _queue(store, job.queue), await store.queues.rated_until(job.queue))
    if job.group is None:
        return facts
    group, own = await store.groups.get(job.queue, job.group), await store.groups.settings(job.queue, job.group)
    return dataclasses.replace(facts, group=group, own=own)


async def _paused_at(store: Store, queue: str) -> datetime | None:
    found = await _queue(store, queue)
    return None if found is None else found.paused_at


async def _queue(store: Store, name: str) -> Queue | None:
    return next((found for found in await store.queues.all() if found.name == name), None)


async def _alone(store: Store, held: Sequence[Sequence[int]], takers: Sequence[Node]) -> Sequence[int]:
    """The jobs that have a node for themselves, if each node has one. Such a node holds no more than it runs."""
    found: list[int] = []
    for ids, node in zip(held, takers, strict=True):
        claims = await store.jobs.running(ids) if len(ids) <= node.concurrency else []
        alone = next((claim.id for claim in claims if isolation_of(claim) == ALONE), None)
        if alone is None:
            return ()
        found.append(alone)
    return found
