"""Quiet time: when nothing can happen before a certain instant, the polls and beats up to there are left out.

A poll that finds nothing changes nothing, and of all the beats of a quiet hour only the last one leaves a trace. So
nothing is lost if the polls are not made and the leases last until after the hour. Whether it is quiet, and until when,
the services say themselves: each of every process that is alive is asked when it next has something to do. A service
that cannot say is taken to have something to do when it is due. Quiet time also ends with the next event: a job ends, a
fault strikes, a client writes.

A service that has something to do where it ends is called there, if it was due before. A service that is due later is
called when it is due. What the leader tidies up now and then is done once, after a long rest.
What this cannot show is that beats go on being sent for days; the short runs do.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from oncue.clock import DatabaseClock
from oncue.sim.driver import finish
from oncue.sim.history import moment
from oncue.sim.member import Member, TimedService
from oncue.sim.watched import FAR, Foreseen
from oncue.store.contract import EXCLUSIVE, LEADER

if TYPE_CHECKING:
    from oncue.sim.world import World

SHORTEST = timedelta(seconds=0.4)
AGAIN = timedelta(seconds=0.2)
LONG = timedelta(minutes=10)

Answers: TypeAlias = list[tuple[datetime, TimedService]]
"""When which service has something to do, in true time."""


class Quiet:
    """Looks out for quiet time in a world, and lets it pass."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._look_at = world.clock.now()

    def disturb(self, seconds: float) -> None:
        """Something was done from outside: let everybody notice it first."""
        self._look_at = max(self._look_at, self._world.clock.now() + timedelta(seconds=seconds))

    def pass_by(self, end: datetime) -> None:
        """If it is quiet, go on to where that ends."""
        world, now = self._world, self._world.clock.now()
        if now < self._look_at:
            return
        event = world.timeline.next_event
        until = end if event is None else min(event, end)
        step = world.timeline.next_step
        if step is None or not now < step < until or until - now < SHORTEST:
            return
        working = self._working()
        answers = self._ask(working, now) if all(map(_is_well, working)) else None
        if answers is None:
            self._look_at = now + AGAIN
        else:
            self._skip(answers, working, now, min([until, *(instant for instant, _ in answers)]))

    def _ask(self, working: Sequence[Member], now: datetime) -> Answers | None:
        """Which service will have something to do, and when; None if one has already."""
        world, at = self._world, self._world.server.now()
        ends = finish(world.store.lease_ends())
        if not all(ends.pop(member.id, None) for member in working):
            return None  # a node was declared lost, and will hear of it
        next_end = moment(min(ends.values())) if ends else None
        store = Foreseen(world.store, {member.worker.node.id for member in working}, next_end).as_store()
        ahead, soon = at - now, at + SHORTEST
        answers: Answers = []
        for timed in [timed for member in working for timed in member.asked]:
            if timed.quiet_until is not None:
                instant = finish(timed.quiet_until(at, store))
            else:
                instant = None if timed.due is None else timed.due + world.timeline.skipped + ahead
            if instant is None or instant is FAR:
                continue
            if instant < soon:
                return None
            answers.append((instant - ahead, timed))
        return answers

    def _working(self) -> list[Member]:
        """The processes that are alive, awake, and in touch with the database or not aware yet that they are not."""
        return [
            member
            for member in self._world.members.values()
            if member.alive and not member.paused and not (member.wire.down and member.worker.membership.lapsed)
        ]

    # --- letting it pass ----------------------------------------------------------------------------------------

    def _skip(self, answers: Answers, working: Sequence[Member], now: datetime, until: datetime) -> None:
        world = self._world
        self._sustain(working, until + (world.server.now() - now))
        world.timeline.skip_to(until)
        for member in working:
            if isinstance(member.clock, DatabaseClock):
                member.clock.learn(world.server.now(), member.clock.sent())
        for instant, timed in answers:
            self._call_in_time(timed, instant, now)
        for timed in (
            [timed for member in working if member.leads for timed in member.timed] if until - now >= LONG else []
        ):
            self._call_in_time(timed, until, now)

    def _call_in_time(self, timed: TimedService, instant: datetime, before: datetime) -> None:
        """Call a service when it has something to do, if it would have come by itself by then; else when it would."""
        world, until = self._world, self._world.clock.now()
        if timed.due is None:
            return
        after = timed.due + world.timeline.skipped  # as far from now as it was before
        wanted = max(instant, after - (until - before))
        if wanted < after:
            world.driver.plan(timed, max(wanted, until))

    def _sustain(self, members: Sequence[Member], until: datetime) -> None:
        """What all the beats would leave behind: leases that were last renewed a little before the end."""
        world = self._world
        beat, lease = timedelta(seconds=world.pace.beat), timedelta(seconds=world.pace.lease)
        known = [member.worker.membership.expires_at or until for member in members]
        known += [member.worker.leadership.until or until for member in members if member.leads]
        if not known or min(known) - until > lease / 2:
            return  # the next beats come early enough
        renewed = until - beat * round(world.dice.random(), 6)
        expires = renewed + lease
        held = [(member, name, epoch) for member in members for name, epoch in _held(member)]
        nodes, leases = finish(
            world.store.sustain(
                [member.id for member in members], [(name, epoch) for _, name, epoch in held], renewed, expires
            )
        )
        for member, over in zip(members, nodes, strict=True):
            membership = member.worker.membership
            membership.expires_at = max(membership.expires_at or expires, expires)
            world.history.add(member.label, "lease", until=over, renewed=True)
        for (member, name, epoch), over in zip(held, leases, strict=True):
            held_by = member.worker.leadership if name == LEADER else member.worker.exclusivity
            held_by.until = max(held_by.until or expires, expires)
            world.history.add(member.label, "hold", name=name, epoch=epoch, until=over)


def _held(member: Member) -> list[tuple[str, int]]:
    """The leases that a process holds, by its own clock, and their epochs."""
    exclusivity, leadership = member.worker.exclusivity, member.worker.leadership
    if not (exclusivity.held or leadership.held):
        return []
    leases, now = ((EXCLUSIVE, exclusivity), (LEADER, leadership)), member.clock.latest()
    return [(name, lease.held.epoch) for name, lease in leases if lease.held and lease.until and now < lease.until]


def _is_well(member: Member) -> bool:
    """Whether nothing is on its way in a process, and nothing wrong with it."""
    return member.wire.is_sound and not member.frozen and not member.restless
