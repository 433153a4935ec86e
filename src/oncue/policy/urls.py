"""The URLs that webhooks may have. Every target has one spelling, so that what is checked is what is dialled.

A host is a name in ASCII, an IPv4 address of four decimal numbers, or an IPv6 address in brackets. The other spellings
that some resolvers take for an address (`0x7f.1`, `2130706433`, `127.1`) are refused: no two programs agree on them.
No message repeats path or query: they may hold a secret.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from oncue.errors import InvalidWebhook

LONGEST_URL = 2_048
LONGEST_HOST = 253
PORTS = {"http": 80, "https": 443}

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE | re.ASCII)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([^:]*))?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_TO_ESCAPE = re.compile(r"[^!-~]|[\"<>^`{|}]")


class UrlParts(NamedTuple):
    scheme: str
    host: str
    """In lower case, without brackets."""
    port: int
    path: str
    """With the query: what is asked for at the host."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self._written_host}:{self.port}"

    @property
    def url(self) -> str:
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self._written_host}{port}{self.path}"

    @property
    def _written_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def checked_url(value: object, field: str = "url") -> str:
    """The URL in its one spelling. The host is in lower case and ASCII; what a path may not hold is escaped."""
    return checked_parts(value, field).url


def origin(url: str) -> str:
    """Scheme, host and port, always with the port: `https://shop.example:443`."""
    return checked_parts(url).origin


def checked_parts(value: object, field: str = "url") -> UrlParts:
    if not isinstance(value, str):
        raise InvalidWebhook(field, f"expected a text, not {type(value).__name__}")
    try:
        return _parsed(value)
    except ValueError as error:
        raise InvalidWebhook(field, str(error)) from None


def leads_here(host: str) -> bool:
    """Whether the name or address of a host leads only to the machine that uses it."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def url_leads_here(url: str) -> bool:
    """Whether a URL leads only to the machine that uses it."""
    found = _URL.fullmatch(url)
    authority = None if found is None else _AUTHORITY.fullmatch(found[2])
    return authority is not None and leads_here(authority[1].strip("[]"))


def checked_advertised_url(value: object) -> str:
    """The address of an API as others reach it; its path, if it has one, comes before those of the API."""
    parts = checked_parts(value, "advertise_url")
    if "?" in parts.path:
        raise InvalidWebhook("advertise_url", "expected a URL without a query (?…)")
    return parts.url.rstrip("/")


def checked_public_url(value: object) -> str:
    """Where browsers reach the dashboard. Its path, the prefix, is one of plain characters.

    Cookies carry the prefix as their path, and no two programs agree on the spellings of others (`%2F`, `;`, `//`).
    """
    parts = checked_parts(value, "public_url")
    if "?" in parts.path:
        raise InvalidWebhook("public_url", "expected a URL without a query (?…)")
    prefix = parts.path.rstrip("/")
    if not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/")):
        raise InvalidWebhook("public_url", "expected a prefix of letters, digits and . _ ~ - between single slashes")
    return parts.url.rstrip("/")


@lru_cache(maxsize=1_024)
def _parsed(text: str) -> UrlParts:
    if len(text) > LONGEST_URL:
        raise ValueError(f"expected at most {LONGEST_URL:,} characters, not {len(text):,}")
    if not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("expected a URL without spaces, backslashes, line breaks and invisible characters")
    found = _URL.fullmatch(text)
    if found is None or found[1].lower() not in PORTS:
        raise ValueError("expected a URL that begins with https:// or http://")
    scheme, authority, path, query, fragment = found.groups()
    if fragment is not None:
        raise ValueError("expected a URL without a fragment (#…): it is never sent")
    if "@" in authority:
        raise ValueError("expected a URL without a user name and password: put credentials into a header")
    host, port = _host_and_port(authority)
    asked = _escaped((path or "/") + (query or ""))
    parts = UrlParts(scheme.lower(), _checked_host(host), _checked_port(port, scheme.lower()), asked)
    if len(parts.url) > LONGEST_URL:
        raise ValueError(f"expected at most {LONGEST_URL:,} characters when it is escaped, not {len(parts.url):,}")
    return parts


def _host_and_port(authority: str) -> tuple[str, str | None]:
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found[1]:
        raise ValueError("expected a host, like https://shop.example/hook; an IPv6 address stands in brackets")
    return found[1], found[2]


def _checked_port(port: str | None, scheme: str) -> int:
    if port is None:
        return PORTS[scheme]
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65_535):
        raise ValueError("expected a port from 1 to 65535 after the host")
    return int(port)


def _checked_host(host: str) -> str:
    if host.startswith("["):
        return _ipv6(host[1:-1])
    if "%" in host:
        raise ValueError("expected a host without percent signs: write it in plain characters")
    name = _ascii_name(host)
    if _NUMBER.fullmatch(name.rstrip(".").rpartition(".")[2]):
        return _ipv4(name, host)
    if name.endswith("."):
        raise ValueError("expected a host without a dot at its end")
    if len(name) > LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"expected the name of a host, of at most {LONGEST_HOST} characters, like shop.example")
    return name


def _ascii_name(host: str) -> str:
    if host.isascii():
        return host.lower()
    import idna  # most names are ASCII, and its tables take a while to read

    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii").lower()
    except ValueError:
        raise ValueError("expected the name of a host: this one has characters that no name may have") from None


def _ipv4(name: str, host: str) -> str:
    try:
        address = str(IPv4Address(name))
    except AddressValueError:
        address = ""
    if address != host:
        raise ValueError("expected an IPv4 address as four decimal numbers, like 198.51.100.7")
    return address


def _ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError("expected an IPv6 address without a zone (%…)")
    try:
        return IPv6Address(text).compressed
    except AddressValueError:
        raise ValueError("expected an IPv6 address in the brackets, like [2001:db8::7]") from None


def _escaped(path: str) -> str:
    return _TO_ESCAPE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)
