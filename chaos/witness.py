"""What the database itself writes down: who led when, and under which epoch each cluster job was claimed and ended.

Triggers on oncue's tables keep these books in the transactions in which it happens. They owe nothing to oncue, and
a process that is killed cannot take its part of the story with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

import asyncpg

CLOCKS_DIFFER = timedelta(seconds=0.1)
"""A node may believe that it is so much later than it is."""
TERMINAL = ("succeeded", "failed", "cancelled", "skipped")
BOOKS = """
create table chaos_leads (
    number bigserial primary key, at timestamptz not null, epoch bigint not null, holder uuid not null,
    expires_at timestamptz not null
);
create function chaos_lead() returns trigger language plpgsql as $$
begin
    insert into chaos_leads (at, epoch, holder, expires_at)
    values (clock_timestamp(), new.epoch, new.holder, new.expires_at);
    return null;
end $$;
create trigger chaos_lead after insert or update on oncue_leases
   for each row when (new.name = 'leader') execute function chaos_lead();

create table chaos_ends (
    number bigserial primary key, job_id bigint not null, claim_no integer not null, from_state text not null,
    state text not null, epoch bigint
);
create function chaos_end() returns trigger language plpgsql as $$
begin
    insert into chaos_ends (job_id, claim_no, from_state, state, epoch)
    select new.id, new.claim_no, old.state, new.state, (select epoch from oncue_leases where name = 'leader');
    return null;
end $$;
create trigger chaos_end after update on oncue_jobs
   for each row when (new.address in ('cluster', 'role:leader') and new.state <> old.state)
   execute function chaos_end();
"""


class Lead(NamedTuple):
    """The row of the leader's lease, each time it was written."""

    at: datetime
    epoch: int
    holder: UUID
    expires_at: datetime


class Step(NamedTuple):
    """A change of a cluster job's state, and the epoch at that moment."""

    job_id: int
    claim_no: int
    from_state: str
    state: str
    epoch: int | None


class Witness:
    def __init__(self, url: str) -> None:
        self._url = url

    def install(self) -> None:
        self._ask(BOOKS)

    def time(self) -> datetime:
        """By the clock that the books are kept by."""
        return self._ask("select clock_timestamp()")[0][0]  # type: ignore[no-any-return]

    def leads(self) -> list[Lead]:
        return [
            Lead(*row) for row in self._ask("select at, epoch, holder, expires_at from chaos_leads order by number")
        ]

    def steps(self) -> list[Step]:
        columns = "job_id, claim_no, from_state, state, epoch"
        return [Step(*row) for row in self._ask(f"select {columns} from chaos_ends order by number")]

    def _ask(self, statement: str) -> list[asyncpg.Record]:
        async def asked() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self._url)
            try:
                if statement is BOOKS:
                    await connection.execute(statement)
                    return []
                return list(await connection.fetch(statement))
            finally:
                await connection.close()

        return asyncio.run(asked())


def elected(leads: Sequence[Lead], after: Lead) -> Lead | None:
    """The election of the next leader after this one."""
    return next(
        (
            lead
            for lead in leads
            if lead.epoch > after.epoch and lead.holder != after.holder and lead.expires_at > lead.at
        ),
        None,
    )


def wrong_epochs(leads: Sequence[Lead]) -> Iterator[str]:
    """Epochs only grow, each has one holder, and none begins while the lease of another node lasts."""
    for before, lead in pairwise(leads):
        if lead.epoch < before.epoch:
            yield f"epoch {lead.epoch} came after {before.epoch}"
        if lead.holder != before.holder and lead.epoch == before.epoch:
            yield f"epoch {lead.epoch} had two holders: {before.holder} and {lead.holder}"
        if lead.holder != before.holder and lead.at + CLOCKS_DIFFER < before.expires_at:
            yield f"epoch {lead.epoch} began at {lead.at}, the lease before it lasted until {before.expires_at}"


def stale_ends(steps: Sequence[Step]) -> Iterator[str]:
    """A leader action that was recorded under another epoch than the one under which its claim was made."""
    claimed = {(step.job_id, step.claim_no): step.epoch for step in steps if step.state == "running"}
    for step in steps:
        if step.from_state == "running" and step.state == "succeeded":
            epoch = claimed.get((step.job_id, step.claim_no))
            if epoch != step.epoch:
                yield f"job {step.job_id} was claimed under epoch {epoch}, and its action recorded under {step.epoch}"


def wrong_ends(steps: Sequence[Step]) -> Iterator[str]:
    """A cluster job ends once, and nothing follows."""
    ended: dict[int, Step] = {}
    for step in steps:
        if step.job_id in ended:
            yield f"job {step.job_id} was {ended[step.job_id].state}, and then {step.state}"
        if step.state in TERMINAL:
            ended[step.job_id] = step
