"""The command `crawler-web`."""

from __future__ import annotations

import argparse
import ipaddress
import sys
from collections.abc import Sequence
from contextlib import suppress

import uvicorn

from community_crawler import settings
from community_crawler.listening import listen


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the page and the API. It runs no job."""
    parser = argparse.ArgumentParser(prog="crawler-web", description="The crawled communities as a page, and an API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args(arguments)
    try:
        settings.load()
    except settings.SettingsError as error:
        parser.error(str(error))
    listening = listen("crawler-web", given.host, given.port)
    from community_crawler.web.app import create

    app = create(on_loopback=_is_loopback(given.host))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with suppress(KeyboardInterrupt):
        server.run([listening])
    if not server.started:
        sys.exit(1)


def _is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there. A name may lead anywhere, but for this one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
