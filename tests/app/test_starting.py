"""A worker that starts while its database hiccups waits for it, for a while; what does not pass by itself is told."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from oncue import StoreUnavailable
from oncue.errors import StoreUnusable
from tests.app.conftest import MakeApp
from tests.app.proxy import Proxy
from tests.middleman import End


def complaint(code: str, message: str) -> bytes:
    """What PostgreSQL sends instead of letting somebody in."""
    body = b"".join(kind + text.encode() + b"\0" for kind, text in ((b"S", "FATAL"), (b"C", code), (b"M", message)))
    return b"E" + struct.pack("!i", len(body) + 5) + body + b"\0"


HICCUPS = {
    "starting": complaint("57P03", "the database system is starting up"),
    "crowded": complaint("53300", "sorry, too many clients already"),
    "silent": b"",  # it hangs up
}


class Hiccup(Proxy):
    """Answers the first `times` callers with a complaint."""

    def __init__(self, url: str, answer: bytes, times: int, *, after: int = 0) -> None:
        super().__init__(url)
        self._answer = answer
        self._let_in = after
        self.left = times

    async def _between(self, asker: End, server: End) -> None:
        self._let_in -= 1
        if self._let_in >= 0 or not self.left:
            return await super()._between(asker, server)
        self.left -= 1
        await asker.reader.read(4096)
        asker.writer.write(self._answer)
        asker.writer.close()


@pytest.mark.parametrize("kind", HICCUPS)
@pytest.mark.parametrize("after", [0, 1], ids=["at the first step", "at the first beat"])
async def test_a_worker_waits_for_a_database_that_hiccups(
    make_app: MakeApp, postgres_url: str, kind: str, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with Hiccup(postgres_url, HICCUPS[kind], 3, after=after) as hiccup:
        app = make_app(hiccup.url, pg_listen=False)
        with caplog.at_level(logging.INFO, "oncue"):
            async with app.worker():
                assert hiccup.left == 0
        await app.aclose()
    told = [record.getMessage() for record in caplog.records if "waiting for it" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("PostgreSQL does not answer")
    assert told[0].endswith("waiting for it for up to 1m")
    assert "the database answers, after 3 tries in vain" in caplog.text


async def test_a_connection_that_is_lost_in_the_middle_of_the_start_is_made_again(
    make_app: MakeApp, postgres_url: str
) -> None:
    async with Proxy(postgres_url) as proxy:
        proxy.doomed, _ = b"clock_timestamp", proxy.cut.set()
        app = make_app(proxy.url, pg_listen=False)
        async with app.worker():
            assert proxy.swallowed.is_set()
        await app.aclose()


@pytest.mark.contract("HOOK-12")
async def test_the_patience_of_a_start_ends(make_app: MakeApp, postgres_url: str) -> None:
    async with Hiccup(postgres_url, HICCUPS["starting"], 1000) as hiccup:
        app = make_app(hiccup.url, start_timeout="300ms")
        with pytest.raises(StoreUnavailable, match="starting up"):
            async with app.worker():
                pytest.fail("it must not start")
        assert 990 < hiccup.left < 999


async def test_what_does_not_pass_by_itself_is_told_at_once(make_app: MakeApp, postgres_url: str) -> None:
    refused = complaint("28P01", "password authentication failed")
    async with Hiccup(postgres_url, refused, 1) as hiccup:
        with pytest.raises(StoreUnusable, match="PostgreSQL refused the login"):
            async with make_app(hiccup.url).worker():
                pytest.fail("it must not start")
    missing = postgres_url.replace("?", "_that_is_not_there?")
    with pytest.raises(StoreUnusable, match="no such database"):
        async with make_app(missing).worker():
            pytest.fail("it must not start")
    with pytest.raises(StoreUnusable, match="no folder"):
        async with make_app("sqlite:////no/such/folder/oncue.db").worker():
            pytest.fail("it must not start")


async def test_a_start_that_waits_can_be_given_up(make_app: MakeApp, postgres_url: str) -> None:
    for after in (0, 1):
        async with Hiccup(postgres_url, HICCUPS["silent"], 1000, after=after) as hiccup:
            app = make_app(hiccup.url, start_timeout="1h", pg_listen=False)
            starting = asyncio.ensure_future(app.worker().__aenter__())
            while hiccup.left == 1000:  # noqa: ASYNC110
                await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
