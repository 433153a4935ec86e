"""Endpoints that send back what they got, in one form or another."""

from __future__ import annotations

import json

import pytest

from oncue.webhooks.aiohttp_transport import AiohttpTransport
from oncue.webhooks.echoes import failure_without_echo, response_without_echo
from oncue.webhooks.transport import NotSent, Request, Response
from tests.webhooks.servers import answering, post, sending, serving

TOKEN = "t0p-s3cret-t0k3n"
SIGNATURES = "v1,bBpfOURBD7bjZG3Hsnhcv2X/YvHntz1A4w0CloRkhXs= v1,Hjbl+D+/SembZHCccqlaGafW8tZA8iJF9yCyjMlgXFo="


def asked(url: str = "https://shop.example/", **headers: str) -> Request:
    return post(url, headers={"Authorization": f"Bearer {TOKEN}", **headers})


def told(excerpt: str, truncated: bool = False, location: str = "/", **headers: str) -> Response:
    response = Response(400, {"location": location}, excerpt, truncated, 0.1, None, 0)
    return response_without_echo(response, asked(**headers))


def test_an_excerpt_that_ends_within_a_secret_does_not_tell_its_beginning() -> None:
    for kept in range(5, len(TOKEN)):
        assert told(f"you sent {TOKEN[:kept]}", truncated=True).excerpt == "you sent (hidden)"
        assert told(f"you sent Bearer {TOKEN[:kept]}", truncated=True).excerpt == "you sent (hidden)"
    assert told("you sent t0p-s3").excerpt == "you sent t0p-s3", "it is whole: nothing was cut off"


def test_a_signature_is_not_told() -> None:
    headers = {"webhook-id": "message-7", "webhook-timestamp": "1794996135", "webhook-signature": SIGNATURES}
    excerpt = told(json.dumps(headers), **headers).excerpt
    assert json.loads(excerpt) == {**headers, "webhook-signature": "v1,(hidden) v1,(hidden)"}


@pytest.mark.parametrize("written", ['a\\"b&c+d/e=f', 'a"b&amp;c+d/e=f', "a%22b%26c%2Bd%2Fe%3Df", 'A"B&C+D/E=F'])
def test_a_secret_is_known_in_the_words_of_json_html_and_urls(written: str) -> None:
    written = written.replace('"', "&quot;") if "&amp;" in written else written
    assert told(f"bad key: {written}", **{"X-Key": 'a"b&c+d/e=f'}).excerpt == "bad key: (hidden)"


def test_headers_of_a_response_tell_none_either() -> None:
    assert told("", location=f"https://shop.example/?t={TOKEN}").headers == {
        "location": "https://shop.example/?t=(hidden)"
    }


@pytest.mark.parametrize(
    "answer",
    [f"HTTP/1.1 {TOKEN} x\r\n\r\n", f"{TOKEN}\r\n\r\n", f"HTTP/1.1 200 OK\r\nx {TOKEN}\r\n\r\n",
     f"HTTP/1.1 200 OK\r\nContent-Length: {TOKEN}\r\n\r\n", f"HTTP/1.1 200 OK\r\nx {'x' * 60}{TOKEN}\r\n\r\n"],
)  # fmt: skip
async def test_what_is_no_http_tells_no_secret(answer: str) -> None:
    async with serving(sending(answer.encode(), then_close=True)) as server, AiohttpTransport(server.allowed()) as out:
        request = asked(server.url())
        with pytest.raises(NotSent) as refused:
            await out.send(request)
    assert "t0p-" not in failure_without_echo(refused.value, request).message


async def test_the_host_of_a_redirect_tells_no_secret() -> None:
    reply = answering("307 x", {"Location": f"http://{TOKEN}.test/"})

    def lookup(host: str, port: int) -> list[str]:
        raise OSError(-2, "unknown")

    async with serving(reply) as server, AiohttpTransport(server.allowed(), lookup=lookup) as out:
        request = asked(server.url())._replace(redirects=1)
        with pytest.raises(NotSent) as refused:
            await out.send(request)
    told = failure_without_echo(refused.value, request)
    assert told.message.startswith("http://(hidden).test:80:")
    assert told.kind == refused.value.kind
