"""Requests that are sent at the same time, about the same thing: they come one after the other, or some are refused."""

from __future__ import annotations

import asyncio
from typing import Any

from fuzz.calls import JOBS, PLANS, QUEUE, TOKENS
from fuzz.teller import Said, Teller


async def _at_once(teller: Teller, *asked: tuple[str, str, Any]) -> list[Said]:
    return list(await asyncio.gather(*(teller.ask(method, path, body) for method, path, body in asked)))


def _took(replies: list[Said]) -> int:
    return sum(said.status < 300 for said in replies)


async def _grown_by(teller: Teller, replies: list[Said], newest: int) -> None:
    """Not every request that was answered well has changed something, but every change has its line."""
    lines = len(await teller.since(newest))
    teller.hold(replies[0], lines <= _took(replies), f"{lines} lines in the audit log, of {_took(replies)} that took")


async def who_make_a_schedule(teller: Teller) -> None:
    name, newest = teller.name("crowd"), await teller.newest()
    body = {"name": name, "cron_expression": "0 0 * * *", "task": "add", "args": {"a": 1}}
    replies = await _at_once(teller, *[("POST", PLANS, body)] * 4)
    statuses = sorted(said.status for said in replies)
    teller.hold(replies[0], statuses == [201, 409, 409, 409], f"answered {statuses}")
    await _grown_by(teller, replies, newest)
    where, newest = f"{PLANS}/{name}", await teller.newest()
    asked = [
        ("PUT", where, {"priority": teller.dice.randint(1, 9)}), ("POST", f"{where}/toggle", {"enabled": False}),
        ("POST", f"{where}/trigger", None), ("POST", f"{where}/backfill", {"from": "-3d"}), ("DELETE", where, None),
        ("GET", f"{where}/audit", None), ("PUT", where, {"cron_expression": "@hourly"}), ("DELETE", where, None),
    ]  # fmt: skip
    replies = await _at_once(teller, *teller.dice.sample(asked, 5))
    await _grown_by(teller, replies, newest)


async def around_a_job(teller: Teller) -> None:
    body = {"task": "add", "args": {"a": 1}, "key": teller.name("crowd")}
    replies = await _at_once(teller, *[("POST", JOBS, body)] * 3)
    ids = {said.json["id"] for said in replies}
    statuses = sorted(said.status for said in replies)
    teller.hold(replies[0], len(ids) == 1 and statuses == [200, 200, 201], f"jobs {ids}, answered {statuses}")
    where, newest = f"{JOBS}/{ids.pop()}", await teller.newest()
    asked = [
        ("POST", f"{where}/cancel", None), ("POST", f"{where}/retry", None),
        ("PUT", f"{where}/status", {"status": "failed"}),
        ("PUT", f"{where}/status", {"status": "success"}), ("PUT", f"{where}/priority", {"priority": 50}),
        ("POST", f"{where}/boost", {"boost": 5}), ("GET", where, None), ("POST", f"{where}/cancel", None),
    ]  # fmt: skip
    replies = await _at_once(teller, *teller.dice.sample(asked, 6))
    await _grown_by(teller, replies, newest)
    await teller.ask("PUT", f"{where}/status", {"status": "failed"})


async def around_a_queue(teller: Teller) -> None:
    where, newest = f"{QUEUE}/{teller.name('crowd')}", await teller.newest()
    asked = [
        ("POST", f"{where}/pause", None), ("POST", f"{where}/resume", None), ("PUT", f"{where}/limits", {"global": 5}),
        ("PUT", f"{where}/limits", {"per_node": 2}), ("PUT", f"{where}/limits", {"global": None}), ("GET", where, None),
    ]  # fmt: skip
    replies = await _at_once(teller, *asked)
    await _grown_by(teller, replies, newest)


async def around_a_token(teller: Teller) -> None:
    made = await teller.ask("POST", TOKENS, {"name": teller.name("crowd"), "scopes": ["read"]})
    newest = await teller.newest()
    replies = await _at_once(teller, *[("DELETE", f"{TOKENS}/{made.json['id']}", None)] * 3)
    statuses = sorted(said.status for said in replies)
    teller.hold(replies[0], statuses == [200, 409, 409], f"answered {statuses}")
    await _grown_by(teller, replies, newest)


CROWDS = [who_make_a_schedule, around_a_job, around_a_queue, around_a_token]
