"""Good requests: one maker for every route. Others spoil them, repeat them, or send them as somebody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from fuzz.odd import POLICIES
from fuzz.wire import Header, Request
from fuzz.world import QUEUES, WINDOW, World
from oncue.model import STATES
from oncue.server.api.routing import DeclaredRoute

ADMIN = "/api/admin"
JOBS, QUEUE, PLANS = f"{ADMIN}/jobs", f"{ADMIN}/queues", f"{ADMIN}/scheduled-jobs"
TOKENS, AUDIT = f"{ADMIN}/tokens", f"{ADMIN}/audit-log"
HOOKS, BARE, SENT = f"{ADMIN}/webhooks", f"{ADMIN}/deliveries", f"{ADMIN}/executions"
WINDOWS = f"{ADMIN}/windows"
CLUSTER = f"{ADMIN}/cluster"
CLUSTER_JOBS = f"{CLUSTER}/jobs"
SUBJECTS = f"{WINDOWS}/{{window}}/subjects"
GROUPS, ADDRESSES = ("tenant:1", "tenant:2", "a/b"), ("role:leader", "node:alpha", "node:absent")
RATES = (None, "10/s", "600/min", "1/d")
EXPRESSIONS = ("0 3 * * *", "*/5 * * * *", "@daily", "@every 90s", "0 0 29 2 *", "30 2 * * SUN", "*/10 * * * * *")


@dataclass(frozen=True)
class Call:
    """A request before it is written out. Names in `path` are filled in from `names`."""

    method: str
    path: str
    names: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None

    def request(self, *headers: Header, content: bytes | None = None) -> Request:
        path = self.path
        for name, value in self.names:
            path = path.replace(f"{{{name}}}", quote(value, safe="", errors="surrogatepass"))
        query = f"?{urlencode(self.query, errors='surrogatepass')}" if self.query else ""
        if content is None and self.body is not None:
            content = json.dumps(self.body).encode()
        return Request(self.method, f"{path}{query}", headers, () if content is None else (content,))


Maker = Callable[[World, Random], dict[str, Any]]


def bearer(token: str) -> Header:
    return (b"authorization", f"Bearer {token}".encode())


# --- what there is to name ------------------------------------------------------------------------------------------


def job(world: World, dice: Random) -> str:
    return str(dice.choice(world.jobs) if dice.random() < 0.8 else dice.choice(world.uids))


def schedule(world: World, dice: Random) -> str:
    return dice.choice(world.schedules) if dice.random() < 0.7 else str(dice.randint(1, len(world.schedules) + 1))


def queue(world: World, dice: Random) -> str:
    return dice.choice(QUEUES)


def webhook(world: World, dice: Random) -> str:
    return dice.choice(world.webhooks)


def execution(world: World, dice: Random) -> str:
    return dice.choice(world.executions)


def token(world: World, dice: Random) -> str:
    return dice.choice(world.spare_tokens) if world.spare_tokens else "nobody"


def subject(world: World, dice: Random) -> str:
    return dice.choice(world.subjects)


NAMED = {
    JOBS: job, QUEUE: queue, PLANS: schedule, TOKENS: token, HOOKS: webhook, SENT: execution, WINDOWS: subject,
    CLUSTER_JOBS: job,
}  # fmt: skip


# --- bodies ---------------------------------------------------------------------------------------------------------


def _some(dice: Random, **fields: Any) -> dict[str, Any]:
    """Some of these fields."""
    return {name: value for name, value in fields.items() if dice.random() < 0.4}


def enqueue(world: World, dice: Random) -> dict[str, Any]:
    letter = {"to": "Ada", "when": "2030-01-31T09:00:00Z", "copies": 2.5, "tags": ["a"], "more": {"b": [None]}}
    task, args = dice.choice(
        (("add", {"a": dice.randint(0, 99)}), ("boom", {"text": "x"}), ("once", {}), ("letter", letter))
    )
    at = {"at": "2030-01-31T09:00:00Z"} if dice.random() < 0.2 else _some(dice, delay=dice.choice(("10m", 90)))
    return {
        "task": task, "args": args, **at,
        **_some(
            dice, queue=dice.choice(QUEUES), priority=dice.randint(0, 100), key=f"key {dice.randint(0, 30)}",
            deadline="1h", max_retries=dice.randint(0, 5),
        ),
        **dice.choice(({}, {}, {"group": dice.choice(GROUPS)}, {"address": dice.choice(ADDRESSES)})),
    }  # fmt: skip


def many(world: World, dice: Random) -> dict[str, Any]:
    return {"jobs": [enqueue(world, dice) for _ in range(dice.choice((1, 2, 7)))]}


def status(world: World, dice: Random) -> dict[str, Any]:
    return {"status": dice.choice((*STATES, "crawling", "success"))}


def ids(world: World, dice: Random) -> dict[str, Any]:
    return {"job_ids": [dice.choice((*world.jobs, *map(str, world.uids))) for _ in range(dice.choice((1, 2, 5)))]}


def limits(world: World, dice: Random) -> dict[str, Any]:
    of_groups = {"per_group": dice.choice((None, 1, 4)), "rate_per_group": dice.choice(RATES)}
    if dice.random() < 0.3:
        return {"group": dice.choice(GROUPS), **_some(dice, **of_groups)}
    most = {"global": dice.choice((None, 1, 50, 1_000_000)), "per_node": dice.choice((None, 1, 5))}
    return _some(dice, **most, **of_groups, rate=dice.choice(RATES))


def pause(world: World, dice: Random) -> dict[str, Any]:
    until = dice.choice(({}, {"for": "10m"}, {"until": "2030-01-31T09:00:00Z"}))
    return {} if dice.random() < 0.5 else {"group": dice.choice(GROUPS), **until}


def resume(world: World, dice: Random) -> dict[str, Any]:
    return _some(dice, group=dice.choice(GROUPS))


def terms(world: World, dice: Random) -> dict[str, Any]:
    return _some(
        dice, name=f"plan {dice.randint(0, 10**6)}", description="a few words",
        cron_expression=dice.choice(EXPRESSIONS), tz="Europe/Berlin",
        dst=dice.choice(POLICIES), missed=dice.choice(("latest", "each", "none")),
        grace=dice.choice(("5m", 60)), max_instances=dice.randint(1, 5), queue=dice.choice(QUEUES),
        priority=dice.randint(0, 100), enabled=dice.random() < 0.7,
    )  # fmt: skip


def plan(world: World, dice: Random) -> dict[str, Any]:
    name = f"plan {dice.randint(0, 10**6)}"
    rule = {"name": name, "cron_expression": dice.choice(EXPRESSIONS)}
    if dice.random() < 0.2:
        return {**terms(world, dice), **rule, "queue": None, "webhook": webhook(world, dice), "args": {"payload": 1}}
    return {**terms(world, dice), **rule, "task": "add", "args": {"a": 1}}


def span(world: World, dice: Random) -> dict[str, Any]:
    return {"from": dice.choice(("-2h", "-30m", "-1d")), **_some(dice, to="now", dry_run=dice.random() < 0.5)}


def credential(world: World, dice: Random) -> dict[str, Any]:
    scopes = dice.sample(("read", "enqueue", "operate"), dice.randint(1, 3))
    return {"name": f"made {dice.randint(0, 50)}", "scopes": scopes, **_some(dice, expires=dice.choice(("90d", 3600)))}


def sending(world: World, dice: Random) -> dict[str, Any]:
    """How a request is sent."""
    return _some(
        dice, method=dice.choice(("POST", "PUT", "GET")), headers={"X-Shop": "env:ONCUE_SECRET_SHOP"},
        content_type="application/json", body='{"order": {{payload}}}', timeout=dice.choice((5, "30s")),
        secrets=dice.choice(("env:ONCUE_SECRET_ORDERS", ["env:ONCUE_SECRET_NEW", "env:ONCUE_SECRET_OLD"])),
        retry=["30s", 120], redirects=dice.randint(0, 5), ca="own.pem", certificate="shop.pem",
    )  # fmt: skip


def hook(world: World, dice: Random) -> dict[str, Any]:
    named = {"name": f"hook {dice.randint(0, 10**6)}", "url": "https://shop.example/hooks/7"}
    return {**named, **sending(world, dice), **_some(dice, description="a few words", enabled=dice.random() < 0.7)}


def hook_change(world: World, dice: Random) -> dict[str, Any]:
    cleared = _some(dice, body=None, ca=None, certificate=None)
    return {**sending(world, dice), **cleared, **_some(dice, url="http://other.example:8080/", enabled=True)}


def hook_pause(world: World, dice: Random) -> dict[str, Any]:
    return dice.choice(({}, {"for": "10m"}, {"until": "2130-01-31T09:00:00Z"}))


def delivery(world: World, dice: Random) -> dict[str, Any]:
    due = {"at": "2030-01-31T09:00:00Z"} if dice.random() < 0.2 else _some(dice, delay="10m")
    told = {"payload": {"order": dice.randint(0, 99)}, "key": f"key {dice.randint(0, 30)}"}
    return {**_some(dice, **told, priority=dice.randint(0, 100)), **due}


def bare_delivery(world: World, dice: Random) -> dict[str, Any]:
    return {"url": "https://shop.example/hooks/8?a=b", **sending(world, dice), **delivery(world, dice)}


def subject_terms(world: World, dice: Random) -> dict[str, Any]:
    return _some(
        dice, tz=dice.choice((None, "Asia/Tokyo")), weekdays=dice.choice(("MON-FRI", "SAT-MON", ["TUE"], None)),
        days_off=["2030-12-24"], args=dice.choice(({}, {"language": "de"}, None)),
    )  # fmt: skip


def subject_row(world: World, dice: Random) -> dict[str, Any]:
    return {"at": dice.choice(("09:00", "7:30", "23:59")), **subject_terms(world, dice)}


def subject_rows(world: World, dice: Random) -> dict[str, Any]:
    names = [f"row {dice.randint(0, 50)}" for _ in range(dice.choice((1, 2, 7)))]
    return {"subjects": [{"subject": name, **subject_row(world, dice)} for name in names]}


def cluster_job(world: World, dice: Random) -> dict[str, Any]:
    args = dice.choice(({}, {"level": dice.randint(0, 9)}))
    named = _some(dice, key=f"key {dice.randint(0, 30)}", priority=dice.randint(0, 100))
    return {"task": "compact", "args": args, **named}


BODIES: dict[tuple[str, str], Maker | None] = {
    ("POST", JOBS): enqueue,
    ("POST", f"{JOBS}/bulk"): many,
    ("PUT", f"{JOBS}/{{id}}/status"): status,
    ("PUT", f"{JOBS}/{{id}}/priority"): lambda world, dice: {"priority": dice.randint(0, 100)},
    ("POST", f"{JOBS}/{{id}}/boost"): lambda world, dice: _some(dice, boost=dice.randint(-100, 100)),
    ("POST", f"{JOBS}/{{id}}/retry"): None,
    ("POST", f"{JOBS}/{{id}}/cancel"): None,
    ("PUT", f"{JOBS}/bulk/status"): lambda world, dice: {**ids(world, dice), **status(world, dice)},
    ("POST", f"{JOBS}/bulk/retry"): ids,
    ("POST", f"{QUEUE}/{{name}}/pause"): pause,
    ("POST", f"{QUEUE}/{{name}}/resume"): resume,
    ("PUT", f"{QUEUE}/{{name}}/limits"): limits,
    ("POST", PLANS): plan,
    ("PUT", f"{PLANS}/{{id}}"): terms,
    ("POST", f"{PLANS}/{{id}}/preview"): terms,
    ("DELETE", f"{PLANS}/{{id}}"): None,
    ("POST", f"{PLANS}/{{id}}/toggle"): lambda world, dice: {"enabled": dice.random() < 0.5},
    ("POST", f"{PLANS}/{{id}}/trigger"): lambda world, dice: _some(dice, at="-1h"),
    ("POST", f"{PLANS}/{{id}}/backfill"): span,
    ("POST", HOOKS): hook,
    ("PUT", f"{HOOKS}/{{name}}"): hook_change,
    ("DELETE", f"{HOOKS}/{{name}}"): None,
    ("POST", f"{HOOKS}/{{name}}/toggle"): lambda world, dice: {"enabled": dice.random() < 0.5},
    ("POST", f"{HOOKS}/{{name}}/pause"): hook_pause,
    ("POST", f"{HOOKS}/{{name}}/resume"): None,
    ("POST", f"{HOOKS}/{{name}}/deliveries"): delivery,
    ("POST", BARE): bare_delivery,
    ("POST", f"{SENT}/{{id}}/retry"): None,
    ("POST", SUBJECTS): subject_rows,
    ("PUT", f"{SUBJECTS}/{{name}}"): subject_row,
    ("PATCH", f"{SUBJECTS}/{{name}}"): lambda world, dice: {
        **subject_terms(world, dice), **_some(dice, at=dice.choice(("10:00", None)))
    },
    ("DELETE", f"{SUBJECTS}/{{name}}"): None,
    ("POST", f"{SUBJECTS}/{{name}}/run"): None,
    ("POST", CLUSTER_JOBS): cluster_job,
    ("POST", TOKENS): credential,
    ("DELETE", f"{TOKENS}/{{id}}"): None,
}  # fmt: skip
"""Everything that changes something, with what its body may say."""


def _paging(world: World, dice: Random) -> dict[str, Any]:
    return _some(dice, limit=dice.choice((1, 3, 100, 1000)))


def _jobs(world: World, dice: Random) -> dict[str, Any]:
    return {
        **_paging(world, dice),
        **_some(
            dice, status=",".join(dice.sample(STATES, 2)), queue=dice.choice(QUEUES), task="add", offset=3,
            key=dice.choice(world.keys), before=dice.choice(world.jobs),
        ),
    }  # fmt: skip


def _times(world: World, dice: Random) -> dict[str, Any]:
    return _some(dice, **{"from": "-2d", "to": "now"})


QUERIES: dict[str, Maker | None] = {
    JOBS: _jobs,
    f"{JOBS}/stats": None,
    f"{JOBS}/{{id}}": None,
    QUEUE: None,
    f"{QUEUE}/{{name}}": None,
    f"{QUEUE}/{{name}}/groups": lambda world, dice: {**_paging(world, dice), **_some(dice, after="tenant:1")},
    PLANS: lambda world, dice: {**_paging(world, dice), **_some(dice, offset=2, after="hourly")},
    f"{PLANS}/{{id}}": None,
    f"{PLANS}/{{id}}/preview": lambda world, dice: _some(dice, **{"count": 200, "from": "2026-03-29"}),
    f"{PLANS}/{{id}}/revisions": None,
    f"{PLANS}/{{id}}/slots": lambda world, dice: {**_paging(world, dice), **_times(world, dice)},
    f"{PLANS}/{{id}}/audit": lambda world, dice: {**_times(world, dice), **_some(dice, problems="true")},
    HOOKS: lambda world, dice: {**_paging(world, dice), **_some(dice, after="orders")},
    f"{HOOKS}/{{name}}": None,
    f"{HOOKS}/{{name}}/executions": lambda world, dice: {**_paging(world, dice), **_some(dice, before=20)},
    SENT: lambda world, dice: {**_paging(world, dice), **_some(dice, before=40)},
    f"{SENT}/{{id}}": None,
    WINDOWS: None,
    f"{WINDOWS}/{{window}}": None,
    f"{WINDOWS}/{{window}}/day": lambda world, dice: _some(dice, day=dice.choice(("2030-01-31", "2026-11-18"))),
    f"{WINDOWS}/{{window}}/audit": lambda world, dice: {
        **_paging(world, dice),
        **_some(dice, **{"from": "2026-11-01", "to": "2026-11-18", "subject": "user", "problems": "true"}, after="row"),
    },
    SUBJECTS: lambda world, dice: {**_paging(world, dice), **_some(dice, after="user", prefix="row")},
    f"{SUBJECTS}/{{name}}": None,
    f"{SUBJECTS}/{{name}}/explain": lambda world, dice: _some(dice, day=dice.choice(("2030-01-31", "2026-11-18"))),
    f"{SUBJECTS}/{{name}}/ledger": lambda world, dice: {
        **_paging(world, dice), **_some(dice, **{"from": "2026-01-01", "to": "2030-01-31"})
    },
    CLUSTER: None,
    CLUSTER_JOBS: lambda world, dice: {**_paging(world, dice), **_some(dice, before=40)},
    f"{CLUSTER_JOBS}/{{id}}": None,
    f"{ADMIN}/nodes": None,
    f"{ADMIN}/leader": None,
    TOKENS: None,
    f"{ADMIN}/alerts": None,
    AUDIT: lambda world, dice: {
        **_paging(world, dice), **_some(dice, actor="system", subject="queue:mail", before=20)
    },
    "/health": None,
    "/health/ready": None,
    "/metrics": None,
    "/openapi.json": None,
}  # fmt: skip
"""Everything that only looks, with what its address may say."""


def routes_without_a_maker(routes: Iterable[Any]) -> list[str]:
    """Routes that nothing here asks for: a new one is fuzzed from the beginning, or this says so."""
    known = {*BODIES, *(("GET", path) for path in QUERIES), *(("HEAD", path) for path in QUERIES)}
    return [
        f"{method} {route.path_format}"
        for route in routes
        if isinstance(route, DeclaredRoute)
        for method in sorted(route.methods or ())
        if (method, route.path_format) not in known
    ]


# --- calls ----------------------------------------------------------------------------------------------------------


def change(world: World, dice: Random) -> Call:
    """A request that changes something, and would be carried out for whoever may."""
    method, path = dice.choice(list(BODIES))
    maker = BODIES[method, path]
    return _named(world, dice, Call(method, path, body=None if maker is None else maker(world, dice)))


def look(world: World, dice: Random) -> Call:
    path = dice.choice(list(QUERIES))
    maker = QUERIES[path]
    query = () if maker is None else tuple((name, str(value)) for name, value in maker(world, dice).items())
    return _named(world, dice, Call("GET", path, query=query))


def _named(world: World, dice: Random, call: Call) -> Call:
    if "{" not in call.path:
        return call
    if call.path.startswith(WINDOWS):
        names = {"window": WINDOW, "name": subject(world, dice)}
        return replace(call, names=tuple(one for one in names.items() if f"{{{one[0]}}}" in call.path))
    name = "name" if call.path.startswith((QUEUE, HOOKS)) else "id"
    return replace(call, names=((name, existing(world, dice, call.path)),))


def existing(world: World, dice: Random, path: str, name: str = "name") -> str:
    """Something that there is, for the name in an address."""
    if name == "window":
        return WINDOW
    choose = next(choose for prefix, choose in NAMED.items() if path.startswith(prefix))
    return choose(world, dice)
