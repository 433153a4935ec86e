"""The recorder beside the database: it writes into the history what the database really did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias, cast
from uuid import UUID

from oncue.model import (
    Applied,
    Batch,
    Change,
    Claim,
    Creation,
    Decided,
    GroupSettings,
    Job,
    Lease,
    Limits,
    NewParts,
    Node,
    PriorityLevel,
    Receipt,
    Revised,
    Schedule,
    Started,
    Step,
    Subject,
    SubjectStep,
    ToldDetails,
    Turns,
    Webhook,
)
from oncue.policy.windows import slot_of
from oncue.sim.history import (
    History,
    brought,
    change_event,
    claim_event,
    day_event,
    group_event,
    job_events,
    left_out_events,
    limits_event,
    micros,
    revision_event,
    row_event,
    slot_event,
    step_event,
    subject_event,
    terms_event,
    webhook_event,
)
from oncue.sim.recorded_parts import RecordedParts
from oncue.sim.watched import WatchedStore
from oncue.store.contract import NOUNS, Store

Verb: TypeAlias = Callable[..., Awaitable[Any]]


class LayeredNoun:
    """Passes every verb of one noun on to its layer, under the name `noun.verb`."""

    def __init__(self, noun: str, layer: Layer, inner: Any) -> None:
        self._noun, self._layer, self._inner = noun, layer, inner

    def __getattr__(self, verb: str) -> Verb:
        made = self._layer.passing(f"{self._noun}.{verb}", getattr(self._inner, verb))
        setattr(self, verb, made)  # so that it is made once
        return made


class Layer:
    """Passes every verb of a store on. Dynamic, so that it grows with the contract by itself."""

    dialect = "sqlite"

    def __init__(self, store: Store) -> None:
        self._store = store
        for noun in NOUNS:
            setattr(self, noun, LayeredNoun(noun, self, getattr(store, noun)))

    def __getattr__(self, verb: str) -> Verb:
        made = self.passing(verb, getattr(self._store, verb))
        setattr(self, verb, made)
        return made

    def passing(self, verb: str, method: Verb) -> Verb:
        def call(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            return self.pass_on(verb, method, args, kwargs)

        return call

    def as_store(self) -> Store:
        return cast(Store, self)

    def hint(self) -> None:
        """The one call that has no answer."""
        self._store.hint()

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a layer does with a call: each says it."""
        raise NotImplementedError


