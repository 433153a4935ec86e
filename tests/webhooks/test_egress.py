"""The egress guard, and what it refuses wherever a URL may come from: at save, at send, and from a redirect."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from oncue.errors import InvalidWebhook
from oncue.policy.urls import checked_url
from oncue.webhooks.aiohttp_transport import AiohttpTransport
from oncue.webhooks.egress import Allowed, check_at_save, refusal
from oncue.webhooks.transport import NotSent, Request
from tests.webhooks.servers import Got, Trap, answering, post, serving
from tests.webhooks.targets import ALLOWED_V4, ALLOWED_V6, FORBIDDEN_V4, FORBIDDEN_V6, forbidden_urls

NOTHING = Allowed()


@pytest.fixture
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every address that a socket of this process is connected to, whoever asks for it."""
    seen: list[tuple[str, int]] = []
    real = socket.socket.connect

    def connect(self: socket.socket, address: tuple[str, int]) -> None:
        seen.append(address[:2])
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    return seen


@pytest.mark.contract("HOOK-19")
@pytest.mark.parametrize("address", [*FORBIDDEN_V4, *FORBIDDEN_V6])
def test_what_is_not_globally_routable_is_refused(address: str) -> None:
    assert refusal(address, 443, NOTHING)


@pytest.mark.contract("HOOK-19")
@pytest.mark.parametrize("address", [*ALLOWED_V4, *ALLOWED_V6])
def test_what_is_globally_routable_may_be_called(address: str) -> None:
    assert refusal(address, 443, NOTHING) is None


def test_nothing_that_python_calls_private_may_be_called() -> None:
    dice = random.Random(14)
    found = [IPv4Address(dice.getrandbits(32)) for _ in range(20_000)]
    found += [IPv4Address(network << 16 | dice.getrandbits(16)) for network in range(65_536)]
    found += [IPv6Address(dice.getrandbits(16) << 112 | dice.getrandbits(112)) for _ in range(20_000)]
    for address in found:
        if not address.is_global or address.is_multicast:
            assert refusal(address, 443, NOTHING), address


def test_what_is_no_address_is_refused() -> None:
    for text in ("", "localhost", "127.1", "fe80::1%lo", "2606:4700::1111%eth0", "127.0.0.1 ", "１.1.1.1"):
        assert refusal(text, 443, NOTHING), text


def test_exceptions_are_networks_with_or_without_a_port() -> None:
    allowed = Allowed.parse(["10.0.0.0/8:8443", "192.168.1.7", " fd00:1::/32", "[::1]:9000", "[fd00:2::/32]:443"])
    for address, port in (("10.9.9.9", 8443), ("192.168.1.7", 1), ("fd00:1::5", 80), ("::1", 9000), ("fd00:2::1", 443)):
        assert refusal(address, port, allowed) is None
    for address, port in (("10.9.9.9", 443), ("192.168.1.8", 1), ("::1", 9001), ("fd00:2::1", 80), ("127.0.0.1", 9000)):
        assert refusal(address, port, allowed)


