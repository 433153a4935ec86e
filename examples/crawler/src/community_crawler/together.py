"""The command `crawler`: everything at once, for a first look. The sample site, the page and a worker, and a start.

Each is a process of its own, the same that `crawler-site`, `crawler-web` and `crawler-worker` start. In earnest they
run on different hosts, and more than one of each; then this command is of no use.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from types import FrameType

from community_crawler import communities, settings
from community_crawler.listening import listen
from community_crawler.parsing import name_in
from community_crawler.settings import SettingsError, origin
from community_crawler.site import graph
from community_crawler.site.serve import PORT
from community_crawler.worker import APP
from oncue.cli import run

PATIENCE = 30.0
LOOK = 0.05
STOPPING = 45.0
BAD_USAGE = 2

SITE = "from community_crawler.site.serve import main; main()"
WEB = "from community_crawler.web.serve import main; main()"
WORKER = "from community_crawler.worker import main; main()"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the sample site, crawl it and show what was found; or crawl another site from a community of it."""
    parser = argparse.ArgumentParser(prog="crawler", description=main.__doc__)
    parser.add_argument("start", nargs="?", help="such as https://site.example/r/name  [default: the sample site]")
    parser.add_argument("--port", type=int, default=8000, help="where the page is")
    parser.add_argument("--site-port", type=int, default=PORT, help="where the sample site is")
    parser.add_argument("--size", type=int, default=10_000, help="how many communities the sample site has")
    given = parser.parse_args(arguments)
    start = given.start or f"http://127.0.0.1:{given.site_port}/r/{graph.FIRST}"
    try:
        os.environ["CRAWLER_SITE"] = origin(start, "start")
        settings.load()
    except SettingsError as error:
        parser.error(str(error))
    name = name_in(start.strip(), os.environ["CRAWLER_SITE"])
    if name is None:
        parser.error(f"start: expected the address of a community, such as {settings.SITE}/r/name, not {start!r}")
    for port in (given.port,) if given.start else (given.port, given.site_port):
        listen("crawler", "127.0.0.1", port).close()  # a taken one is told before anything starts
    sys.exit(_Together(given.port).run(name, None if given.start else (given.site_port, given.size)))


class _Together:
    def __init__(self, port: int) -> None:
        self._port = port
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._told: int | None = None

    def run(self, name: str, sample: tuple[int, int] | None) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        try:
            if sample is not None:
                port, size = sample
                self._start("site", SITE, "--port", str(port), "--size", str(size))
                self._until_answers(f"http://127.0.0.1:{port}/robots.txt")
            migrated = run(["migrate", "--app", APP])
            if migrated != 0:
                return migrated
            self._start("worker", WORKER)
            self._start("web", WEB, "--port", str(self._port))
            self._until_answers(f"http://127.0.0.1:{self._port}/health")
            if not self._told and not self._ended():
                self._ask_for(name)
                print(f"crawler: the page is at http://127.0.0.1:{self._port}, Ctrl+C ends it", flush=True)
            return self._watch()
        finally:
            self._end()

    def _start(self, name: str, command: str, *options: str) -> None:
        """A child in a group of its own: a Ctrl+C reaches this process alone, which ends them one after the other."""
        self._children[name] = subprocess.Popen([sys.executable, "-c", command, *options], process_group=0)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._told is not None:  # a second signal: the worker does not drain any longer
            for child in self._children.values():
                child.terminate()
        self._told = number

    def _until_answers(self, url: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self._told and not self._ended():
            try:
                urllib.request.urlopen(url, timeout=LOOK * 20).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(LOOK)

    def _ask_for(self, name: str) -> None:
        from community_crawler import jobs  # it reads its settings when it is imported

        async def ask() -> None:
            number = communities.add(jobs.engine(), os.environ["CRAWLER_SITE"], name, await jobs.now())
            await jobs.request(number)

        jobs.app.wait(ask())
        jobs.app.close()

    def _ended(self) -> list[str]:
        return [name for name, child in self._children.items() if child.poll() is not None]

    def _watch(self) -> int:
        """Until a signal, or until one of them ends by itself, which is a failure."""
        while not self._told:
            for name in self._ended():
                print(f"crawler: {name} has ended with exit code {self._children[name].returncode}", file=sys.stderr)
                return 1
            time.sleep(LOOK)
        return 0

    def _end(self) -> None:
        """End them all: the worker first, so that what it drains still finds the site that it crawls."""
        for name in ("worker", "web", "site"):
            child = self._children.get(name)
            if child is None:
                continue
            child.terminate()
            try:
                child.wait(STOPPING)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
