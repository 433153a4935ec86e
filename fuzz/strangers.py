"""Requests that would change something, sent by those who may not: all are refused, and every table stays as it was.

Afterwards some of them are sent by somebody who may: that they were refused is worth something only if they would have
had an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fuzz import calls, grammar
from fuzz.calls import CLUSTER_JOBS, HOOKS, JOBS, TOKENS, Call
from fuzz.site import Site
from fuzz.tables import differences, fingerprints
from fuzz.wire import Header, Request
from fuzz.world import World

EFFECTS, LET_IN = "effects_without_authentication", "let_in"
KNOWN = "known"
"""Whose requests those are that are let in, beside the strangers'."""
LOOKED_EVERY, EFFECT_TRIED = 50, 5
UNKNOWN = f"oncue_aaaaaaaa_{'A' * 43}"
NOBODY = (
    (), (b"Bearer",), (b"Bearer ",), (b"bearer x",), (b"Basic bG9jYWw6",), (b"\xff",), (b"",), (b" ",),
    (b"Bearer " + b"a" * 9000,), (b"Digest username=x",), (b"Bearer oncue_",), (b"Bearer %00",), (b"Bearer", b"Bearer"),
    (b"Bearer null",), (f"Bearer {UNKNOWN}".encode(),), (f"Token {UNKNOWN}".encode(),),
)  # fmt: skip
HERE = (b"host", b"localhost")
WEB_PAGES: Sequence[tuple[Header, ...]] = (
    (), ((b"host", b"evil.example"),), ((b"host", b"127.0.0.1.evil.example"),), ((b"host", b""),),
    (HERE, (b"origin", b"https://evil.example")), (HERE, (b"origin", b"null")), (HERE, (b"via", b"1.1 proxy")),
    (HERE, (b"sec-fetch-site", b"cross-site")), ((b"host", b"[::1]"), (b"x-forwarded-for", b"10.0.0.7")),
    (HERE, (b"forwarded", b"for=10.0.0.7")), ((b"host", b"\xff"),),
)  # fmt: skip
"""What gives away, at a door that is open to this machine, that somebody else is asking."""
DISGUISES: Sequence[Header] = (
    (b"x-forwarded-for", b"127.0.0.1"), (b"x-real-ip", b"127.0.0.1"), HERE, (b"origin", b"http://localhost"),
    (b"x-http-method-override", b"GET"), (b"cookie", b"token=x"), (b"idempotency-key", b"mine"),
    (b"x-original-url", b"/health"),
)  # fmt: skip


async def run(site: Site, seed: int, numbers: range) -> int:
    """Send the requests with these numbers; how many of the sample that is tried have an effect."""
    before, world = await fingerprints(site.url), site.world
    refused: list[Call] = []
    for number in numbers:
        dice = Random(f"{seed}:strangers:{number}")
        call = calls.change(world, dice)
        request = call.request(*_credentials(site, call, dice))
        if dice.random() < 0.2:
            request = grammar.altered(request, dice)
        await _refused(site, request, f"seed {seed} number {number}")
        refused.append(call)
        if len(refused) % LOOKED_EVERY == 0:
            before = await _unchanged(site, before, f"seed {seed} up to number {number}")
    await _unchanged(site, before, f"seed {seed} up to number {numbers.stop - 1}")
    return await _effective(site, refused[::EFFECT_TRIED])


async def _refused(site: Site, request: Request, label: str) -> None:
    site.wire.label = label
    reply = await site.wire.send(request)
    if reply.status not in (401, 403):
        site.wire.blame(request, reply, [(LET_IN, "a stranger is not refused")])


async def _unchanged(site: Site, before: dict[str, str], label: str) -> dict[str, str]:
    after = await fingerprints(site.url)
    for difference in differences(before, after):
        site.wire.tally.fault(EFFECTS, f"{site.wire.part} {label}: {difference}")
    return after


async def _effective(site: Site, refused: Sequence[Call]) -> int:
    """How many of these are carried out for somebody who may. The first token would shut a door that is open."""
    known = calls.bearer(site.world.token) if site.world.token else HERE
    asked = [call for call in refused if site.world.token or call.path != TOKENS]
    site.wire.part, part = KNOWN, site.wire.part
    replies = [await site.wire.send(call.request(known)) for call in asked]
    site.wire.part = part
    return sum(reply.status < 300 for reply in replies)


# --- who asks -------------------------------------------------------------------------------------------------------


def _credentials(site: Site, call: Call, dice: Random) -> tuple[Header, ...]:
    if not site.world.token:
        return dice.choice(WEB_PAGES)
    kind = dice.random()
    if kind < 0.45:
        shown = tuple((b"authorization", text) for text in dice.choice(NOBODY))
    elif kind < 0.6:
        shown = (calls.bearer(_nearly(site.world.token, dice)),)
    else:
        shown = (calls.bearer(dice.choice(_insufficient(site.world, call))),)
    return (*shown, *dice.sample(DISGUISES, dice.choice((0, 0, 1, 3))))


def _nearly(token: str, dice: Random) -> str:
    """A valid credential with something wrong in it."""
    place = dice.randrange(6, len(token))
    return dice.choice(
        (
            token[:-1], token + "A", token[:place] + ("B" if token[place] != "B" else "C") + token[place + 1 :],
            token.upper(), token.replace("_", "-"), f"{token},{token}", f'"{token}"', f"{token} {token}", token[::-1],
        )
    )  # fmt: skip


def _insufficient(world: World, call: Call) -> list[str]:
    """Credentials that are not enough for this: expired, revoked, or without the scope. Said here once more, and not
    asked of the application, so that a mistake there is found."""
    lacking = {"read", "enqueue", "expired", "revoked"}
    if call.path.startswith(TOKENS):
        lacking |= {"operate"}
    if call.path in (JOBS, f"{JOBS}/bulk", CLUSTER_JOBS, f"{HOOKS}/{{name}}/deliveries"):
        lacking = lacking - {"enqueue"} | {"operate"}
    return [world.tokens[name] for name in sorted(lacking)]
