"""Quiet time: when nothing can happen before a certain instant, the polls and beats up to there are left out.

A poll that finds nothing changes nothing, and of all the beats of a quiet hour only the last one leaves a trace. So
nothing is lost if the polls are not made and the leases last until after the hour. It is quiet when no call is on its
way, everybody who is alive is well and has settled what it ran, nothing waits that somebody has room for, and no seat
of a limited queue has changed hands since everybody last looked. It ends
with the next event (a job ends, a fault strikes, a client writes), the next slot of a schedule, the next job that is
due or whose time to wait is over, the end of a dead node's or leader's lease, or when a stuck attempt is over its time.

Left out in the same way: the counting and pruning that a leader does now and then; it is done once, right after.

Whoever would have polled within a moment of that end is woken there. A service that would not come back in time is not
helped: then nothing is skipped. What this cannot show is that beats go on being sent for days; the short runs do.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from oncue.clock import DatabaseClock
from oncue.policy import aging
from oncue.sim.driver import finish
from oncue.sim.history import micros, moment
from oncue.sim.member import Member
from oncue.store.contract import EXCLUSIVE, LEADER
from oncue.store.sqlite.queues import SqliteQueues
from oncue.store.sqlite.store import SqliteStore
from oncue.store.statements import spelled_out

if TYPE_CHECKING:
    from oncue.sim.world import World

SHORTEST = timedelta(seconds=0.4)
SLACK = timedelta(milliseconds=5)
AGAIN = timedelta(seconds=0.2)
LONG = timedelta(minutes=10)
CHORES = ("pruning", "folding", "aging")

_WAITING = spelled_out("""
select exists (select 1 from oncue_jobs where state = 'queued' and isolation = 0
                                          and queue in (select value from json_each(:queues)))
       or exists (select 1 from oncue_jobs where state = 'queued' and isolation > 0
                                             and queue in (select value from json_each(:queues))),
       exists (select 1 from oncue_jobs indexed by oncue_jobs_parked
                where schedule_id is not null and state = 'scheduled' and visible_at = 253370764800000000),
       (select min(visible_at) from oncue_jobs where state in ('scheduled', 'retrying')),
       (select min(next_run_at) from oncue_schedules where next_run_at is not null),
       (select min(run_until) from oncue_jobs indexed by oncue_jobs_running where state = 'running'),
       (select min(deadline_at) from oncue_jobs indexed by oncue_jobs_deadline
         where deadline_at is not null and state in ('scheduled', 'queued', 'retrying')
           and visible_at < 253370764800000000),
       (select min(start_by) from oncue_jobs indexed by oncue_jobs_start_by
         where start_by is not null and attempt = 0 and state in ('scheduled', 'queued', 'retrying')
           and visible_at < 253370764800000000)
