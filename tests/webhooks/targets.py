"""Forbidden targets in every spelling that a resolver, a browser or a library has ever taken for an address."""

from __future__ import annotations

from ipaddress import IPv4Address

FORBIDDEN_V4 = (
    "0.0.0.0", "0.0.0.1", "0.255.255.255", "10.0.0.1", "10.255.255.254", "100.64.0.1", "100.100.100.200",
    "100.127.255.254", "127.0.0.1", "127.0.0.2", "127.255.255.254", "168.63.129.16", "169.254.0.23", "169.254.169.254",
    "169.254.170.2", "172.16.0.1", "172.31.255.254", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "192.168.255.254", "198.18.0.1", "198.19.255.254", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "254.254.254.254", "255.255.255.255",
)  # fmt: skip
FORBIDDEN_V6 = (
    "::", "::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::2", "::0.0.0.1", "1::", "64:ff9b::1",
    "64:ff9b:1::1", "64:ff9b:1:fffe::7f00:1", "100::1", "100:0:0:1::1", "2001::1", "2001:1::1", "2001:2::1",
    "2001:10::1", "2001:20::1", "2001:30::1", "2001:db8::1", "2001:1ff:ffff::1", "2002::1", "2002:a00:1::1",
    "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254",
    "fe00::1", "fe80::1", "FE80::A9FE:A9FE", "febf::1", "fec0::1", "feff::1", "ff00::1", "ff02::1", "ff0e::1",
)  # fmt: skip
ALLOWED_V4 = (
    "1.1.1.1",
    "8.8.8.8",
    "11.0.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "223.255.255.254",
)
ALLOWED_V6 = ("2000::1", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "3ffe::1")


def spellings_of(address: str) -> list[str]:
    """An IPv4 address as some library has once read it: no two of them agree."""
    number = int(IPv4Address(address))
    first, second, third, fourth = (number >> shift & 255 for shift in (24, 16, 8, 0))
    wide = str.maketrans("0123456789.", "０１２３４５６７８９．")
    return [
        f"{number}", f"{number:#x}", f"0X{number:X}", f"{number:#o}".replace("0o", "0"), f"0x{number:016x}",
        f"{first:#x}.{second:#x}.{third:#x}.{fourth:#x}", f"0{first:o}.0{second:o}.0{third:o}.0{fourth:o}",
        f"0{first:03o}.{second}.{third}.{fourth}", f"{first}.{number & 0xFFFFFF}",
        f"{first}.{second}.{number & 0xFFFF}",
        f"{first:#x}.{number & 0xFFFFFF}", f"{first:03}.{second:03}.{third:03}.{fourth:03}",
        f"{address}.", f"{address}..", address.translate(wide), address.replace(".", "。"), address.replace(".", "｡"),
        address.replace(str(first), "%" + "%".join(f"{ord(digit):x}" for digit in str(first)), 1),
        address.replace(".", "%2e"), f"{number + 2**32}", f"{first}.{second}.{third}.{fourth + 256}", f".{address}",
        f"{address}%00", f"{address}%20", f"{address}.0x",
    ]  # fmt: skip


def embeddings_of(address: str) -> list[str]:
    """An IPv4 address inside an IPv6 one."""
    number = int(IPv4Address(address))
    high, low = number >> 16, number & 0xFFFF
    return [
        f"[::ffff:{address}]", f"[::ffff:{high:x}:{low:x}]", f"[0:0:0:0:0:FFFF:{high:04X}:{low:04X}]", f"[::{address}]",
        f"[::ffff:0:{address}]", f"[64:ff9b::{address}]", f"[64:ff9b:1::{address}]", f"[2002:{high:x}:{low:x}::1]",
        f"[2001:0:{high:x}:{low:x}::1]", f"[2001::{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}]",
    ]  # fmt: skip


def forbidden_hosts() -> list[str]:
    """Hosts of URLs that must be refused when a webhook is saved, sent or redirected."""
    hosts = [*FORBIDDEN_V4, *(f"[{address}]" for address in FORBIDDEN_V6)]
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1", "100.64.0.1", "0.0.0.0"):
        hosts += spellings_of(address)
    for address in ("127.0.0.1", "10.1.2.3", "169.254.169.254", "172.16.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8"):
        hosts += embeddings_of(address)
    hosts += [
        "localhost", "LOCALHOST", "localhost.", "LocalHost.LocalDomain", "app.localhost", "a.b.localhost",
        "localdomain", "ip6-localhost", "ip6-loopback", "loopback",
        "ｌｏｃａｌｈｏｓｔ", "ⓛocalhost", "local\u00adhost", "localhost%00",
        "metadata", "metadata.google.internal", "METADATA.google.internal", "metadata.goog", "instance-data",
        "instance-data.ec2.internal", "metadata.azure.internal", "metadata.tencentyun.com",
        "[fe80::1%lo]", "[fe80::1%25lo]", "[::1%1]", "[::1%25eth0]", "[127.0.0.1]", "[::1", "::1", "[::1]]", "[[::1]]",
        "[v1.127.0.0.1]", "[::ffff:127.1]", "[::ffff:0x7f000001]", "[::1\\]", "127.0.0.1\\@example.com",
        "user@127.0.0.1", "example.com@127.0.0.1", "127.0.0.1:80@example.com", "example.com:x@127.0.0.1", "①②⑦.⓪.⓪.①",
        "127.0.0.1#@example.com", "example.com#@127.0.0.1", "", ".", "%31%32%37.0.0.1", "127。0。0。1", "0",
        "0x", "00", "1", "١٢٧.٠.٠.١", "127.0.0.1\t", " 127.0.0.1", "127.0.0.1 ", "127.0\n.0.1", "127.0.0.1\r\nX: y",
        "-127.0.0.1-",
    ]  # fmt: skip
    return list(dict.fromkeys(hosts))


def forbidden_urls(port: int) -> list[str]:
    urls = [f"http://{host}:{port}/secret" for host in forbidden_hosts()]
    other = ("ftp", "file", "gopher", "dict", "ws", "wss", "unix", "tcp", "data", "javascript", "http+unix", "jar:http")
    urls += [f"{scheme}://127.0.0.1:{port}/secret" for scheme in other]
    urls += [
        f"http:127.0.0.1:{port}", f"http:/127.0.0.1:{port}/", f"http:///127.0.0.1:{port}/",
        f"http:\\\\127.0.0.1:{port}\\", f"http:/\\127.0.0.1:{port}/",
        f"http://127.0.0.1:{port}:80/", "http://127.0.0.1:/", "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/", "http://127.0.0.1:８０/", "http://127.0.0.1:+80/", "http://127.0.0.1:80x/",
        "http://127.0.0.1:-1/", "http://127.0.0.1:080808/", f"http://127.0.0.1:{port}/#fragment",
        f"http://127.0.0.1:{port}/a b", f"http://127.0.0.1:{port}/\r\nHost: x", f"http://127.0.0.1:{port}/\x00",
        f"h\u0131ttp://127.0.0.1:{port}/", f"http\u200b://127.0.0.1:{port}/", "http://", "http://?", "http://:80/",
    ]  # fmt: skip
    return urls
