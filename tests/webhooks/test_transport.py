"""The way out, against real servers: what is sent, what is read, what is told of failures, redirects, TLS, the pool."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oncue.webhooks import aiohttp_transport, connections, name_lookups
from oncue.webhooks.aiohttp_transport import AiohttpTransport
from oncue.webhooks.egress import Allowed
from oncue.webhooks.transport import NotSent, Request, Response
from tests.ports import free_port
from tests.webhooks.certificates import Authority, server_context
from tests.webhooks.servers import Got, Reply, Server, answering, post, sending, serving

LOCAL = Allowed.parse(["127.0.0.0/8", "::1"])


async def failure(transport: AiohttpTransport, request: Request) -> NotSent:
    with pytest.raises(NotSent) as failed:
        await transport.send(request)
    return failed.value


async def answer_of(reply: Reply, **more: object) -> Response:
    async with serving(reply) as server, AiohttpTransport(LOCAL) as transport:
        return await transport.send(post(server.url(), **more))


async def failure_of(reply: Reply, **more: object) -> NotSent:
    async with serving(reply) as server, AiohttpTransport(LOCAL) as transport:
        error = await failure(transport, post(server.url("/secret?token=secret"), **more))
        assert error.message.startswith(f"http://127.0.0.1:{server.port}")
        assert "secret" not in error.message
        return error


class TestRequestsAndResponses:
    async def test_method_path_headers_and_body_arrive_as_they_are(self) -> None:
        headers = {"Content-Type": "application/json", "webhook-id": "msg_1", "X-Key": "ünïcode"}
        async with serving(answering("201 Created", {"Retry-After": "7"}, b'{"ok": true}')) as server:
            async with AiohttpTransport(LOCAL) as transport:
                url = server.url("/a%2Fb/../c?d=%41&e=f g".replace(" ", "%20"))
                response = await transport.send(Request("PUT", url, headers, b'{"n":1}', 5.0))
            (got,) = server.got
        assert got.line == "PUT /a%2Fb/../c?d=%41&e=f%20g HTTP/1.1"
        assert got.body == b'{"n":1}'
        assert got.headers["host"] == f"127.0.0.1:{server.port}"
        assert got.headers["x-key"] == "ünïcode"
        assert got.headers["accept-encoding"] == "identity"
        assert got.headers["user-agent"].startswith("oncue/")
        assert response.seconds > 0
        assert response == Response(201, {"retry-after": "7"}, '{"ok": true}', False, response.seconds, "127.0.0.1", 0)

    async def test_ipv6_is_spoken(self) -> None:
        async with serving(answering(), "::1") as server, AiohttpTransport(LOCAL) as transport:
            response = await transport.send(post(server.url(host="[::1]")))
        assert (response.status, response.address) == (200, "::1")

    async def test_cookies_proxies_and_netrc_are_left_alone(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
        (tmp_path / ".netrc").chmod(0o600)
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("HOME", str(tmp_path))
        async with (
            serving(answering()) as proxy,
            serving(answering(headers={"Set-Cookie": "session=1; Path=/"})) as server,
            AiohttpTransport(LOCAL) as transport,
        ):
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url())
            for _ in range(2):
                await transport.send(post(server.url()))
            assert proxy.accepted == 0
            assert not [got for got in server.got if {"cookie", "authorization"} & got.headers.keys()]

    async def test_a_large_body_is_sent_in_parts(self) -> None:
        async with serving(answering()) as server, AiohttpTransport(LOCAL) as transport:
            body = b"x" * 3_000_000
            assert (await transport.send(post(server.url(), body=body))).status == 200
            assert server.got[0].body == body

    @pytest.mark.contract("HOOK-19")
    async def test_the_excerpt_is_bounded_and_shows_what_is_invisible(self) -> None:
        response = await answer_of(answering(body=b"\x1b[2Jhi\x00\r\n\xff\xfe"))
        assert (response.excerpt, response.truncated) == ("\\x1b[2Jhi\\x00\\r\\n\ufffd\ufffd", False)
        response = await answer_of(answering(body="ü".encode() * 5_000))
        assert (response.excerpt, response.truncated) == ("ü" * 512, True)
        response = await answer_of(answering(body=b"a" + "ü".encode() * 5_000))
        assert (response.excerpt, response.truncated) == ("a" + "ü" * 511, True)
        response = await answer_of(answering(body=b"a" * 1_024))
        assert (response.excerpt, response.truncated) == ("a" * 1_024, False)

    @pytest.mark.contract("HOOK-19")
    async def test_of_a_long_body_64_kib_are_read_and_the_connection_is_closed(self) -> None:
        written = 0

        async def reply(_got: Got, writer: asyncio.StreamWriter) -> None:
            nonlocal written
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            while True:
                writer.write(b"y" * 65_536)
                await writer.drain()
                written += 65_536

        async with serving(reply) as server, AiohttpTransport(LOCAL) as transport:
            response = await transport.send(post(server.url()))
            assert (response.status, len(response.excerpt), response.truncated) == (200, 1_024, True)
            await server.open_at_most(0)
        assert written < 10_000_000

    async def test_a_body_of_up_to_64_kib_leaves_the_connection_usable(self) -> None:
        async with serving(answering(body=b"z" * 65_536)) as server, AiohttpTransport(LOCAL) as transport:
            for _ in range(3):
                assert (await transport.send(post(server.url()))).truncated
            assert server.accepted == 1

    async def test_a_status_that_came_in_time_counts_also_if_its_body_does_not_end(self) -> None:
        for reply in (
            answering("503 Busy", {"Retry-After": "9"}, b"half", length=100),
            sending(b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\n\r\nhalf"),
            sending(b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
        ):
            response = await answer_of(reply, timeout=0.5)
            assert (response.status, response.excerpt, response.truncated) == (503, "half", True)
            assert response.headers == {"retry-after": "9"}
            assert 0.4 < response.seconds < 1.5

    async def test_a_body_that_breaks_off_counts_too(self) -> None:
        half = sending(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", then_close=True)
        response = await answer_of(half)
        assert (response.status, response.excerpt, response.truncated) == (200, "half", True)

    async def test_bodies_that_end_with_the_connection_are_whole(self) -> None:
        response = await answer_of(sending(b"HTTP/1.0 200 OK\r\n\r\nall", then_close=True))
        assert (response.status, response.excerpt, response.truncated) == (200, "all", False)

    @pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
    async def test_statuses_without_a_body_end_at_once(self, status: str) -> None:
        response = await answer_of(sending(f"HTTP/1.1 {status}\r\n\r\n".encode()))
        assert (str(response.status), response.excerpt) == (status[:3], "")

    async def test_a_compressed_body_is_not_unpacked(self) -> None:
        response = await answer_of(answering(headers={"Content-Encoding": "gzip"}, body=b"not gzip"))
        assert response.excerpt == "not gzip"

    async def test_interim_responses_are_passed_over(self) -> None:
        interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        response = await answer_of(sending(interim * 3, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
        assert (response.status, response.excerpt) == (200, "ok")

    async def test_a_second_response_is_nobodys(self) -> None:
        """One that was left in the connection would be taken for the answer to the next request."""
        twice = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Evil\r\nContent-Length: 4\r\n\r\nevil"
        async with serving(sending(twice)) as server, AiohttpTransport(LOCAL) as transport:
            for _ in range(3):
                assert (await transport.send(post(server.url()))).status == 200
            assert server.accepted == 3


class TestFailures:
    @pytest.mark.contract("HOOK-4")
    async def test_no_response_in_time(self) -> None:
        error = await failure_of(sending(), timeout=0.3)
        assert error.kind == "timeout"
        assert error.message.endswith(": no response within 0.3 s")

    @pytest.mark.contract("HOOK-4")
    async def test_the_whole_header_has_its_own_time_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (aiohttp_transport.HEADER_TIMEOUT, aiohttp_transport.CONNECT_TIMEOUT) == (30.0, 10.0)
        monkeypatch.setattr(aiohttp_transport, "HEADER_TIMEOUT", 0.4)

        async def reply(_got: Got, writer: asyncio.StreamWriter) -> None:
            for letter in "HTTP/1.1 200 OK\r\nX: " + "x" * 10_000:
                writer.write(letter.encode())
                await asyncio.sleep(0.05)

        error = await failure_of(reply, timeout=7.25)
        assert error.kind == "timeout"
        assert error.message.endswith(": no response header within 0.4 s")

    @pytest.mark.contract("HOOK-4")
    async def test_a_header_in_time_may_be_followed_by_a_longer_body(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(aiohttp_transport, "HEADER_TIMEOUT", 0.3)

        async def reply(_got: Got, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsl")
            await asyncio.sleep(0.6)
            writer.write(b"ow")

        response = await answer_of(reply, timeout=7.5)
        assert (response.excerpt, response.truncated) == ("slow", False)

    @pytest.mark.contract("HOOK-4")
    async def test_tls_has_its_own_time_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(aiohttp_transport, "CONNECT_TIMEOUT", 0.4)
        async with serving(answering()) as server, AiohttpTransport(LOCAL) as transport:  # it waits for plain HTTP
            error = await failure(transport, post(server.url(scheme="https"), timeout=7.75))
        expected = f"https://127.0.0.1:{server.port}: no connection within 0.4 s"
        assert (error.kind, error.message) == ("timeout", expected)

    async def test_nobody_listens(self) -> None:
        port = free_port()
        async with AiohttpTransport(LOCAL) as transport:
            error = await failure(transport, post(f"http://127.0.0.1:{port}/secret"))
        assert error.kind == "network"
        assert error.message == f"http://127.0.0.1:{port}: Connection refused"

    async def test_the_server_hangs_up(self) -> None:
        error = await failure_of(sending(then_close=True))
        assert error.kind == "network"
        assert error.message.endswith("the server closed the connection without a response")

    async def test_a_connection_that_was_closed_meanwhile_is_a_network_error_for_a_post(self) -> None:
        """The ladder tries again: nobody knows whether the request arrived."""

        async def reply(got: Got, writer: asyncio.StreamWriter) -> None:
            if got.line.startswith("POST /again"):
                writer.close()
                raise ConnectionResetError
            await answering()(got, writer)

        async with serving(reply) as server, AiohttpTransport(LOCAL) as transport:
            await transport.send(post(server.url("/first")))
            assert (await failure(transport, post(server.url("/again")))).kind == "network"
            assert (server.accepted, len(server.got)) == (1, 2)

    @pytest.mark.parametrize(
        "answer",
        [b"hello\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\n",
         b"\x16\x03\x01\x02\x00\x01",
         b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9_000 + b"\r\n\r\n"],
    )  # fmt: skip
    async def test_what_is_not_http_is_a_network_error(self, answer: bytes) -> None:
        error = await failure_of(sending(answer))
        assert error.kind == "network"
        assert "not valid HTTP" in error.message
        assert error.message.isprintable()

    async def test_a_name_that_does_not_resolve(self) -> None:
        def lookup(host: str, port: int) -> Sequence[str]:
            raise socket.gaierror(-2, "Name or service not known")

        async with AiohttpTransport(LOCAL, lookup=lookup) as transport:
            error = await failure(transport, post("https://shop.example/secret"))
        expected = "https://shop.example:443: the name was not resolved: Name or service not known"
        assert (error.kind, error.message) == ("network", expected)

    @pytest.mark.parametrize("lookup", [lambda host, port: [], lambda host, port: 1 / 0, lambda host, port: [None]])
    async def test_a_lookup_that_finds_nothing_or_fails(self, lookup: object) -> None:
        async with AiohttpTransport(LOCAL, lookup=lookup) as transport:  # type: ignore[arg-type]
            assert (await failure(transport, post("https://shop.example/"))).kind == "network"

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"url": "https://me:pw@shop.example/"}, "put credentials into a header"),
            ({"url": "https://127.1/"}, "four decimal numbers"),
            ({"headers": {"Host": "x"}}, "the header Host is not a webhook's to set"),
            ({"headers": {"transfer-ENCODING": "chunked"}}, "the header transfer-ENCODING"),
            ({"headers": {"Content-Length": "1"}}, "the header Content-Length"),
            ({"headers": {"X": "a\r\nsecret: b"}}, "hold characters that HTTP does not have"),
            ({"headers": {"X\r\nsecret": "a"}}, "hold characters that HTTP does not have"),
            ({"method": "GET\r\nsecret"}, "hold characters that HTTP does not have"),
            ({"ca": "a.pem"}, "ONCUE_WEBHOOKS_TLS_DIR names no directory"),
        ],
    )
    async def test_what_cannot_be_sent_is_invalid(self, change: dict[str, object], complaint: str) -> None:
        async with serving(answering()) as server, AiohttpTransport(LOCAL) as transport:
            error = await failure(transport, post(server.url())._replace(**change))
            assert server.got == []
        assert error.kind == "invalid"
        assert complaint in error.message
        assert "secret" not in error.message
        assert error.__context__ is None or error.__suppress_context__

    async def test_after_its_end_nothing_is_sent(self) -> None:
        async with serving(answering()) as server:
            transport = AiohttpTransport(LOCAL)
            await transport.send(post(server.url()))
            await transport.close()
            assert (await failure(transport, post(server.url()))).kind == "network"


class TestRedirects:
    @staticmethod
    def through(status: int, target: str) -> Reply:
        """`/` redirects to the target; everything else answers."""

        async def reply(got: Got, writer: asyncio.StreamWriter) -> None:
            there = got.line.split()[1] != "/"
            chosen = answering(body=b"end") if there else answering(f"{status} Go", {"Location": target}, b"moved")
            await chosen(got, writer)

        return reply

    async def go(self, status: int, target: str, request: Request | None = None) -> tuple[Response, Server]:
        async with serving(self.through(status, target)) as server, AiohttpTransport(LOCAL) as transport:
            asked = request or post("", redirects=5)
            return await transport.send(asked._replace(url=server.url())), server

    @pytest.mark.contract("HOOK-3")
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_none_is_followed_unless_allowed(self, status: int) -> None:
        response, server = await self.go(status, "/there", post(""))
        assert (response.status, response.excerpt, len(server.got)) == (status, "moved", 1)
        assert response.headers["location"] == "/there"

    @pytest.mark.parametrize("status", [307, 308])
    async def test_method_and_body_are_kept(self, status: int) -> None:
        response, server = await self.go(status, "/there?a=b#top", post("", b"{}", redirects=1))
        assert (response.status, response.excerpt, response.redirects) == (200, "end", 1)
        assert [(got.line, got.body) for got in server.got] == [
            ("POST / HTTP/1.1", b"{}"),
            ("POST /there?a=b HTTP/1.1", b"{}"),
        ]

    async def test_see_other_is_a_get_without_a_body(self) -> None:
        response, server = await self.go(303, "there")
        assert response.status == 200
        assert server.got[1].line == "GET /there HTTP/1.1"
        assert "content-type" not in server.got[1].headers

    @pytest.mark.parametrize("status", [301, 302])
    async def test_no_delivery_loses_its_body_on_the_way(self, status: int) -> None:
        response, server = await self.go(status, "/there")
        assert (response.status, response.redirects, len(server.got)) == (status, 0, 1)
        response, server = await self.go(status, "/there", Request("GET", "", {}, None, 5.0, 5))
        assert (response.status, response.redirects, len(server.got)) == (200, 1, 2)

    async def test_so_many_and_no_more(self) -> None:
        async with serving(answering("307 Go", {"Location": "/next"})) as server:
            async with AiohttpTransport(LOCAL) as transport:
                response = await transport.send(post(server.url(), redirects=3))
            assert (response.status, response.redirects, len(server.got)) == (307, 3, 4)

    @pytest.mark.parametrize("location", [None, ""])
    async def test_without_a_location_it_is_the_response(self, location: str | None) -> None:
        headers = {} if location is None else {"Location": location}
        response = await answer_of(answering("307 Go", headers), redirects=5)
        assert response.status == 307

    @pytest.mark.contract("HOOK-19")
    async def test_credentials_stay_at_their_origin(self) -> None:
        headers = {
            "Authorization": "Bearer s", "Cookie": "a=b", "X-Api-Key": "s", "webhook-id": "m",
            "webhook-signature": "v1,s", "Content-Type": "application/json", "Accept": "text/plain",
        }  # fmt: skip
        async with serving(answering()) as other:
            # Another port is another origin; and nothing comes back with the redirect back home.
            home_url = ""

            async def back(got: Got, writer: asyncio.StreamWriter) -> None:
                await answering("307 Go", {"Location": home_url})(got, writer)

            async with (
                serving(back) as middle,
                serving(self.through(307, middle.url())) as home,
                AiohttpTransport(LOCAL) as transport,
            ):
                home_url = home.url("/back")
                response = await transport.send(Request("POST", home.url(), headers, b"{}", 5.0, 5))
                assert (response.status, response.redirects) == (200, 2)
                assert {"authorization", "cookie", "x-api-key", "webhook-id"} < home.got[0].headers.keys()
                for got in (middle.got[0], home.got[1]):
                    assert not {"authorization", "cookie", "x-api-key", "webhook-id", "webhook-signature"} & set(
                        got.headers
                    )
                    assert got.headers["content-type"] == "application/json"
                    assert got.body == b"{}"
            assert other.accepted == 0

    async def test_within_an_origin_all_headers_are_kept(self) -> None:
        _, server = await self.go(307, "/there", Request("POST", "", {"Authorization": "Bearer s"}, b"", 5.0, 5))
        assert server.got[1].headers["authorization"] == "Bearer s"

    async def test_the_time_out_is_for_all_of_them(self) -> None:
        async def reply(got: Got, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.15)
            await answering("307 Go", {"Location": "/next"})(got, writer)

        error = await failure_of(reply, timeout=0.5, redirects=5)
        assert error.kind == "timeout"
        assert error.message.endswith("within 0.5 s")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory: what `ours` signs (localhost, another name), its client, and what a stranger signed."""
    folder = tmp_path_factory.mktemp("tls")
    ours, strange = Authority(folder, "ours"), Authority(folder, "strange")
    ours.issue("server", "DNS:hooks.example,IP:127.0.0.1")
    ours.issue("elsewhere", "DNS:elsewhere.example")
    ours.issue("client")
    strange.issue("stranger")
    (folder / "empty.pem").write_text("")
    (folder / "garbage.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    return folder


class TestTls:
    async def test_a_private_authority_is_trusted_by_those_who_name_it(self, tls: Path) -> None:
        async with (
            serving(answering(), tls=server_context(tls, "server.both.pem")) as server,
            AiohttpTransport(LOCAL, tls) as transport,
        ):
            url = server.url("/secret", scheme="https")
            assert (await transport.send(post(url, ca="ours.pem"))).status == 200
            # The connection is idle now, and must not be lent to a webhook that does not trust its authority.
            for other in (None, "strange.pem"):
                error = await failure(transport, post(url, ca=other))
                assert error.kind == "network"
                assert "TLS: certificate verify failed:" in error.message
                assert "secret" not in error.message
            assert (await transport.send(post(url, ca="ours.pem"))).status == 200
            assert len(server.got) == 2

    async def test_a_certificate_for_another_name(self, tls: Path) -> None:
        async with (
            serving(answering(), tls=server_context(tls, "elsewhere.both.pem")) as server,
            AiohttpTransport(LOCAL, tls, lookup=lambda host, port: ["127.0.0.1"]) as transport,
        ):
            error = await failure(transport, post(server.url(host="hooks.example", scheme="https"), ca="ours.pem"))
            assert error.kind == "network"
            assert "TLS: certificate verify failed: Hostname mismatch" in error.message
            url = server.url(host="elsewhere.example", scheme="https")
            assert (await transport.send(post(url, ca="ours.pem"))).status == 200

    async def test_a_client_certificate_is_shown_by_its_webhook_alone(self, tls: Path) -> None:
        async with (
            serving(answering(), tls=server_context(tls, "server.both.pem", "ours.pem")) as server,
            AiohttpTransport(LOCAL, tls) as transport,
        ):
            url = server.url(scheme="https")
            known = post(url, ca="ours.pem", certificate="client.both.pem")
            assert (await transport.send(known)).status == 200
            for certificate in (None, "stranger.both.pem"):
                error = await failure(transport, known._replace(certificate=certificate))
                assert error.kind == "network"
            assert (await transport.send(known)).status == 200
            assert len(server.got) == 2

    async def test_a_client_certificate_stays_at_its_origin(self, tls: Path) -> None:
        asks = server_context(tls, "server.both.pem", "ours.pem")
        async with serving(answering(), tls=asks) as there:
            away = answering("307 Go", {"Location": there.url(scheme="https")})
            async with serving(away, tls=asks) as here, AiohttpTransport(LOCAL, tls) as transport:
                request = post(here.url(scheme="https"), ca="ours.pem", certificate="client.both.pem", redirects=1)
                assert (await failure(transport, request)).kind == "network"
                assert (len(here.got), len(there.got)) == (1, 0)

    async def test_from_https_to_http_no_redirect_is_followed(self, tls: Path) -> None:
        async with serving(answering()) as plain:
            away = answering("307 Go", {"Location": plain.url("/secret")})
            async with (
                serving(away, tls=server_context(tls, "server.both.pem")) as server,
                AiohttpTransport(LOCAL, tls) as transport,
            ):
                request = post(server.url(scheme="https"), ca="ours.pem", redirects=5)
                error = await failure(transport, request)
            assert (error.kind, plain.accepted) == ("refused", 0)
            assert "not encrypted" in error.message
            assert "secret" not in error.message

    async def test_a_changed_file_is_read_anew(self, tls: Path, tmp_path: Path) -> None:
        current = tmp_path / "current.pem"
        current.write_bytes((tls / "strange.pem").read_bytes())
        async with (
            serving(answering(), tls=server_context(tls, "server.both.pem")) as server,
            AiohttpTransport(LOCAL, tmp_path) as transport,
        ):
            request = post(server.url(scheme="https"), ca="current.pem")
            assert (await failure(transport, request)).kind == "network"
            current.write_bytes((tls / "ours.pem").read_bytes())
            assert (await transport.send(request)).status == 200

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"ca": "absent.pem"}, "ca: there is no file 'absent.pem' in the directory of ONCUE_WEBHOOKS_TLS_DIR"),
            ({"ca": "empty.pem"}, "ca: 'empty.pem' is not a PEM file with a certificate of an authority"),
            ({"ca": "garbage.pem"}, "ca: 'garbage.pem' is not a PEM file"),
            (
                {"certificate": "ours.pem"},
                "certificate: 'ours.pem' is not a PEM file with a certificate and its private",
            ),
            ({"certificate": "garbage.pem"}, "certificate: 'garbage.pem' is not a PEM file"),
            ({"certificate": "client.key"}, "certificate: 'client.key' is not a PEM file"),
            ({"ca": "../ours.pem"}, "expected the name of a PEM file"),
            ({"ca": "a/../ours.pem"}, "without a path"),
            ({"ca": "/etc/passwd"}, "without a path"),
            ({"ca": ""}, "expected the name of a PEM file"),
            ({"ca": ".."}, "expected the name of a PEM file"),
            ({"ca": "a\x00b"}, "expected the name of a PEM file"),
        ],
    )
    async def test_missing_and_malformed_files_are_invalid(
        self, tls: Path, change: dict[str, str], complaint: str
    ) -> None:
        async with AiohttpTransport(LOCAL, tls) as transport:
            error = await failure(transport, post("https://127.0.0.1:9/", **change))
        assert error.kind == "invalid"
        assert complaint in error.message
        assert str(tls) not in error.message