""")
_LEASES = "select name, holder, epoch, expires_at from oncue_leases"
_NODES = "select id, expires_at from oncue_nodes where lost_at is null"
_RUNNING = "select id, claim_no, node_id from oncue_jobs indexed by oncue_jobs_running where state = 'running'"
_ATTEMPTS = "select job_id, claim_no from oncue_attempts order by job_id, claim_no"
_NAMES = "select name from oncue_schedules order by name"
_BEAT = "update oncue_nodes set beat_at = ?, expires_at = max(expires_at, ?) where id = ? and lost_at is null"
_RENEW = "update oncue_leases set renewed_at = ?, expires_at = max(expires_at, ?) where name = ? and epoch = ?"


class Held(NamedTuple):
    holder: str
    epoch: int
    until: int


class Situation(NamedTuple):
    """What the database has that somebody will have to do something about. Instants are in microseconds."""

    queued: bool
    parked: bool
    next_due: int | None
    next_slot: int | None
    next_overdue: int | None
    """When the maximum runtime of something that is running is over: if it is stuck, others take it away."""
    next_expiry: int | None
    """When something will have waited past its time."""
    leases: dict[str, Held]
    """Who leads, and who is the exclusive node, or was."""
    nodes: dict[str, int]
    """The nodes that were not declared lost, and when their leases end."""
    running: list[tuple[int, int, str]]
    """Job, claim and node of what is running."""


class WatchedQueues(SqliteQueues):
    seats_changed = 0
    """How often a node took or gave back seats of a limited queue."""

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        took = await super().take_seats(queue, version, node, seats, wanted)
        self.seats_changed += took
        return took


class WatchedStore(SqliteStore):
    """The database of a simulated cluster. It can be looked at as a whole."""

    def __init__(self, path: str, *, wall: Callable[[], datetime]) -> None:
        super().__init__(path, inline=True, wall=wall)
        self.queues: WatchedQueues = WatchedQueues(self.database, self.counters)

    async def situation(self, queues: Sequence[str]) -> Situation:
        """As it is for nodes that serve these queues."""
        return await self.database.read(lambda connection: _situation(connection, queues))

    async def whole_record(self) -> dict[int, list[int]]:
        """Job by job the claims whose attempts are on record."""
        found: dict[int, list[int]] = {}
        for job_id, number in await self.database.read(lambda connection: connection.execute(_ATTEMPTS).fetchall()):
            found.setdefault(job_id, []).append(number)
        return found

    async def all_names(self) -> list[str]:
        """Of every schedule that there was, also of those that were deleted."""
        return [name for (name,) in await self.database.read(lambda connection: connection.execute(_NAMES).fetchall())]

    async def sustain(
        self, nodes: Sequence[str], leases: Sequence[tuple[str, int]], renewed_at: datetime, expires_at: datetime
    ) -> None:
        """Renew all of these leases at once. Whoever calls knows that they are not over."""
        renewed, expires = micros(renewed_at), micros(expires_at)

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_BEAT, [(renewed, expires, node) for node in nodes])
            connection.executemany(_RENEW, [(renewed, expires, name, epoch) for name, epoch in leases])

        await self.database.write(work)


def _situation(connection: sqlite3.Connection, queues: Sequence[str]) -> Situation:
    wanted = {"queues": json.dumps(queues)}
    queued, parked, due, slot, overdue, *limits = connection.execute(_WAITING, wanted).fetchone()
    leases = {name: Held(*row) for name, *row in connection.execute(_LEASES).fetchall()}
    nodes, running = connection.execute(_NODES).fetchall(), connection.execute(_RUNNING).fetchall()
    expiry = min((limit for limit in limits if limit is not None), default=None)
    return Situation(queued, parked, due, slot, overdue, expiry, leases, dict(nodes), running)


class Quiet:
    """Looks out for quiet time in a world, and lets it pass."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._look_at = world.clock.now()
        self._seats_changed = 0
        pace = world.pace
        pauses = {
            "claimer": pace.poll, "reconciler": pace.reconcile, "membership": pace.beat, "exclusivity": pace.beat,
            "leadership": pace.lease / 3, "rescue": pace.lease / 3, "scheduler": pace.schedules, "expiry": 5.0,
        }  # fmt: skip
        self._pauses = [(name, timedelta(seconds=pause) + SLACK) for name, pause in pauses.items()]

    def disturb(self, seconds: float) -> None:
        """Something was done from outside: let everybody notice it first."""
        self._look_at = max(self._look_at, self._world.clock.now() + timedelta(seconds=seconds))

    def pass_by(self, end: datetime) -> None:
        """If it is quiet, go on to where that ends."""
        world, now = self._world, self._world.clock.now()
        if self._seats_changed != world.store.queues.seats_changed:
            self._seats_changed = world.store.queues.seats_changed
            self.disturb(2 * world.pace.poll)  # others may take what one has given back
        if now < self._look_at:
            return
        event = world.timeline.next_event
        until = end if event is None else min(event, end)
        step = world.timeline.next_step
        if step is None or not now < step < until or until - now < SHORTEST:
            return
        seen = self._seen()
        until = min([until, *self._ends(seen, now)]) if seen is not None else now
        if seen is None or until - now < SHORTEST:
            self._look_at = now + AGAIN
        else:
            self._skip(seen, now, until)

    # --- is it quiet? -------------------------------------------------------------------------------------------

    def _seen(self) -> Situation | None:
        """What is in the database, if nobody is about to do something about it."""
        world, working = self._world, self._working()
        if not all(map(_is_well, working)) or not self._look_often(working):
            return None
        seen = finish(world.store.situation(world.crew.queues))
        at = micros(world.server.now())
        restless = _is_astray(seen, working) or _differ_about_leases(seen, working, at)
        if restless or (working and _is_wanted(seen, working)) or not self._scheduler_knows(seen, working):
            return None
        return seen

    def _look_often(self, members: Sequence[Member]) -> bool:
        """Whether every service comes back as soon as it should. One that does not must not be helped by us."""
        now = self._world.clock.now() - self._world.timeline.skipped
        for name, pause in self._pauses:
            latest = now + pause
            for member in members:
                due = member.named[name].due
                if due is not None and due > latest:
                    return False
        return True

    def _scheduler_knows(self, seen: Situation, working: Sequence[Member]) -> bool:
        """Whether the leader's scheduler comes back for the next slot by itself, or looks before."""
        world = self._world
        ahead = world.server.now() - world.clock.now()
        for leader in [member for member in working if member.leads]:
            due = leader.named["scheduler"].due
            if due is not None and seen.next_slot is not None:
                return due + world.timeline.skipped <= moment(seen.next_slot) - ahead + SLACK
        return True

    def _ends(self, seen: Situation, now: datetime) -> list[datetime]:
        """The instants at which it will be quiet no more."""
        working, at = self._working(), self._world.server.now()
        ours = {member.id for member in working}
        ends: list[int | None] = [until for node, until in seen.nodes.items() if node not in ours]
        if working:
            # While nobody leads no slot is decided, until the lease of whoever led is over.
            led, leader = any(member.leads for member in working), seen.leases.get(LEADER)
            ends += [seen.next_due, seen.next_slot if led else (leader.until if leader else micros(at))]
            ends += [seen.next_overdue, seen.next_expiry if led else None]
        exclusive = seen.leases.get(EXCLUSIVE)
        if exclusive is not None and exclusive.until > micros(at) and exclusive.holder not in ours:
            ends.append(exclusive.until)
        if working and seen.queued:
            ends.append(micros(aging.next_round(at, self._world.pace.aging)))
        return [moment(end) - (at - now) for end in ends if end is not None]

    def _working(self) -> list[Member]:
        """The processes that are alive, awake, and in touch with the database or not aware yet that they are not."""
        return [
            member
            for member in self._world.members.values()
            if member.alive and not member.paused and not (member.wire.down and member.worker.membership.lapsed)
        ]

    # --- letting it pass ----------------------------------------------------------------------------------------

    def _skip(self, seen: Situation, now: datetime, until: datetime) -> None:
        world, members = self._world, self._working()
        ahead = world.server.now() - now
        self._sustain(seen, members, until + ahead)
        led = any(member.leads for member in members)
        world.timeline.skip_to(until)
        self._wake_rescuer(members, seen, until, ahead)
        for member in members:
            if isinstance(member.clock, DatabaseClock):
                member.clock.learn(world.server.now(), member.clock.sent())
            # These know when a job or the end of a lease comes, and do not poll for it.
            if seen.next_due is not None and moment(seen.next_due) - ahead <= until:
                world.driver.plan(member.named["claimer"], until)
            if not led:
                world.driver.plan(member.named["leadership"], until)
            elif member.leads:
                self._wake_leader(member, seen, until, ahead, rested=until - now >= LONG)

    def _wake_rescuer(self, members: Sequence[Member], seen: Situation, until: datetime, ahead: timedelta) -> None:
        """When a dead node's lease ends, somebody happens to look at once."""
        ours = {member.id for member in members}
        over = any(moment(end) - ahead <= until for node, end in seen.nodes.items() if node not in ours)
        if over and members:
            self._world.driver.plan(self._world.dice.choice(members).named["rescue"], until)

    def _wake_leader(self, leader: Member, seen: Situation, until: datetime, ahead: timedelta, *, rested: bool) -> None:
        """The scheduler knows when the next slot comes and does not poll for it."""
        scheduler = leader.named["scheduler"]
        if seen.next_slot is not None and scheduler.due is not None:
            slot = max(moment(seen.next_slot) - ahead, until)
            self._world.driver.plan(scheduler, min(slot, scheduler.due + self._world.timeline.skipped))
        for chore in CHORES if rested else ():
            self._world.driver.plan(leader.named[chore], until)

    def _sustain(self, seen: Situation, members: Sequence[Member], until: datetime) -> None:
        """What all the beats would leave behind: leases that were last renewed a little before the end."""
        world = self._world
        beat, lease = timedelta(seconds=world.pace.beat), timedelta(seconds=world.pace.lease)
        known = [member.worker.membership.expires_at or until for member in members]
        known += [member.worker.leadership.until or until for member in members if member.leads]
        if not known or min(known) - until > lease / 2:
            return  # the next beats come early enough
        renewed = until - beat * round(world.dice.random(), 6)
        expires = renewed + lease
        held, over = [_held(member) for member in members], micros(expires)
        finish(world.store.sustain([member.id for member in members], [*chain(*held)], renewed, expires))
        for member, leases in zip(members, held, strict=True):
            membership = member.worker.membership
            membership.expires_at = max(membership.expires_at or expires, expires)
            world.history.add(member.label, "lease", until=max(seen.nodes[member.id], over), renewed=True)
            for name, epoch in leases:
                held_by = member.worker.leadership if name == LEADER else member.worker.exclusivity
                held_by.until = max(held_by.until or expires, expires)
                world.history.add(
                    member.label, "hold", name=name, epoch=epoch, until=max(seen.leases[name].until, over)
                )