class Recorded(Layer):
    """Writes into the history what the database did. Of `labels` it knows the nodes, and which of them are `gone`."""

    def __init__(
        self, store: Store, history: History, node: str, labels: Mapping[UUID, str], gone: Collection[UUID]
    ) -> None:
        super().__init__(store)
        self._gone = gone
        self._history = history
        self._node = node
        self._labels = labels
        self._written: set[int] = set()
        self._left: set[int] = set()
        self._parts = RecordedParts(store, labels, self._add)

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._parts.are_any:
            await self._parts.look(verb, args)
        reply = await method(*args, **kwargs)
        note = getattr(self, f"_note_{verb.replace('.', '_')}", None)
        if note is not None:
            await note(reply, *args, **kwargs)
        return reply

    def _add(self, kind: str, **fields: Any) -> None:
        self._history.effect(self._node, kind, **fields)

    async def _note_jobs_enqueue(self, receipts: list[Receipt], batches: Any, in_doubt: bool = False) -> None:
        """A caller that asks again is told of the same jobs, which are written once."""
        if in_doubt:
            await self._left_out([job_id for batch in batches for job_id in batch.ids], receipts)
        for fields in job_events(batches, receipts):
            if fields["id"] not in self._written:
                self._written.add(fields["id"])
                self._add("job", **fields)

    async def _left_out(self, ids: list[int], receipts: list[Receipt]) -> None:
        """What other jobs stand for is written too, as what it is."""
        for job_id, receipt in zip(ids, receipts, strict=True):
            row = None if receipt.created or job_id in self._left else await self._store.jobs.get(job_id)
            if row is not None:
                self._left.add(job_id)
                written, ended = left_out_events(row)
                self._add("job", **written)
                self._add("change", **ended)

    async def _note_jobs_claim(
        self, claims: list[Claim], node: UUID, queues: object, tasks: object, limit: int, now: datetime, **_: Any
    ) -> None:
        """Rates and pauses go by the instant that the node said, which is the row's `claimed_at`."""
        for claim in claims:
            self._add("claim", **claim_event(claim), claimed_at=micros(now))

    _note_groups_claim = _note_jobs_claim

    async def _note_jobs_begin(self, took: list[bool | None], started: list[Started]) -> None:
        for told, accepted in zip(started, took, strict=True):
            if accepted:
                self._add("begin", id=told.id, claim_no=told.claim_no)

    async def _note_jobs_apply(self, took: list[Applied], changes: list[Change], *_: Any, **__: Any) -> None:
        """Each change as it was written, then the jobs that follow: those are read in the instant of the commit."""
        for change, answer in zip(changes, took, strict=True):
            told = change_event(change.as_written(answer), bool(answer)) | terms_event(change, answer)
            if change.leader is not None:
                told["leader"] = self._labels[change.leader.holder]
            self._add("change", **told)
        for change, answer in zip(changes, took, strict=True):
            for job_id in brought(change.as_written(answer)) if answer else ():
                made = await self._store.jobs.get(job_id)
                if made is not None:
                    self._add("job", **row_event(made), follows=change.id)
        await self._parts.note_ended(
            {one.id: one.as_written(answer) for one, answer in zip(changes, took, strict=True) if answer}
        )
        if any(change.as_written(answer).day_status for change, answer in zip(changes, took, strict=True)):
            await self._finalized()

    async def _finalized(self) -> None:
        """The days that came to their outcome with this call, as their rows tell it."""
        for told in await cast(WatchedStore, self._store).finalized():
            self._add("finalize", **told)

    async def _note_windows_put(self, took: list[bool], subjects: Sequence[Subject], *_: Any) -> None:
        for subject, accepted in zip(subjects, took, strict=True):
            if accepted:
                self._add("subject", **subject_event(subject))
        await self._finalized()

    async def _note_windows_advance(
        self, took: list[bool | None], steps: Sequence[SubjectStep], *_: Any, epoch: int | None = None, **__: Any
    ) -> None:
        for step, accepted in zip(steps, took, strict=True):
            if accepted:
                for decided in (*step.decided, *_repeated(step)):
                    self._add("day", **day_event(step.schedule_id, step.name, decided, epoch))
                for batch in (step.job, step.hook):
                    made = None if batch is None else await self._store.jobs.get(batch.ids[0])
                    if made is not None:
                        self._add("job", **row_event(made))
        await self._finalized()

    async def _note_cluster_create(
        self, made: Creation, batch: Batch, _: NewParts, now: datetime, *, node: UUID, epoch: int
    ) -> None:
        row = await self._store.jobs.get(batch.ids[0]) if made.created else None
        if row is not None:
            self._add("job", **row_event(row))
            await self._parts.note_spread(row.id, now, epoch)

    async def _note_cluster_spread(
        self, nodes: int | None, job_id: int, _: NewParts, now: datetime, *, node: UUID, epoch: int
    ) -> None:
        if nodes is not None:
            await self._parts.note_spread(job_id, now, epoch)

    async def _note_cluster_release(
        self, took: bool, job_id: int, quorum: bool, now: datetime, *, node: UUID, epoch: int
    ) -> None:
        if took:
            self._add("release", id=job_id, epoch=epoch, at=micros(now), quorum=quorum)

    async def _note_jobs_report_details(self, locked: list[int], told: Sequence[ToldDetails]) -> None:
        for job_id, number, details in told:
            row = await self._store.jobs.get(job_id)
            if job_id not in locked and row is not None and (row.state, row.claim_no) == ("running", number):
                self._add("details", id=job_id, claim_no=number, details=details)

    async def _note_slots_rerun(
        self, took: bool, schedule: Schedule | None, job: Job, again: Change | int, *_: Any, **__: Any
    ) -> None:
        """An operator runs a slot or a delivery again: the job itself, or another one in its place. It may be that
        others did."""
        if took and not isinstance(again, int):
            self._add("change", **change_event(again, took))
        elif took and (made := await self._store.jobs.get(cast(int, again))) is not None:
            self._add("job", **row_event(made), schedule=None if schedule is None else schedule.id, retry_of=job.id)

    async def _note_jobs_request_cancel(self, took: bool, job_id: int, claim_no: int, *_: Any, **__: Any) -> None:
        if took:
            self._add("cancel", id=job_id, claim_no=claim_no)

    async def _note_jobs_prioritize(
        self, took: bool, job_id: int, known: int, priority: int, *_: Any, **__: Any
    ) -> None:
        if took:
            self._add("priority", id=job_id, priority=priority)

    async def _note_jobs_age(self, raised: int, lane: PriorityLevel, *_: Any, **__: Any) -> None:
        if raised:
            self._add("age", queue=lane.queue, priority=lane.priority, jobs=raised)

    async def _note_queues_pause(self, took: bool, queue: str, *_: Any, **__: Any) -> None:
        if took:
            self._add("pause", queue=queue)

    async def _note_queues_resume(self, took: bool, queue: str, *_: Any, **__: Any) -> None:
        if took:
            self._add("resume", queue=queue)

    async def _note_queues_set_limits(
        self, took: bool, queue: str, known: Limits, limits: Limits, *_: Any, **__: Any
    ) -> None:
        if took:
            self._add("limits", **limits_event(queue, limits))

    async def _note_queues_default_limits(self, took: bool, queue: str, limits: Limits, *_: Any) -> None:
        if took:
            self._add("limits", **limits_event(queue, limits))

    async def _note_groups_set(
        self, took: bool, queue: str, group: str, known: GroupSettings, settings: GroupSettings, *_: Any, **__: Any
    ) -> None:
        if took:
            stored = await self._store.groups.settings(queue, group)
            self._add("group", **group_event(queue, group, replace(settings, trips=stored.trips)))

    async def _note_groups_trip(
        self, took: bool, queue: str, group: str, known_trips: int, trips: int, *_: Any, **__: Any
    ) -> None:
        """Until when it holds jobs back depends on the pause that stood: it is read in the instant of the commit."""
        if took:
            stored = await self._store.groups.settings(queue, group)
            self._add("group", **group_event(queue, group, replace(stored, trips=trips)))

    async def _note_webhooks_write(
        self, took: bool, webhook: Webhook, version: int, now: object, *, options: Any = None, **_: Any
    ) -> None:
        if took:
            self._add("webhook", **webhook_event(webhook, version + 1, options))

    async def _note_queues_take_turns(self, turns: Turns, queue: str, *_: Any, **__: Any) -> None:
        if turns.taken:
            self._add("turns", queue=queue, turns=turns.taken)

    async def _note_queues_return_turns(self, _: None, queue: str, turns: int, *__: Any) -> None:
        self._add("turns", queue=queue, turns=-turns)

    async def _note_jobs_prune(self, gone: int, before: datetime, *_: Any, **__: Any) -> None:
        """Attempts go too, also of jobs that stay: so it is told once there can be some that are old enough."""
        gone, events = await self._parts.pruned(gone), self._history.events
        if gone or (events and events[0].at < micros(before)):
            self._add("prune", jobs=gone, before=micros(before))

    async def _note_nodes_register(self, _: None, node: Node) -> None:
        """One that arrives late changes nothing."""
        if any(row.id == node.id and row.beat_no == node.beat_no for row in await self._store.nodes.alive()):
            self._lease(node.id, until=micros(node.expires_at))

    async def _note_nodes_beat(self, renewed: bool, node: UUID, now: object, expires_at: Any, *_: object) -> None:
        if renewed:
            self._lease(node, until=micros(expires_at), renewed=True)

    def _lease(self, node: UUID, **fields: Any) -> None:
        """A lease that is written after its node died is not recorded: no promise depends on it."""
        if node not in self._gone:
            self._add("lease", **fields)

    async def _note_nodes_expire(self, lost: list[Node], *_: Any) -> None:
        for node in lost:
            self._history.add(self._labels[node.id], "lease.end", by=self._node)

    async def _note_nodes_declare_lost(self, declared: bool, node: UUID, *_: Any) -> None:
        if declared:
            self._history.add(self._labels[node], "lease.end", by=self._node)
            self._history.add(self._labels[node], "hold.end")

    async def _note_nodes_take_name(self, holder: Node | None, node: UUID, *_: Any) -> None:
        """A node that asks again is told of the name that it has."""
        if holder is not None and holder.id == node:
            self._add("name", name=holder.name)
            await self._parts.note_addresses(node)

    async def _note_nodes_leave(self, *_: Any) -> None:
        self._add("lease.end", by=self._node)

    async def _note_slots_decide(
        self, took: list[bool], steps: Sequence[Step], *_: Any, epoch: int | None = None, **__: Any
    ) -> None:
        for step, accepted in zip(steps, took, strict=True):
            self._add("step", **step_event(step, epoch, accepted))
            if accepted:
                await self._decided(step.schedule_id, step.decided, epoch)

    async def _decided(self, schedule_id: int, rows: Sequence[Decided], epoch: int | None) -> None:
        """Each verdict, and the job that is there with it: both are read in the instant of the commit."""
        for decided in rows:
            self._add("slot", **slot_event(schedule_id, decided, epoch))
            job = None if decided.job_id is None else await self._store.jobs.get(decided.job_id)
            if job is not None:
                self._add("job", **row_event(job))

    async def _note_schedules_revise(self, took: list[bool], changes: Sequence[Revised], *_: Any) -> None:
        for change, accepted in zip(changes, took, strict=True):
            schedule = await self._store.schedules.get(change.schedule.name)
            if accepted and schedule is not None:
                self._add("revision", **revision_event(schedule))
                await self._decided(schedule.id, change.decided, None)

    async def _note_leases_acquire(
        self, lease: Lease | None, name: str, holder: UUID, holder_name: str, now: object, expires_at: Any, **_: Any
    ) -> None:
        if lease is not None and lease.holder == holder and lease.expires_at == expires_at:
            self._add("hold", name=name, epoch=lease.epoch, until=micros(expires_at), shown=holder_name)

    async def _note_leases_renew(self, renewed: bool, name: str, *_: Any, **__: Any) -> None:
        """Until when it lasts is the database's word: a late renewal does not take back a later one."""
        lease = await self._store.leases.get(name) if renewed else None
        if lease is not None:
            self._add("hold", name=name, epoch=lease.epoch, until=micros(lease.expires_at))

    async def _note_leases_release(self, _: None, name: str, holder: UUID, epoch: int, *__: Any) -> None:
        lease = await self._store.leases.get(name)
        if lease is not None and (lease.holder, lease.epoch) == (holder, epoch):
            self._add("hold.end", name=name)


def _repeated(step: SubjectStep) -> list[Decided]:
    """The job that takes the place of a day's job; its slot was decided before."""
    if step.job is None or step.job.retry_of is None:
        return []
    return [Decided(slot_of(step.day.date), "fired", job_id=step.job.ids[0])]
