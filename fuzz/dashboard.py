"""Pages and actions of the dashboard: odd addresses, queries, headers and forms.

It runs twice over its numbers. First nothing may change: pages are read, and actions are asked for as other sites can
ask for them, or without a session. Then forms are sent as our own pages send them, with odd values. Pages, their
parameters and their forms are found by following links, so that a new page is asked for as soon as there is one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from urllib.parse import quote, urlencode, urlsplit

from bench.server.markup import Form, Read, leading_on
from fuzz import odd
from fuzz.grammar import METHODS
from fuzz.judge import SERVER_ERROR, SHAPE
from fuzz.site import Site
from fuzz.strangers import EFFECTS, LET_IN
from fuzz.tables import differences, fingerprints
from fuzz.wire import Header, Reply, Request, Wire
from oncue.clock import VirtualClock
from oncue.server.api.identity import Identity
from oncue.server.dashboard import Dashboard, dashboard
from oncue.server.dashboard.entrance import Visitor
from oncue.server.dashboard.limits import RateLimit
from oncue.server.dashboard.pages import SECURITY
from oncue.server.site import Site as WholeSite

BLOCKED = "blocked_loop"
MOST_SECONDS = 0.1
"""For so long an answer may keep the event loop from its other work."""
TICK = 0.002
MOST_KNOWN, MOST_OF_A_KIND = 150, 3
LOOKED_EVERY = 100
FASTER = 100
HOST = "127.0.0.1:8080"
ORIGIN = f"http://{HOST}"
IS_REFUSED = {303, 400, 401, 403, 404, 405, 413, 422}
FORM: Header = (b"content-type", b"application/x-www-form-urlencoded")
OWN: tuple[Header, ...] = ((b"origin", ORIGIN.encode()), (b"sec-fetch-site", b"same-origin"), (b"hx-request", b"true"))
OF_OTHERS: Sequence[tuple[Header, ...]] = (
    (), ((b"origin", b"null"),), ((b"origin", b"https://evil.example"),), ((b"origin", b""),),
    ((b"origin", b"http://127.0.0.1:9999"),), ((b"origin", f"{ORIGIN}.evil.example".encode()),),
    ((b"origin", b"ftp://" + HOST.encode()),), ((b"origin", b"\xff"),), ((b"origin", HOST.encode()),),
    ((b"origin", ORIGIN.encode()), (b"sec-fetch-site", b"cross-site")),
    ((b"origin", ORIGIN.encode()), (b"sec-fetch-site", b"same-site")),
    ((b"origin", b"https://evil.example"), (b"x-forwarded-host", HOST.encode())),
)  # fmt: skip
"""Where a change may come from that is not a page of ours."""
BESIDE: Sequence[Header] = (
    (b"hx-request", b"true"), (b"accept-encoding", b"gzip, br"), (b"accept", b"application/json"),
    (b"range", b"bytes=0-1"),
    (b"x-forwarded-host", b"evil.example"), (b"x-forwarded-prefix", b"//evil.example"), (b"cookie", b"a=b; ; =c; \xff"),
    (b"if-none-match", b"*"), (b"x-http-method-override", b"DELETE"), (b"content-length", b"-1"),
    (b"accept", b"text/event-stream"),
    (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"iframe"),
)  # fmt: skip


async def run(site: Site, seed: int, numbers: range) -> None:
    """Send the requests with these numbers."""
    fuzzed = await Fuzzed.at(site)
    before = await _seen(site)
    for count, number in enumerate(numbers, 1):
        await fuzzed.look(seed, number)
        if count % LOOKED_EVERY == 0 or count == len(numbers):
            after = await _seen(site)
            for difference in differences(before, after):
                site.wire.tally.fault(EFFECTS, f"{site.wire.part} seed {seed} up to number {number}: {difference}")
            before = after
    connected = await site.world.app.internals.connected()
    connected.clock = Hurried(connected.now())
    for number in numbers:
        await fuzzed.change(seed, number)


async def _seen(site: Site) -> dict[str, str]:
    """All tables but the sample of what waits: a process that finds it old counts anew and keeps that, as each does."""
    return {table: rows for table, rows in (await fingerprints(site.url)).items() if table != "oncue_sample"}


class Hurried(VirtualClock):
    """A clock that goes fast: what waits for a worker or a leader, of which there is none, gives up soon."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._since = time.monotonic()

    def now(self) -> datetime:
        self.advance_to(self._start + FASTER * timedelta(seconds=time.monotonic() - self._since))
        return super().now()

    def monotonic(self) -> float:
        self.now()
        return super().monotonic()


