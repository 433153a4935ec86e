"""One spelling for each URL; everything that programs read differently is refused."""

from __future__ import annotations

import pytest

from oncue.errors import InvalidWebhook
from oncue.policy.urls import LONGEST_URL, checked_url, origin


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("https://shop.example", "https://shop.example/"),
        ("HTTPS://Shop.Example:443/Hook?A=b", "https://shop.example/Hook?A=b"),
        ("http://shop.example:80/", "http://shop.example/"),
        ("http://shop.example:8080?x", "http://shop.example:8080/?x"),
        ("http://shop.example:00080", "http://shop.example/"),
        ("https://bücher.example/ü?q=ä", "https://xn--bcher-kva.example/%C3%BC?q=%C3%A4"),
        ("https://faß.example/", "https://xn--fa-hia.example/"),
        ("https://ｓｈｏｐ．example/", "https://shop.example/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:0:0::1111]:8443/x", "https://[2606:4700::1111]:8443/x"),
        ("https://shop.example/a%20b/../c?d=%41&e={f}", "https://shop.example/a%20b/../c?d=%41&e=%7Bf%7D"),
        ("https://my_service/x", "https://my_service/x"),
        ("https://shop.example/@me?mail=a@b", "https://shop.example/@me?mail=a@b"),
    ],
)
def test_a_url_has_one_spelling(written: str, kept: str) -> None:
    assert checked_url(written) == kept
    assert checked_url(kept) == kept


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        (None, "expected a text"),
        ("", "begins with https:// or http://"),
        ("ftp://shop.example/", "begins with https:// or http://"),
        ("//shop.example/", "begins with https:// or http://"),
        ("https:shop.example", "begins with https:// or http://"),
        ("https:///hook", "expected a host"),
        ("https://:443/hook", "expected a host"),
        ("https://me:secret@shop.example/", "put credentials into a header"),
        ("https://shop.example/#top", "without a fragment"),
        ("https://shop.example/a b", "without spaces"),
        ("https://shop.example/\r\nX: y", "line breaks"),
        ("https://shop.example\\@evil.example/", "backslashes"),
        ("https://shop.example/\u202e", "invisible"),
        ("https://shop.example/\ud800", "invisible"),
        ("https://shop.example:0/", "port from 1 to 65535"),
        ("https://shop.example:65536/", "port from 1 to 65535"),
        ("https://shop.example:٣/", "port from 1 to 65535"),
        ("https://shop.example:/", "port from 1 to 65535"),
        ("https://shop.example./", "without a dot at its end"),
        ("https://shop..example/", "the name of a host"),
        ("https://-shop.example/", "the name of a host"),
        ("https://sh!op.example/", "the name of a host"),
        (f"https://{'a' * 64}.example/", "the name of a host"),
        (f"https://{'.'.join(['abcdefghi'] * 26)}/", "the name of a host"),
        ("https://sh%6fp.example/", "without percent signs"),
        ("https://⁇.example/", "characters that no name may have"),
        ("https://127.1/", "four decimal numbers"),
        ("https://0x7f000001/", "four decimal numbers"),
        ("https://shop.example.1/", "four decimal numbers"),
        ("https://[fe80::1%25eth0]/", "without a zone"),
        ("https://[::g]/", "expected an IPv6 address"),
        ("https://2606:4700::1111/", "stands in brackets"),
        ("https://shop.example/" + "a" * LONGEST_URL, "at most 2,048 characters"),
        ("https://shop.example/" + "ü" * 1_000, "when it is escaped"),
    ],
)
def test_other_spellings_are_refused(url: object, complaint: str) -> None:
    with pytest.raises(InvalidWebhook, match=complaint) as refused:
        checked_url(url, "target")
    assert refused.value.field == "target"


def test_no_complaint_repeats_path_query_or_password() -> None:
    for url in ("https://me:s3cret@a.example/s3cret?s3cret", "ftp://a.example/s3cret", "https://a.1/s3cret?s3cret"):
        with pytest.raises(InvalidWebhook) as refused:
            checked_url(url)
        assert "s3cret" not in str(refused.value)


def test_an_origin_always_has_its_port() -> None:
    assert origin("https://Shop.example/hook?a=b") == "https://shop.example:443"
    assert origin("http://shop.example") == "http://shop.example:80"
    assert origin("https://[2606:4700::1111]:8443/") == "https://[2606:4700::1111]:8443"
