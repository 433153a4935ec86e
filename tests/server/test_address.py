from __future__ import annotations

import socket

import pytest

from oncue.errors import ConfigError
from oncue.policy.urls import leads_here
from oncue.server import address
from oncue.server.address import CannotListen, ListenAddress


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", ListenAddress("", 8080)),
        ("127.0.0.1:80", ListenAddress("127.0.0.1", 80)),
        ("localhost:0", ListenAddress("localhost", 0)),
        ("[::1]:8080", ListenAddress("::1", 8080)),
        (" :9000 ", ListenAddress("", 9000)),
    ],
)
def test_addresses(text: str, expected: ListenAddress) -> None:
    assert address.parse(text) == expected


@pytest.mark.parametrize("text", ["", "8080", "host", ":", ":x", ":99999", "::1:80", "host:-1"])
def test_what_is_not_an_address(text: str) -> None:
    with pytest.raises(ConfigError, match="HTTP_ADDR: expected an address such as :8080") as refused:
        address.parse(text)
    assert refused.value.exit_code == 2


def test_what_only_this_machine_can_reach() -> None:
    for host, is_here in (("127.0.0.1", True), ("localhost", True), ("", False), ("0.0.0.0", False)):
        with address.listen(ListenAddress(host, 0)) as listening:
            assert address.is_loopback(listening) is is_here
    here = ("127.9.9.9", "::1", "LocalHost", "localhost.", "::ffff:127.0.0.1")
    elsewhere = ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "", "127.1", "::ffff:10.0.0.1")
    assert [leads_here(name) for name in (*here, *elsewhere)] == [True] * len(here) + [False] * len(elsewhere)


def test_listening_everywhere_and_somewhere() -> None:
    with address.listen(ListenAddress("", 0)) as everywhere:
        port = everywhere.getsockname()[1]
        assert address.url(everywhere, "web-1") == f"http://web-1:{port}"
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    with address.listen(ListenAddress("127.0.0.1", 0)) as here:
        assert address.url(here, "web-1") == f"http://127.0.0.1:{here.getsockname()[1]}"
        with pytest.raises(CannotListen, match="HTTP_ADDR: cannot listen on"):
            address.listen(ListenAddress("127.0.0.1", here.getsockname()[1]))
