"""Addresses to listen on, as people write them: `:8080`, `127.0.0.1:8080`, `[::1]:8080`."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import NamedTuple

from oncue.errors import ConfigError, OncueError
from oncue.policy.urls import leads_here

DEFAULT = "127.0.0.1:8080"
EXPECTED = "an address such as :8080 (every interface), 127.0.0.1:8080 or [::1]:8080"


class ListenAddress(NamedTuple):
    host: str
    port: int


class CannotListen(OncueError):
    """The address is taken, or not one of this host."""


def parse(text: str, name: str = "HTTP_ADDR") -> ListenAddress:
    """Read an address. An empty host means every interface, port 0 any free one."""
    host, separator, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        separator = ""
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{name}: expected {EXPECTED}; got {text!r}")
    return ListenAddress(host, int(port))


def listen(address: ListenAddress) -> socket.socket:
    """A socket that listens there, so that a taken address is known before anything else starts."""
    try:
        listening = _listening(address)
        # What is accepted inherits it: an answer in two parts would otherwise wait for the first to be acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise CannotListen(f"HTTP_ADDR: cannot listen on {where}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)


def _listening(address: ListenAddress) -> socket.socket:
    if not address.host:
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):  # a host may know IPv6 and not have it
                return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", address.port))
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family)


def url(listening: socket.socket, host: str) -> str:
    """Where others reach a listening socket; `host` is this machine's name, if it listens on all addresses."""
    bound, port = listening.getsockname()[:2]
    name = host if bound in ("::", "0.0.0.0") else bound
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether a listening socket can be reached from this machine alone."""
    return leads_here(str(listening.getsockname()[0]))