def test_an_exception_for_ipv4_is_none_for_what_embeds_it() -> None:
    allowed = Allowed.parse(["0.0.0.0/0"])
    assert refusal("127.0.0.1", 80, allowed) is None
    for address in ("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "::1"):
        assert refusal(address, 80, allowed)


@pytest.mark.parametrize(
    "item", ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:99999", "[::1", "[::1]x",
             "[::1]9", "localhost", "10.0.0.0/8:http", ":80", "[]:80", "10.0.0.1-10.0.0.9"]
)  # fmt: skip
def test_a_malformed_exception_says_what_is_expected(item: str) -> None:
    with pytest.raises(ValueError, match="expected CIDR or CIDR:PORT"):
        Allowed.parse([item])


@pytest.mark.contract("HOOK-19")
def test_at_save_forbidden_targets_are_refused_in_every_spelling() -> None:
    urls = forbidden_urls(8080)
    assert len(urls) >= 300
    for url in urls:
        with pytest.raises(InvalidWebhook):
            check_at_save(checked_url(url), NOTHING)


def test_at_save_a_name_may_resolve_to_anything_and_exceptions_count() -> None:
    for url in ("https://shop.example/", "http://intranet:8080/", "https://8.8.8.8/", "https://[2606:4700::1]/"):
        check_at_save(url, NOTHING)
    check_at_save("http://localhost:9000/", Allowed.parse(["127.0.0.1:9000"]))
    check_at_save("http://10.1.2.3/", Allowed.parse(["10.0.0.0/8"]))
    with pytest.raises(InvalidWebhook, match=r"http://localhost:9001 is a loopback address.*ONCUE_WEBHOOKS_ALLOW"):
        check_at_save("http://localhost:9001/", Allowed.parse(["127.0.0.1:9000"]))


async def kind_of(transport: AiohttpTransport, request: Request) -> str:
    try:
        response = await transport.send(request)
    except NotSent as error:
        return error.kind if "secret" not in error.message else f"it told the path: {error.message}"
    return str(response.status)


@pytest.mark.contract("HOOK-19")
async def test_at_send_forbidden_targets_are_never_dialled(trap: Trap, dialled: list[tuple[str, int]]) -> None:
    urls = forbidden_urls(trap.port)
    looked_up: list[str] = []

    def lookup(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return ["127.0.0.1", "::1"]

    async with AiohttpTransport(NOTHING, lookup=lookup) as transport:
        kinds = await asyncio.gather(*(kind_of(transport, post(url, timeout=20)) for url in urls))
    assert set(kinds) == {"refused", "invalid"}
    assert (trap.caught(), dialled) == (0, [])
    assert not [name for name in looked_up if name.replace(".", "").isdigit()]


@pytest.mark.contract("HOOK-19")
async def test_at_a_redirect_forbidden_targets_are_never_dialled(trap: Trap, dialled: list[tuple[str, int]]) -> None:
    urls = [url for url in forbidden_urls(trap.port) if "\r" not in url and "\n" not in url and "\x00" not in url]
    assert len(urls) >= 300

    async def redirect(got: Got, writer: asyncio.StreamWriter) -> None:
        path = got.line.split()[1][1:]
        status, url = ("307 Go", urls[int(path)]) if path.isdecimal() else ("404 Not Found", "")
        writer.write(f"HTTP/1.1 {status}\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode())

    async with (
        serving(redirect) as server,
        AiohttpTransport(server.allowed(), lookup=lambda host, port: ["127.0.0.1", "::1"]) as transport,
    ):
        requests = [post(server.url(f"/{number}"), timeout=20, redirects=5) for number in range(len(urls))]
        kinds = await asyncio.gather(*(kind_of(transport, request) for request in requests))
        others = [url for url, kind in zip(urls, kinds, strict=True) if kind not in ("refused", "invalid")]
        assert set(dialled) == {("127.0.0.1", server.port)}
    assert trap.caught() == 0
    assert others == [f"h\u0131ttp://127.0.0.1:{trap.port}/"]  # without a scheme: a path of the server that answered


@pytest.mark.contract("HOOK-19")
async def test_names_are_judged_by_the_addresses_that_are_dialled(trap: Trap, dialled: list[tuple[str, int]]) -> None:
    """At send and at a redirect: a name of any spelling that resolves to a forbidden address."""
    forbidden = [*FORBIDDEN_V4, *FORBIDDEN_V6, "::ffff:127.0.0.1", "127.1", "2130706433", "0x7f.1", "fe80::1%lo", "x"]

    def lookup(host: str, port: int) -> Sequence[str]:
        number = int(host.removeprefix("name").partition(".")[0])
        # As many as happy eyeballs may try, of both families
        return [forbidden[number], "127.0.0.1", "::1", forbidden[number - 1], "10.0.0.1"]

    urls = [f"http://name{number}.example:{trap.port}/secret" for number in range(len(forbidden))]

    async def redirect(got: Got, writer: asyncio.StreamWriter) -> None:
        url = urls[int(got.line.split()[1][1:])]
        writer.write(f"HTTP/1.1 308 Go\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode())

    async with serving(redirect) as server, AiohttpTransport(server.allowed(), lookup=lookup) as transport:
        sent = await asyncio.gather(*(kind_of(transport, post(url, timeout=20)) for url in urls))
        assert dialled == []
        requests = [post(server.url(f"/{number}"), timeout=20, redirects=1) for number in range(len(urls))]
        redirected = await asyncio.gather(*(kind_of(transport, request) for request in requests))
        assert set(dialled) == {("127.0.0.1", server.port)}
    assert set(sent) == set(redirected) == {"refused"}
    assert trap.caught() == 0


@pytest.mark.contract("HOOK-19")
async def test_a_name_that_is_rebound_makes_no_connection(dialled: list[tuple[str, int]]) -> None:
    """The first answer is an address that may be called; the next is this machine's own, at the same port."""
    reply = answering(headers={"Connection": "close"})
    async with serving(reply, "127.0.0.5") as good, serving(reply, "127.0.0.1", "::1", port=good.port) as own:
        answers = iter([["127.0.0.5"], ["127.0.0.1"], ["::1"], ["127.0.0.1", "::1"], ["::ffff:127.0.0.1"]])
        transport = AiohttpTransport(
            Allowed.parse(["127.0.0.5"]), lookup=lambda host, port: next(answers), remember_names=0
        )
        async with transport:
            url = good.url(host="shop.example")
            check_at_save(url, NOTHING)
            kinds = [await kind_of(transport, post(url)) for _ in range(5)]
        assert kinds == ["200", "refused", "refused", "refused", "refused"]
        assert (good.accepted, own.accepted, dialled) == (1, 0, [("127.0.0.5", good.port)])


@pytest.mark.contract("HOOK-19")
async def test_of_a_name_with_several_addresses_only_the_permitted_are_dialled(dialled: list[tuple[str, int]]) -> None:
    async with serving(answering(), "127.0.0.5") as server:
        allowed = Allowed.parse(["127.0.0.5"])
        addresses = ["127.0.0.1", "::1", "10.0.0.1", "127.0.0.5"]
        async with AiohttpTransport(allowed, lookup=lambda host, port: addresses) as transport:
            response = await transport.send(post(server.url(host="shop.example")))
        assert (response.status, response.address) == (200, "127.0.0.5")
        assert {ip_address(address) for address, _ in dialled} == {ip_address("127.0.0.5")}


async def test_an_exception_holds_for_its_port_only(dialled: list[tuple[str, int]]) -> None:
    async with serving(answering()) as server, serving(answering()) as other:
        async with AiohttpTransport(server.allowed()) as transport:
            assert await kind_of(transport, post(server.url())) == "200"
            assert await kind_of(transport, post(other.url())) == "refused"
        assert other.accepted == 0
