"""Stories about jobs, schedules, queues, tokens and repeated requests: their steps come in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from urllib.parse import quote

from fuzz import crowds, pages
from fuzz.calls import HOOKS, JOBS, PLANS, QUEUE, SENT, TOKENS, WINDOWS
from fuzz.site import Site
from fuzz.teller import Entries, Said, Teller, always, if_different, never
from fuzz.world import WINDOW
from oncue.model import STATES

Story = Callable[[Teller], Awaitable[None]]
Step = tuple[str, str, Callable[[Random], Any], Entries]
"""A method, the rest of an address, what the body says, and how many lines of the audit log it is worth."""
KEY = b"idempotency-key"


async def run(site: Site, seed: int, numbers: range, most: float = float("inf")) -> None:
    """Tell the stories with these numbers, until `most` requests were sent."""
    for number in numbers:
        if site.wire.tally.requests[site.wire.part] >= most:
            return
        dice = Random(f"{seed}:stories:{number}")
        site.wire.label = f"seed {seed} number {number}"
        await dice.choice(STORIES)(Teller(site, dice))


def _no_body(dice: Random) -> None:
    return None


# --- jobs -----------------------------------------------------------------------------------------------------------


def _if_other_priority(before: Any, after: Any, said: Said) -> int:
    return int(before["priority"] != after["priority"])


JOB_STEPS: list[Step] = [
    ("POST", "/cancel", _no_body, always),
    ("POST", "/retry", _no_body, always),
    ("PUT", "/status", lambda dice: {"status": dice.choice(STATES)}, if_different),
    ("PUT", "/priority", lambda dice: {"priority": dice.randint(-5, 105)}, _if_other_priority),
    ("POST", "/boost", lambda dice: {"boost": dice.choice((-100, 0, 7))}, _if_other_priority),
]


async def of_a_job(teller: Teller) -> None:
    """Enqueued with a key, then cancelled, retried and moved in any order; and enqueued again."""
    dice, app = teller.dice, teller.app
    body = {"task": "add", "args": {"a": 1}, "key": teller.name("key"), "queue": "told"}
    if dice.random() < 0.3:
        body["delay"] = "1h"
    made = await teller.change("POST", JOBS, body, entries=never)
    teller.hold(made, made.status == 201, "it was not enqueued")
    number = made.json["id"]

    async def look() -> Any:
        job = await app.jobs.get(number)
        facts = {"status": job.state, "priority": job.priority, "retries": job.retry_count}
        return {**facts, "cancel": job.cancel_requested_at, "claim": job.claim_no}

    for _ in range(dice.randint(4, 10)):
        kind = dice.random()
        if kind < 0.15:
            said = await _enqueued_again(teller, body)
        elif kind < 0.3:
            wanted = {"job_ids": [number, 2**60]}
            method, path, status = dice.choice(
                (("PUT", "bulk/status", {"status": "failed"}), ("POST", "bulk/retry", {}))
            )
            said = await teller.change(method, f"{JOBS}/{path}", {**wanted, **status}, look=look, entries=_changed)
        else:
            method, path, make, entries = dice.choice(JOB_STEPS)
            said = await teller.change(method, f"{JOBS}/{number}{path}", make(dice), look=look, entries=entries)
        shown = await teller.ask("GET", f"{JOBS}/{number}")
        teller.hold(said, shown.json["status"] == (await look())["status"], "it is not shown as it is")


async def _enqueued_again(teller: Teller, body: dict[str, Any]) -> Said:
    """A key is held for as long as its job is not finished."""
    holders = [job.id for job in await teller.app.jobs.list(key=body["key"]) if not job.finished]
    said = await teller.change("POST", JOBS, body, entries=never)
    teller.hold(said, said.json["created"] is (not holders), f"the key is held by {holders}")
    teller.hold(said, not holders or said.json["id"] == holders[0], f"the key is held by {holders}")
    return said


def _changed(before: Any, after: Any, said: Said) -> int:
    return int(said.json["changed"])


# --- schedules ------------------------------------------------------------------------------------------------------


def _if_made(before: Any, after: Any, said: Said) -> int:
    return int(said.json["made"] > 0)


RULES = ("* * * * *", "@every 5m", "0 * * * *", "*/30 * * * * *")
PLAN_STEPS: list[Step] = [
    ("PUT", "", lambda dice: {"priority": dice.randint(0, 3), "enabled": dice.random() < 0.5}, if_different),
    ("PUT", "", lambda dice: {"cron_expression": dice.choice((*RULES, "61 * * * *"))}, if_different),
    ("PUT", "", lambda dice: {"name": dice.choice((f"renamed-{dice.getrandbits(40):x}", "hourly", " "))}, if_different),
    ("POST", "/toggle", lambda dice: {"enabled": dice.random() < 0.5}, if_different),
    ("POST", "/trigger", lambda dice: dice.choice(({}, None, {"at": "-1h"})), always),
    ("POST", "/backfill", lambda dice: {"from": dice.choice(("-20m", "-2h"))}, _if_made),
    ("POST", "/backfill", lambda dice: {"from": "-20m", "dry_run": True}, never),
    ("POST", "/preview", lambda dice: {"cron_expression": "*/7 * * * *"}, never),
]


async def of_a_schedule(teller: Teller) -> None:
    """Made, changed, renamed, switched, run by hand, deleted; then everything once more on what is gone."""
    dice, name = teller.dice, teller.name("plan")
    body = {"name": name, "cron_expression": dice.choice(RULES), "task": "add", "args": {"a": 1}}
    made = await teller.change("POST", PLANS, body)
    teller.hold(made, made.status == 201, "it was not made")
    twice = await teller.change("POST", PLANS, body)
    teller.hold(twice, twice.status == 409, "a second one has its name")
    number, store = made.json["id"], (await teller.app.internals.connected()).store

    async def look() -> Any:
        found = await store.schedules.by_id(number)
        assert found is not None
        return found.name, found.priority, found.expression, found.enabled, found.deleted_at

    async def step() -> Said:
        method, path, make, entries = dice.choice(PLAN_STEPS)
        where = f"{PLANS}/{dice.choice((number, (await look())[0]))}"
        return await teller.change(method, f"{where}{path}", make(dice), look=look, entries=entries)

    for _ in range(dice.randint(3, 7)):
        await step()
        await teller.ask("GET", f"{PLANS}/{number}/{dice.choice(('preview?count=3', 'audit?from=-3h', 'slots'))}")
    gone = await teller.change("DELETE", f"{PLANS}/{number}", look=look)
    teller.hold(gone, gone.status == 200, "it was not deleted")
    for _ in range(3):
        said = await step()
        teller.hold(said, said.status in (404, 422), "it is gone, and something was done to it")
    for part in ("revisions", "slots", "audit"):
        said = await teller.ask("GET", f"{PLANS}/{number}/{part}")
        teller.hold(said, said.status == 200, "what it was is not shown any more")


# --- queues and tokens ----------------------------------------------------------------------------------------------

QUEUE_STEPS: list[Step] = [
    ("POST", "/pause", _no_body, if_different),
    ("POST", "/resume", _no_body, if_different),
    ("PUT", "/limits", lambda dice: {"global": dice.choice((None, 1, 0, 3))}, if_different),
    ("PUT", "/limits", lambda dice: {"global": 3, "per_node": dice.choice((None, 1))}, if_different),
]


async def of_a_queue(teller: Teller) -> None:
    """Paused, resumed and limited: the log has what was different, and nothing else."""
    dice, app, name = teller.dice, teller.app, teller.dice.choice(("mail", "told", teller.name("queue")))

    async def look() -> Any:
        found = [queue for queue in await app.queues.list() if queue.name == name]
        facts = [(queue.paused_at is not None, queue.global_limit, queue.node_limit) for queue in found]
        return facts or [(False, None, None)]  # one that there is not yet is as free as can be

    for _ in range(dice.randint(3, 8)):
        method, path, make, entries = dice.choice(QUEUE_STEPS)
        said = await teller.change(method, f"{QUEUE}/{name}{path}", make(dice), look=look, entries=entries)
        if said.status == 200:
            told = said.json
            facts = [(told["paused_at"] is not None, told["global_limit"], told["node_limit"])]
            teller.hold(said, facts == await look(), "it is not shown as it is")


async def of_a_token(teller: Teller) -> None:
    """Made, used, revoked, used again."""
    dice, name = teller.dice, teller.name("token")
    scopes = dice.sample(("read", "enqueue", "operate"), dice.randint(1, 2))
    body, key = {"name": name, "scopes": scopes, "expires": "1h"}, (KEY, name.encode())
    made = await teller.change("POST", TOKENS, body, key)
    token = made.json["token"]
    repeated = await teller.change("POST", TOKENS, body, key)
    teller.hold(repeated, repeated.status == 409 and token.encode() not in repeated.reply.body, "it is told twice")
    used = await teller.ask("GET", JOBS, token=token)
    teller.hold(used, used.status == (200 if {"read", "operate"} & {*scopes} else 403), "its scope says otherwise")
    for wrong in dice.sample((f"{token}x", token[:-1], token.replace("oncue_", "")), 2):
        said = await teller.ask("GET", JOBS, token=wrong)
        teller.hold(said, said.status == 401, "it is not the token")
    where = f"{TOKENS}/{dice.choice((made.json['id'], name))}"
    revoked = await teller.change("DELETE", where)
    teller.hold(revoked, revoked.status == 200, "it was not revoked")
    again = await teller.change("DELETE", where)
    teller.hold(again, again.status == 409, "it was revoked twice")
    for method, path, asked in (("GET", JOBS, None), ("POST", JOBS, {"task": "add", "args": {"a": 1}})):
        said = await teller.ask(method, path, asked, token=token)
        teller.hold(said, said.status == 401, "a revoked token is let in")


# --- webhooks -------------------------------------------------------------------------------------------------------

SECRET, HIDDEN = "Bearer s3cret-of-a-story", "whsec_" + "c3Rvcnk" * 8
HOOK_STEPS: list[Step] = [
    ("PUT", "", lambda dice: {"timeout": dice.choice((5, 10, 0.5)), "enabled": dice.random() < 0.5}, if_different),
    ("PUT", "", lambda dice: {"url": dice.choice(("https://other.example/", "http://10.0.0.7/"))}, if_different),
    ("PUT", "", lambda dice: {"headers": dice.choice(({}, {"X-Shop": SECRET}, {"X\n": SECRET}))}, if_different),
    ("POST", "/toggle", lambda dice: {"enabled": dice.random() < 0.5}, if_different),
    ("POST", "/pause", lambda dice: dice.choice((None, {"for": "1h"}, {"for": "soon"})), if_different),
    ("POST", "/resume", _no_body, if_different),
    ("POST", "/deliveries", lambda dice: dice.choice(({"payload": 7}, None, {"payload": "x" * 300_000})), never),
]


async def of_a_webhook(teller: Teller) -> None:
    """Made, changed, paused, delivered to, deleted; no answer and no line of the audit log tells its secrets."""
    dice, name, app = teller.dice, f"{teller.name('hook')}/ü", teller.app
    where = f"{HOOKS}/{quote(name, safe='')}"
    how = {"headers": {"Authorization": SECRET}, "secrets": [HIDDEN], "url": "https://shop.example/"}
    made = await teller.change("POST", HOOKS, {"name": name, **how}, (KEY, where.replace("%", "").encode()))
    teller.hold(made, made.status == 201, "it was not made")

    async def look() -> Any:
        found = (await (await app.internals.connected()).store.webhooks.get([name]))[0]
        group = await app.queues.group("webhooks", name)
        return found.version, group.paused_until

    async def step() -> Said:
        method, path, make, entries = dice.choice(HOOK_STEPS)
        said = await teller.change(method, f"{where}{path}", make(dice), look=look, entries=entries)
        _refuse_secrets(teller, said)
        return said

    for _ in range(dice.randint(3, 8)):
        await step()
    for path in (where, f"{where}/executions", HOOKS, SENT, "/api/admin/audit-log"):
        _refuse_secrets(teller, await teller.ask("GET", path))
    for job in await app.webhooks.executions(name, limit=2):
        await teller.ask("GET", f"{SENT}/{job.uid}")
        again = await teller.change("POST", f"{SENT}/{job.id}/retry", entries=always)
        teller.hold(again, again.status == 409, "it has not ended, and was repeated")
    gone = await teller.change("DELETE", where, look=look)
    _refuse_secrets(teller, gone)
    teller.hold(gone, gone.status == 200, "it was not deleted")
    for _ in range(3):
        said = await step()
        teller.hold(said, said.status in (404, 422), "it is gone, and something was done to it")


def _refuse_secrets(teller: Teller, said: Said) -> None:
    told = any(secret.encode() in said.reply.body for secret in (SECRET, HIDDEN))
    teller.hold(said, not told, "a secret is told")


# --- windows --------------------------------------------------------------------------------------------------------

SUBJECT_STEPS: list[Step] = [
    ("PUT", "", lambda dice: {"at": dice.choice(("09:00", "10:00", "25:00"))}, if_different),
    ("PATCH", "", lambda dice: {"tz": dice.choice((None, "Asia/Tokyo", "Mars/Base"))}, if_different),
    ("PATCH", "", lambda dice: {"days_off": dice.choice(([], ["2030-12-24"], ["soon"]))}, if_different),
    ("PATCH", "", lambda dice: {"args": dice.choice(({}, {"language": "de"}, {"user": "eve"}))}, if_different),
    ("POST", "/run", _no_body, if_different),
]


async def of_a_subject(teller: Teller) -> None:
    """Added, changed, run, removed: each change is one line of the audit log, and what is gone is gone."""
    dice, name, app = teller.dice, f"{teller.name('user')}/ü", teller.app
    where = f"{WINDOWS}/{WINDOW}/subjects/{quote(name, safe='')}"
    window = await app.windows.get(WINDOW)

    async def look() -> Any:
        found = await (await app.internals.connected()).store.windows.subjects(window.id, [name])
        return [subject.version for subject in found]

    async def step() -> Said:
        method, path, make, entries = dice.choice(SUBJECT_STEPS)
        return await teller.change(method, f"{where}{path}", make(dice), look=look, entries=entries)

    made = await teller.change("PUT", where, {"at": "12:00"}, look=look, entries=if_different)
    teller.hold(made, made.status == 200, "it was not added")
    for _ in range(dice.randint(3, 6)):
        await step()
    for path in ("", "/ledger", "/explain"):
        shown = await teller.ask("GET", f"{where}{path}")
        teller.hold(shown, shown.status == 200, "it is not shown")
    job = (await app.windows.subject(WINDOW, name)).job_id
    gone = await teller.ask("DELETE", where)
    teller.hold(gone, gone.status == 200, "it was not removed")
    if job is not None:
        state = (await app.jobs.get(job)).state
        teller.hold(gone, state == "cancelled", f"its job is {state}")
    for method, body in (("GET", None), ("PATCH", {"at": "09:00"}), ("DELETE", None)):
        said = await teller.ask(method, where, body)
        teller.hold(said, said.status == 404, "it is gone, and something was done to it")


# --- requests that are sent twice -----------------------------------------------------------------------------------


async def of_a_key(teller: Teller) -> None:
    """Sent several times under one key, one after the other or at once, a request takes effect once."""
    dice, key, mark = teller.dice, (KEY, teller.name("sent").encode()), teller.name("mark")
    one = {"task": "boom", "args": {"text": mark}, "queue": "told"}
    path, body, jobs = dice.choice(((JOBS, one, 1), (f"{JOBS}/bulk", {"jobs": [one, one]}, 2)))
    asked = [teller.ask("POST", path, body, key) for _ in range(dice.randint(2, 4))]
    replies = await asyncio.gather(*asked) if dice.random() < 0.5 else [await one for one in asked]
    first = replies[0]
    made = [
        job for job in await teller.app.jobs.list(queue="told", task="boom", limit=1000) if job.args["text"] == mark
    ]
    teller.hold(first, len(made) == jobs, f"{len(made)} jobs were written, not {jobs}")
    teller.hold(first, {said.status for said in replies} <= {201, 409}, "one of them was not answered alike")
    told = {said.reply.body for said in replies if said.status == 201}
    teller.hold(first, len(told) == 1, "they were told different things")
    other = await teller.change("POST", path, {"task": "add", "args": {"a": 1}}, key, entries=never)
    teller.hold(other, other.status == 422, "another request got the same key")
    await _repeated_pause(teller, (KEY, mark.encode()))


async def _repeated_pause(teller: Teller, key: tuple[bytes, bytes]) -> None:
    async def look() -> Any:
        return [queue.paused_at is not None for queue in await teller.app.queues.list() if queue.name == "told"]

    path = f"{QUEUE}/told/{teller.dice.choice(('pause', 'resume'))}"
    first = await teller.change("POST", path, None, key, look=look, entries=if_different)
    second = await teller.change("POST", path, None, key, look=look)
    teller.hold(second, second.reply.body == first.reply.body and not second.took, "the second answer is another one")


# --- several at once, and listings ----------------------------------------------------------------------------------


async def of_a_crowd(teller: Teller) -> None:
    await teller.dice.choice(crowds.CROWDS)(teller)


async def of_pages(teller: Teller) -> None:
    await teller.dice.choice(pages.LISTINGS)(teller)


STORIES: list[Story] = [
    of_a_job, of_a_job, of_a_schedule, of_a_queue, of_a_webhook, of_a_subject, of_a_token, of_a_key, of_a_crowd,
    of_pages,
]  # fmt: skip
