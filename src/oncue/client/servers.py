"""The servers that a client talks to: its own, and those that the user has named as possible leaders.

A token is sent to these alone. The address that a server names as the leader's is asked only if it is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncue.client.transport import ServerAddress, ServerConnections, address_of, origin_of
from oncue.errors import ConfigError, NotLeader

MOST_HOPS = 3


class Servers:
    def __init__(self, own: ServerAddress, leaders: Iterable[str], watch: Callable[[], float]) -> None:
        self.own = ServerConnections(own, watch)
        self._named = {origin_of(own): self.own}
        for address in map(_checked, leaders):
            self._named.setdefault(origin_of(address), ServerConnections(address, watch))

    def named(self, url: str) -> ServerConnections | None:
        """The connections to the server at this address, if it is one of ours."""
        try:
            return self._named.get(origin_of(address_of(url)))
        except ConfigError:
            return None

    def close(self) -> None:
        for server in self._named.values():
            server.close()


class Route:
    """Which of the servers one request was sent to: each once, and no more than a few."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._visited = [servers.own]
        self.followed: NotLeader | None = None
        """What the server before this one said."""

    @property
    def server(self) -> ServerConnections:
        """Where the request is sent now."""
        return self._visited[-1]

    def follow(self, refused: NotLeader) -> bool:
        """Go on at the address that is named. False: it is none of ours, was asked before, or there were enough."""
        server = None if refused.address is None else self._servers.named(refused.address)
        if server is None or server in self._visited or len(self._visited) > MOST_HOPS:
            return False
        self._visited.append(server)
        self.followed = refused
        return True


def _checked(url: str) -> ServerAddress:
    try:
        return address_of(url)
    except ConfigError as error:
        raise ConfigError(f"leaders: {str(error).removeprefix('url: ')}") from None