class Fuzzed:
    """The dashboard of a shop, a session there, and what its pages lead to."""

    def __init__(self, site: Site, pages: Dashboard) -> None:
        self._site, self._pages = site, pages
        pages._asking = RateLimit(burst=1e9, per_second=1e9)
        self._wire = Wire(WholeSite(site.gate, pages, ""), self._complaints, site.wire.tally)
        self._wire.part = site.wire.part
        self._cookie = ""
        self._session = ""
        self._known: list[str] = []
        self._parameters: list[str] = []
        self._forms: dict[str, Form] = {}

    @classmethod
    async def at(cls, site: Site) -> Fuzzed:
        """The dashboard of this site, with its pages read once."""
        found = cls(site, dashboard(site.world.app, site.gate))
        await found._sign_in()
        await found._explore()
        return found

    # --- before -----------------------------------------------------------------------------------------------

    async def _sign_in(self) -> None:
        app = self._site.world.app
        _, token = await app.tokens.create("dashboard", ["admin"])
        started = await app.sessions.start(token)
        assert started is not None
        self._session = started[1]
        place = self._pages.entrance.place({"type": "http", "headers": [(b"host", HOST.encode())]})
        self._cookie = place.cookie

    async def _explore(self) -> None:
        """Follow links from the overview, a few of each kind."""
        waiting = ["/", *(page.path for _, _, page in self._pages.pages if "{" not in page.path)]
        kinds: dict[object, int] = {}
        while waiting and len(self._known) < MOST_KNOWN:
            address = waiting.pop(0)
            kind = self._kind(address)
            if address in self._known or kinds.get(kind, 0) >= MOST_OF_A_KIND or kind is None:
                continue
            kinds[kind] = kinds.get(kind, 0) + 1
            reply = await self._wire.send(Request("GET", address, (*self._inside(), *OWN)))
            if reply.status != 200:
                continue
            read = Read(reply.body.decode())
            self._known.append(address)
            self._parameters += [part.partition("=")[0] for part in urlsplit(address).query.split("&") if part]
            for form in read.forms:
                if form.method == "post" and form.action in self._pages.actions:
                    self._forms.setdefault(form.action, form)
            waiting += leading_on(read, address)
        self._parameters = sorted({*self._parameters, "name", "page", "limit", "before", "after", "status"})

    def _kind(self, address: str) -> object:
        parts = urlsplit(address)
        found = self._pages._page(parts.path)
        names = tuple(sorted(part.partition("=")[0] for part in parts.query.split("&")))
        return None if found is None else (found[0].path, names)

    # --- reading, and what must not be let in ---------------------------------------------------------------------

    async def look(self, seed: int, number: int) -> None:
        """Read a page, or ask for a change as it may not be asked for."""
        dice = Random(f"{seed}:dashboard:{number}")
        self._label(f"seed {seed} number {number}")
        if dice.random() < 0.6:
            await self._send(self._read(dice))
            return
        request = self._foreign(dice)
        reply = await self._send(request)
        if reply.status not in IS_REFUSED:
            self._wire.blame(request, reply, [(LET_IN, "a change of another site is not refused")])

    def _read(self, dice: Random) -> Request:
        address = dice.choice(self._known)
        if dice.random() < 0.35:
            address = self._odd_path(dice)
        path, _, query = address.partition("?")
        words = [query] if query and dice.random() < 0.7 else []
        for _ in range(dice.choice((0, 1, 1, 2, 5))):
            words.append(f"{_coded(dice.choice((*self._parameters, odd.text(dice))))}={_coded(_value(dice))}")
        words += ["%ff%fe=%80"] * (dice.random() < 0.03) + ["a=b&" * 3000] * (dice.random() < 0.01)
        target = f"{path}?{'&'.join(words)}" if words else path
        method = "GET" if dice.random() < 0.93 else dice.choice([one for one in METHODS if one != "POST"])
        session = self._inside() if dice.random() < 0.95 else _strangers(self._cookie, dice)
        return Request(method, target, (*session, *dice.sample(BESIDE, dice.choice((0, 0, 1, 3)))))

    def _odd_path(self, dice: Random) -> str:
        page = dice.choice([page for _, _, page in self._pages.pages])
        parts = [_coded(_value(dice)) if part.startswith("{") else part for part in page.path.split("/")]
        path = "/".join(parts)
        special = ("/live?page=", "/names?part=", "/sign-in?next=", "/signed-in?x=")
        return dice.choice((
            path, path, path, f"{path}/", f"/{path}", f"{path}/{_coded(_value(dice))}", f"{path}%00",
            f"{dice.choice(special)}{_coded(_value(dice))}", f"/live?page={_coded(f'{path}?a={_value(dice)}')}",
            f"/static/{_coded(_value(dice))}", "/static/x/../../pages.py", f"/static/x/{_coded('../assets.py')}",
        ))  # fmt: skip

    def _foreign(self, dice: Random) -> Request:
        """A change that lacks something: the session, the text of the page, or the right origin."""
        path, fields = self._form(dice)
        kind = dice.choice(("stranger", "text", "origin", "kind", "method"))
        headers = _strangers(self._cookie, dice) if kind == "stranger" else self._inside()
        headers += dice.choice(OF_OTHERS) if kind == "origin" else OWN
        method, text = "POST", Visitor(Identity("", ()), self._session).csrf
        if kind == "text":
            text = dice.choice(("", "x" * 43, text[:-1], text + "A", text.swapcase(), self._session, "\x00", "é"))
        if kind == "method":
            method = dice.choice([one for one in METHODS if one not in ("POST", "OPTIONS")])
        content_type = b"application/json" if kind == "kind" else FORM[1]
        headers += ((FORM[0], content_type), (b"x-csrf-token", text.encode()))
        return Request(method, path, headers, (urlencode(fields, errors="surrogatepass").encode(),))

    # --- changing ---------------------------------------------------------------------------------------------------

    async def change(self, seed: int, number: int) -> None:
        """Send a form as a page of ours does, with something odd in it."""
        if not self._pages.actions:
            return
        if await self._site.world.app.sessions.authenticate(self._session) is None:
            await self._sign_in()
        dice = Random(f"{seed}:dashboard changes:{number}")
        self._label(f"seed {seed} change {number}")
        path, fields = self._form(dice)
        for _ in range(dice.choice((0, 1, 1, 2))):
            fields = _spoilt(fields, dice)
        body = urlencode(fields, errors="surrogatepass").encode()
        if dice.random() < 0.05:
            body = dice.choice((b"\xff\xfe", b"%ff=%80", b"a&b&=&&&", b"a=b&" * 5000, b"x=" + b"y" * 600_000, b""))
        text = Visitor(Identity("", ()), self._session).csrf
        headers = (*self._inside(), *OWN, FORM, (b"x-csrf-token", text.encode()))
        await self._send(Request("POST", path, headers, (body,)))

    def _form(self, dice: Random) -> tuple[str, list[tuple[str, str]]]:
        paths = [*sorted(self._pages.actions), "/sign-out"] if self._pages.actions else ["/sign-out"]
        path = dice.choice(paths if dice.random() < 0.9 else paths[-1:])
        form = self._forms.get(path)
        return path, list(form.fields) if form is not None else [("name", odd.text(dice)), ("id", "1")]

    # --- sending ----------------------------------------------------------------------------------------------------

    def _inside(self) -> tuple[Header, ...]:
        return ((b"host", HOST.encode()), (b"cookie", f"{self._cookie}={self._session}".encode()))

    def _label(self, label: str) -> None:
        self._wire.label = self._site.wire.label = label

    async def _send(self, request: Request) -> Reply:
        async with blocked() as longest:
            reply = await self._wire.send(request)
        if longest[0] > MOST_SECONDS and request.method in ("GET", "HEAD"):
            async with blocked() as longest:  # a template that is compiled, or garbage that is collected, is once
                reply = await self._wire.send(request)
        if longest[0] > MOST_SECONDS:
            self._wire.blame(request, reply, [(BLOCKED, f"the loop stood for {longest[0] * 1000:.0f} ms")])
        if reply.headers.get("content-type", "").startswith("text/html"):
            read = Read(reply.body.decode("utf-8", "replace"))
            found = [*read.inline, *read.unsafe(), *(one for one in read.others if one != "doctype html")]
            self._wire.blame(request, reply, [(SHAPE, f"the page has {what}") for what in found])
        return reply

    def _complaints(self, request: Request, reply: Reply) -> list[tuple[str, str]]:
        if reply.status >= 500:
            return [(SERVER_ERROR, "a server error")]
        if not reply.headers.get("content-type", "").startswith("text/html"):
            return []
        lacking = [name for name, value in SECURITY.items() if reply.headers.get(name.lower()) != value]
        return [(SHAPE, f"without {', '.join(lacking)}")] if lacking else []


