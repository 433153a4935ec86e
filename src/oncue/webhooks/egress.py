"""The egress guard: which addresses webhooks may call.

Only what is globally routable unicast may be called. All else is refused: an operator's own network, the machine
itself, the metadata service of a cloud, and every IPv6 address that carries an IPv4 address. Exceptions are global
(`ONCUE_WEBHOOKS_ALLOW`): connections are shared, so that an exception for one webhook would be one for all.

`refusal` judges an address that is about to be dialled; the transport asks it for every socket. `check_at_save` tells
the author of a webhook at once what a delivery would find out later. A name is judged by the addresses that are
dialled, each time: what it resolves to may change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from oncue.errors import InvalidWebhook
from oncue.policy.urls import checked_parts

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EXPECTED = "CIDR or CIDR:PORT, like 10.1.0.0/16, 10.1.2.3:8443 or [fd00:1::/32]:8443"
HOW_TO_ALLOW = "an operator can allow it in ONCUE_WEBHOOKS_ALLOW"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The exceptions of the guard: networks, each with one port or with all."""

    rules: tuple[tuple[Network, int | None], ...] = ()

    @classmethod
    def parse(cls, items: Iterable[str]) -> Allowed:
        return cls(tuple(_rule(item.strip()) for item in items))

    def allows(self, address: Address, port: int) -> bool:
        return any(port == only or only is None for network, only in self.rules if address in network)


def refusal(address: str | Address, port: int, allowed: Allowed) -> str | None:
    """What is wrong with an address that is about to be dialled ("a loopback address"), or None: it may be."""
    try:
        judged = ip_address(address)
    except ValueError:
        return "not an address"
    if isinstance(judged, IPv6Address) and judged.scope_id is not None:
        return "an address with a zone"
    what = _forbidden(judged)
    return None if what is None or allowed.allows(judged, port) else what


def check_at_save(url: str, allowed: Allowed, field: str = "url") -> None:
    """Refuse a URL that no delivery could ever call: it holds the address, or a name that always means the same one."""
    parts = checked_parts(url, field)
    reasons = [refusal(address, parts.port, allowed) for address in _always(parts.host)]
    if reasons and all(reasons):
        raise InvalidWebhook(field, f"{parts.origin} is {reasons[0]}, which webhooks may not call: {HOW_TO_ALLOW}")


def _rule(item: str) -> tuple[Network, int | None]:
    network, port = _split(item)
    try:
        if port is not None and not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65_535):
            raise ValueError
        return ip_network(network), int(port) if port is not None else None
    except ValueError:
        raise ValueError(f"expected {EXPECTED}, not {item!r:.100}") from None


def _split(item: str) -> tuple[str, str | None]:
    if item.startswith("["):
        network, bracket, port = item[1:].partition("]")
        return (network, port[1:] if port else None) if bracket and port[:1] in ("", ":") else ("", None)
    if item.count(":") == 1:
        network, _, port = item.partition(":")
        return network, port
    return item, None


def _always(host: str) -> tuple[str, ...]:
    """The addresses that a host means on every machine: an address itself, or a name that is known for one."""
    if ":" in host or host.replace(".", "").isdecimal():
        return (host,)
    if host in LOOPBACK_NAMES or host.endswith((".localhost", ".localdomain")):
        return "127.0.0.1", "::1"
    return METADATA_NAMES.get(host, ())


def _forbidden(address: Address) -> str | None:
    special = SPECIAL_V4 if isinstance(address, IPv4Address) else SPECIAL_V6
    for network, what in special:
        if address in network:
            return what
    if isinstance(address, IPv6Address) and address not in GLOBAL_UNICAST_V6:
        return "a reserved address"
    return None


LOOPBACK_NAMES = frozenset({"localhost", "localdomain", "ip6-localhost", "ip6-loopback", "loopback"})
METADATA_NAMES = {
    "metadata.google.internal": ("169.254.169.254", "fd20:ce::254"),
    "metadata.goog": ("169.254.169.254", "fd20:ce::254"),
    "metadata": ("169.254.169.254",),
    "instance-data": ("169.254.169.254",),
    "instance-data.ec2.internal": ("169.254.169.254", "fd00:ec2::254"),
    "metadata.azure.internal": ("169.254.169.254",),
    "metadata.tencentyun.com": ("169.254.0.23",),
}

# The registries of special addresses (IANA, RFC 6890 and later), and what clouds put elsewhere. They are spelled out:
# what Python's `is_global` says of an address differs between its patch releases.
SPECIAL_V4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a shared address of a carrier (CGNAT)"),
        ("127.0.0.0/8", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a 6to4 relay's address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("168.63.129.16/32", "an address of the cloud's own services"),
    )
)
GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
SPECIAL_V6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("::ffff:0:0/96", "an IPv4 address inside an IPv6 address"),
        ("::ffff:0:0:0/96", "an IPv4 address inside an IPv6 address"),
        ("::/96", "an IPv4 address inside an IPv6 address"),
        ("64:ff9b::/96", "an IPv4 address inside an IPv6 address (NAT64)"),
        ("64:ff9b:1::/48", "an IPv4 address inside an IPv6 address (NAT64)"),
        ("2002::/16", "an IPv4 address inside an IPv6 address (6to4)"),
        ("2001::/32", "an IPv4 address inside an IPv6 address (Teredo)"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("3fff::/20", "an address for documentation"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
)
