"""HTTP/1.1 from the standard library, on connections that are kept and used again by whichever thread comes next."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from oncue.errors import ConfigError

EXPECTED = "an address such as https://jobs.example or http://127.0.0.1:8080/oncue"
MOST_IDLE = 10
PART = 65_536
SHORTEST_SECONDS = 0.001


class ServerAddress(NamedTuple):
    """Where a server is; `path` is what comes before the API's own paths."""

    is_secure: bool
    host: str
    port: int | None
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'https' if self.is_secure else 'http'}://{host}{port}{self.path}"


def address_of(url: str) -> ServerAddress:
    """Read an address. What is wrong with it is told without repeating it: it may have a password in it."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ConfigError(f"url: expected {EXPECTED}; {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"url: expected {EXPECTED}")
    if not all("!" <= character <= "~" for character in parts.path):
        raise ConfigError(f"url: expected {EXPECTED}; other characters than these are written with %")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(f"url: expected {EXPECTED}; no user, no query (a token is given as `token`)")
    return ServerAddress(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


def origin_of(address: ServerAddress) -> ServerAddress:
    """The same address in its one spelling: with its port, and its host in lower case."""
    return address._replace(host=address.host.lower(), port=address.port or (443 if address.is_secure else 80))


class Reply(NamedTuple):
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str | None:
        return self.headers.get(name)


class NoAnswer(Exception):
    """No answer came, or not a whole one."""

    def __init__(self, why: str, *, was_sent: bool, was_stale: bool = False, is_hopeless: bool = False) -> None:
        super().__init__(why)
        self.was_sent = was_sent
        """Whether the server may have got the request."""
        self.was_stale = was_stale
        """Whether the connection had been used before: its other end may have given it up just then."""
        self.is_hopeless = is_hopeless
        """Whether asking again would come to the same."""


class ServerConnections:
    """The connections to one server. Any thread may use them; a forked child makes its own."""

    def __init__(self, address: ServerAddress, watch: Callable[[], float]) -> None:
        self.address = address
        self._watch = watch
        self._tls = ssl.create_default_context() if address.is_secure else None
        self._pid = os.getpid()
        self._idle: list[HTTPConnection] = []

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Reply:
        """Send a request and wait so long for the whole answer. Raises NoAnswer."""
        until = self._watch() + seconds
        idle = self._mine()
        connection, was_used = self._taken(idle)
        was_sent = False
        try:
            line = self._line(connection, until)
            was_sent = True
            connection.request(method, f"{self.address.path}{target}", body, dict(headers))
            response = connection.getresponse()
            reply = self._read(response, line, until)
        except (OSError, HTTPException) as error:
            connection.close()
            # Not from the error itself: its traceback has the bytes in it that were sent, and so the token.
            raise _no_answer(error, seconds, was_sent, was_used) from None
        except BaseException:  # somebody pressed Ctrl-C: what is half read cannot be used again
            connection.close()
            raise
        self._put_back(connection, idle)
        return reply

    def close(self) -> None:
        """Close what is idle now, and what is in use when it is no longer. Whoever asks after that opens another."""
        idle, self._idle = self._idle, []
        while idle:
            idle.pop().close()

    def _mine(self) -> list[HTTPConnection]:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.close()  # they are the parent's too, who does not notice
        return self._idle

    def _taken(self, idle: list[HTTPConnection]) -> tuple[HTTPConnection, bool]:
        """A connection, and whether it was used before."""
        while True:
            try:
                connection = idle.pop()
            except IndexError:
                return self._new(), False
            if connection.sock is not None and not _has_hung_up(connection.sock):
                return connection, True
            connection.close()

    def _new(self) -> HTTPConnection:
        host, port = self.address.host, self.address.port
        if self._tls is None:
            return HTTPConnection(host, port)
        return HTTPSConnection(host, port, context=self._tls)

    def _put_back(self, connection: HTTPConnection, idle: list[HTTPConnection]) -> None:
        if connection.sock is not None and idle is self._idle and len(idle) < MOST_IDLE:
            idle.append(connection)
        else:
            connection.close()

    def _line(self, connection: HTTPConnection, until: float) -> socket.socket:
        """The socket of a connection, open and in no more of a hurry than we are."""
        if connection.sock is None:
            connection.timeout = self._left(until)
            connection.connect()
        connection.sock.settimeout(self._left(until))
        return connection.sock

    def _read(self, response: HTTPResponse, line: socket.socket, until: float) -> Reply:
        body = bytearray()
        while part := response.read(PART):
            body += part
            line.settimeout(self._left(until))
        if response.length:
            raise HTTPException(f"the answer ended {response.length} bytes too early")
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, response.reason, headers, bytes(body))

    def _left(self, until: float) -> float:
        return max(until - self._watch(), SHORTEST_SECONDS)


def _has_hung_up(line: socket.socket) -> bool:
    """A connection that is idle has nothing to say, unless that it is over."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(0))


def _no_answer(error: OSError | HTTPException, seconds: float, was_sent: bool, was_used: bool) -> NoAnswer:
    if isinstance(error, TimeoutError):
        return NoAnswer(f"nothing within {seconds:.3g} s", was_sent=was_sent)
    why = str(error) or type(error).__name__
    is_hopeless = isinstance(error, ssl.SSLCertVerificationError) or (
        isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN
    )
    return NoAnswer(why, was_sent=was_sent, was_stale=was_used, is_hopeless=is_hopeless)