@asynccontextmanager
async def blocked() -> AsyncIterator[list[float]]:
    """For how long the loop was busy with one thing, in seconds of its thread: other processes do not count."""
    longest = [0.0]

    async def watch() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(TICK)
            longest[0] = max(longest[0], time.thread_time() - began)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield longest
        await asyncio.sleep(TICK)
    finally:
        watching.cancel()


# --- odd values ------------------------------------------------------------------------------------------------------


def _value(dice: Random) -> str:
    kind = dice.choice((odd.text, odd.text, odd.instant, odd.duration, odd.cron, odd.number))
    return str(kind(dice))


def _coded(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _spoilt(fields: list[tuple[str, str]], dice: Random) -> list[tuple[str, str]]:
    if not fields or dice.random() < 0.15:
        return [*fields, (odd.text(dice), _value(dice))]
    place = dice.randrange(len(fields))
    name, value = fields[place]
    changed = dice.choice(([], [(name, "")], [(name, _value(dice))], [(name, _value(dice))], [(name, value)] * 2))
    return [*fields[:place], *changed, *fields[place + 1 :]]


def _strangers(cookie: str, dice: Random) -> tuple[Header, ...]:
    values = (b"", b"x", b"aaaaaaaaaaaaaaaa_" + b"A" * 43, b"\xff", b"x" * 5000, b'"quoted"', b"a=b")
    host = (b"host", dice.choice((HOST.encode(), HOST.encode(), b"evil.example", b"", b"\xff")))
    return (host, (b"cookie", cookie.encode() + b"=" + dice.choice(values))) if dice.random() < 0.7 else (host,)