class TestConnections:
    @staticmethod
    async def burst(transport: AiohttpTransport, urls: list[str]) -> None:
        responses = await asyncio.gather(*(transport.send(post(url)) for url in urls))
        assert {response.status for response in responses} == {200}

    @staticmethod
    def together(count: int) -> Reply:
        """Answers when so many requests are there, so that each has a connection of its own."""
        waiting, all_there = 0, asyncio.Event()

        async def reply(got: Got, writer: asyncio.StreamWriter) -> None:
            nonlocal waiting
            waiting += 1
            if waiting == count:
                all_there.set()
            await all_there.wait()
            await answering()(got, writer)

        return reply

    async def test_connections_are_used_again(self) -> None:
        async with serving(answering(body=b"ok")) as server, AiohttpTransport(LOCAL) as transport:
            for _ in range(20):
                await transport.send(post(server.url()))
            assert server.accepted == 1

    @pytest.mark.contract("HOOK-4")
    async def test_ten_idle_connections_are_kept_for_a_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (connections.MOST_IDLE_PER_HOST, connections.MOST_IDLE, connections.KEEPALIVE) == (10, 100, 30.0)
        monkeypatch.setattr(connections, "TRIM_AFTER", 0.05)
        async with serving(self.together(40)) as server, AiohttpTransport(LOCAL) as transport:
            await self.burst(transport, [server.url()] * 40)
            assert server.accepted == 40
            await server.open_at_most(10)
            await asyncio.sleep(0.1)
            assert server.open == 10
            await self.burst(transport, [server.url()] * 10)
            assert server.accepted == 40

    @pytest.mark.contract("HOOK-4")
    async def test_a_hundred_idle_connections_are_kept_in_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "TRIM_AFTER", 0.05)
        hosts = [f"127.0.1.{number}" for number in range(1, 31)]
        async with serving(self.together(180), *hosts) as server, AiohttpTransport(LOCAL) as transport:
            await self.burst(transport, [server.url(host=host) for host in hosts] * 6)
            assert server.accepted == 180
            await server.open_at_most(100)
            await asyncio.sleep(0.1)
            assert server.open == 100

    async def test_of_very_many_the_rest_is_closed_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "MOST_IDLE", 5)
        async with serving(self.together(40)) as server, AiohttpTransport(LOCAL) as transport:
            await self.burst(transport, [server.url()] * 40)
            await server.open_at_most(10)

    async def test_a_connection_in_use_is_never_trimmed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "TRIM_AFTER", 0.001)
        monkeypatch.setattr(connections, "MOST_IDLE_PER_HOST", 1)

        async def reply(got: Got, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.002)
            await answering(body=b"ok")(got, writer)

        async with serving(reply) as server, AiohttpTransport(LOCAL) as transport:
            for _ in range(30):
                await self.burst(transport, [server.url()] * 20)

    async def test_a_cancelled_delivery_closes_its_connection(self) -> None:
        for reply in (sending(), sending(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")):
            async with serving(reply) as server, AiohttpTransport(LOCAL) as transport:
                delivery = asyncio.create_task(transport.send(post(server.url())))
                await server.asked.wait()
                await asyncio.sleep(0.02)
                delivery.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await delivery
                await server.open_at_most(0)


class TestLookups:
    @pytest.mark.contract("HOOK-5")
    async def test_a_name_server_that_hangs_holds_up_only_its_own_deliveries(self) -> None:
        answer_now = threading.Event()

        def lookup(host: str, port: int) -> Sequence[str]:
            if host.startswith("hangs"):
                answer_now.wait(30)
            return ["127.0.0.1"]

        async with serving(answering()) as server, AiohttpTransport(LOCAL, lookup=lookup) as transport:
            hanging = [
                asyncio.create_task(failure(transport, post(server.url(host=f"hangs{number}.example"), timeout=1.0)))
                for number in range(20)
            ]
            await asyncio.sleep(0.05)
            for number in range(20):
                response = await transport.send(post(server.url(host=f"well{number}.example"), timeout=5.0))
                assert response.status == 200
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 5) == "free"
            began = asyncio.get_running_loop().time()
            errors = await asyncio.gather(*hanging)
            assert asyncio.get_running_loop().time() - began < 2.0
            assert {(error.kind, error.message.partition(": ")[2]) for error in errors} == {
                ("timeout", "no response within 1 s")
            }
            answer_now.set()

    @pytest.mark.contract("HOOK-5")
    async def test_names_known_to_be_slow_have_few_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(name_lookups, "SLOW", 0.05)
        running = most = 0
        lock = threading.Lock()

        def lookup(host: str, port: int) -> Sequence[str]:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.1)
            with lock:
                running -= 1
            return ["127.0.0.1"]

        lookups = name_lookups.NameLookups(lookup)
        names = [f"slow{number}.example" for number in range(30)]
        await asyncio.gather(*(lookups.resolve(name, 80) for name in names))
        assert most <= name_lookups.MOST_LOOKUPS
        most = 0
        await asyncio.gather(*(lookups.resolve(name, 80) for name in names))
        assert most <= name_lookups.MOST_SLOW_LOOKUPS

    async def test_of_thousands_of_addresses_few_are_tried(self) -> None:
        many = [f"10.0.{number // 250}.{number % 250}" for number in range(5_000)] + [
            f"fd00::{n:x}" for n in range(5_000)
        ]
        found = await name_lookups.NameLookups(lambda host, port: many).resolve("shop.example", 443)
        assert [entry["host"] for entry in found] == [*many[:4], *many[5_000:5_004]]

    def test_a_lookup_that_hangs_does_not_hold_up_the_end_of_the_process(self) -> None:
        program = """
import asyncio, time
from oncue.webhooks.aiohttp_transport import AiohttpTransport
from oncue.webhooks.egress import Allowed
from oncue.webhooks.transport import NotSent, Request

async def main():
    async with AiohttpTransport(Allowed(), lookup=lambda host, port: time.sleep(60)) as transport:
        try:
            await transport.send(Request("POST", "https://shop.example/", {}, b"", 0.2))
        except NotSent as error:
            print(error.kind)

asyncio.run(main())
"""
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, env={**os.environ}
        )
        assert (ended.stdout, ended.stderr) == ("timeout\n", "")

    async def test_the_system_resolves_names_too(self) -> None:
        async with serving(answering(), "127.0.0.1") as server, AiohttpTransport(LOCAL) as transport:
            assert (await transport.send(post(server.url(host="localhost")))).status == 200


async def test_the_names_of_one_domain_do_not_take_all_lookups() -> None:
    """Whoever owns a domain has any number of names in it, and a redirect leads to each of them."""
    over = threading.Event()

    def lookup(host: str, port: int) -> list[str]:
        if host.endswith("evil.test"):
            over.wait(60)
        return ["198.51.100.7"]

    lookups = name_lookups.NameLookups(lookup)
    async with asyncio.timeout(60):
        hanging = [asyncio.create_task(lookups.resolve(f"{n}.evil.test", 443)) for n in range(100)]
        await asyncio.sleep(0)
        assert await lookups.resolve("shop.example", 443)
        for task in hanging[50:]:
            task.cancel()
        over.set()
        assert all(await asyncio.gather(*hanging[:50]))
        assert await lookups.resolve("again.evil.test", 443)