def _held(member: Member) -> list[tuple[str, int]]:
    """The leases that a process holds, by its own clock, and their epochs."""
    exclusivity, leadership = member.worker.exclusivity, member.worker.leadership
    if not (exclusivity.held or leadership.held):
        return []
    leases, now = ((EXCLUSIVE, exclusivity), (LEADER, leadership)), member.clock.latest()
    return [(name, lease.held.epoch) for name, lease in leases if lease.held and lease.until and now < lease.until]


def _is_astray(seen: Situation, members: Sequence[Member]) -> bool:
    """Whether the database and the processes differ about what runs, or something that runs has no owner any more."""
    in_hand = {member.id: member.worker.in_flight.claims for member in members}
    if not in_hand.keys() <= seen.nodes.keys():
        return True
    ours = 0
    for job, claim_no, node in seen.running:
        held = in_hand.get(node)
        if node not in seen.nodes if held is None else (job, claim_no) not in held:
            return True
        ours += held is not None
    return ours != sum(map(len, in_hand.values()))


def _differ_about_leases(seen: Situation, members: Sequence[Member], at: int) -> bool:
    """Whether somebody does not know yet who leads, or who is the exclusive node."""
    exclusive = seen.leases.get(EXCLUSIVE)
    holder = exclusive.holder if exclusive is not None and exclusive.until > at else None
    for member in members:
        node, known = member.id, member.worker.exclusivity.holder
        if any((name in seen.leases and seen.leases[name][:2]) != (node, epoch) for name, epoch in _held(member)):
            return True
        stands_by = None if known is None else str(known.holder)
        if holder != node and (stands_by != holder or (holder is not None and member.leads)):
            return True
        if member.worker.node.exclusive and (holder is None or (holder == node and not member.worker.may_work())):
            return True
    return False


def _is_wanted(seen: Situation, members: Sequence[Member]) -> bool:
    """Whether something waits that somebody may take at any moment."""
    return seen.parked or (seen.queued and any(_has_room(member) for member in members))


def _is_well(member: Member) -> bool:
    """Whether nothing is on its way in a process, and nothing wrong with it."""
    worker = member.worker
    return (
        member.wire.is_sound
        and not member.frozen
        and worker.membership.is_alive()
        and not worker.in_flight.ended
        and not worker.in_flight.locked
        and not member.executor.waiting
        and not worker.scheduler.backlog
        and not member.restless
    )


def _has_room(member: Member) -> bool:
    return member.executor.running < member.executor.concurrency and not member.worker.in_flight.closed
