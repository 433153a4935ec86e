"""The command `crawler-site`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from aiohttp import web

from community_crawler.listening import listen
from community_crawler.site import graph, pages
from community_crawler.site.server import Manners, Site

PORT = 8090
SIZE = 10_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a generated site of linked communities."""
    usual = Manners()
    parser = argparse.ArgumentParser(prog="crawler-site", description="A generated site of linked communities.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--size", type=int, default=SIZE, help="how many communities there are")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same site")
    parser.add_argument("--crawl-delay", type=float, default=pages.CRAWL_DELAY, help="seconds, for robots.txt")
    parser.add_argument("--slow", type=float, default=usual.slow, help="seconds that a slow page takes")
    parser.add_argument("--patience", type=int, default=usual.patience, help="seconds, for Retry-After")
    parser.add_argument("--failures", type=int, default=usual.failures, help="how often an unsteady page fails")
    given = parser.parse_args(arguments)
    if given.size < 2:
        parser.error("--size: expected at least 2")
    manners = Manners(given.crawl_delay, given.slow, given.patience, given.failures)
    site = Site(given.size, given.seed, manners)
    listening = listen("crawler-site", given.host, given.port)
    print(f"{given.size} communities, the first at http://{given.host}:{given.port}/r/{graph.FIRST}", flush=True)
    web.run_app(site.application(), sock=listening, print=None, access_log=None)
