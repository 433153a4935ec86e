"""The command `cluster_maintenance`.

Exit codes: 0 fine; 1 it could not be done, or the cluster job failed; 2 a setting or the command line makes no sense.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from oncue import ConfigError, OncueError
from oncue.cli import run as oncue
from oncue.store.addresses import hidden

if TYPE_CHECKING:
    from cluster_maintenance.settings import Settings
    from oncue import ClusterJob

NAME = "cluster_maintenance"
APP = "cluster_maintenance.jobs:app"
FAILED = 1


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parser().parse_args(arguments)
    from cluster_maintenance.operating import Refused

    try:
        code = given.run(given)
    except ConfigError as error:
        code = _tell(error, error.exit_code)
    except (Refused, OncueError, OSError) as error:
        code = _tell(error, FAILED)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _tell(error: Exception, code: int) -> int:
    print(f"{NAME}: {hidden(str(error))}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Every node compacts its own store, the leader publishes the manifest."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start nodes on this machine, or those that are gone")
    up.add_argument("--nodes", type=_positive, default=5, metavar="N", help="[default: 5]")
    up.add_argument(
        "--port", type=int, metavar="PORT", help="the first node's API; 0: none  [default: 8081, or as before]"
    )
    up.add_argument(
        "--lease", default="3s", metavar="DURATION", help="silent for so long, a node is lost  [default: 3s]"
    )
    up.set_defaults(run=_up)
    commands.add_parser("status", help="nodes, their stores, the last jobs, the manifest").set_defaults(run=_status)
    compact = commands.add_parser("compact", help="compact all nodes, and show what happens")
    compact.add_argument("--node", action="append", metavar="NAME", help="only this one; may be given several times")
    compact.set_defaults(run=_compact)
    kill = commands.add_parser("kill-leader", help="kill -9 the leader in the middle of a compaction, and show it")
    kill.add_argument(
        "--during", choices=("parts", "action"), default="parts", help="while the nodes or the leader work"
    )
    kill.set_defaults(run=_kill_leader)
    for slow in (compact, kill):
        slow.add_argument(
            "--pause", type=float, default=0.3, metavar="SECONDS", help="between two steps  [default: 0.3]"
        )
    commands.add_parser("evict", help="let the leader remove old manifests").set_defaults(run=_evict)
    busy = commands.add_parser("busy", help="lock the store of a node, so that its part has to be tried again")
    busy.add_argument("node")
    busy.add_argument("--seconds", type=float, default=5.0, help="[default: 5]")
    busy.set_defaults(run=_busy)
    commands.add_parser("down", help="stop the nodes that `up` has started").set_defaults(run=_down)
    node = commands.add_parser("node", help="be one node, until SIGINT or SIGTERM")
    node.add_argument("--name", help="[default: host and process]")
    node.add_argument("--http", metavar="ADDR", help="answer oncue's API there, such as 127.0.0.1:8081")
    node.add_argument("--lease", metavar="DURATION", help="[default: 15s]")
    node.set_defaults(run=_node)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


# --- commands -------------------------------------------------------------------------------------------------------
# The application reads its settings when it is imported: not before the command line is understood.


def _node(given: argparse.Namespace) -> int:
    _settings()
    prepared = _migrated()
    if prepared != 0:
        return prepared
    options = {"--name": given.name, "--http": given.http, "--lease": given.lease}
    told = [word for option, value in options.items() if value is not None for word in (option, value)]
    return oncue(["worker" if given.http is None else "run", "--app", APP, *told])


def _up(given: argparse.Namespace) -> int:
    from cluster_maintenance import operating
    from cluster_maintenance.fleet import Fleet

    settings = _settings()
    prepared = _migrated()
    if prepared != 0:
        return prepared
    fleet = Fleet(settings.folder)

    async def started() -> None:
        await operating.up(fleet, given.nodes, given.port, given.lease)
        await operating.status(settings, fleet)

    return _asked(started)


def _status(given: argparse.Namespace) -> int:
    from cluster_maintenance import operating
    from cluster_maintenance.fleet import Fleet

    settings = _settings()
    return _asked(lambda: operating.status(settings, Fleet(settings.folder)))


def _compact(given: argparse.Namespace) -> int:
    from cluster_maintenance import operating

    settings = _settings()
    return _verdict(lambda: operating.run(settings, given.pause, given.node))


def _kill_leader(given: argparse.Namespace) -> int:
    from cluster_maintenance import operating
    from cluster_maintenance.fleet import Fleet

    settings = _settings()
    return _verdict(lambda: operating.kill_leader(settings, Fleet(settings.folder), given.during, given.pause))


def _evict(given: argparse.Namespace) -> int:
    from cluster_maintenance import operating

    return _verdict(operating.run_eviction)


def _busy(given: argparse.Namespace) -> int:
    from cluster_maintenance import operating

    operating.keep_busy(_settings(), given.node, given.seconds)
    return 0


def _down(given: argparse.Namespace) -> int:
    from cluster_maintenance.fleet import Fleet

    fleet = Fleet(_settings().folder)
    count, killed = len(fleet.alive()), fleet.stop()
    print(f"{count} nodes stopped" + (f", killed: {', '.join(killed)}" if killed else ""))
    return 0


def _settings() -> Settings:
    from cluster_maintenance import settings

    return settings.load()


def _migrated() -> int:
    """Make oncue's tables and views, if they are missing. Only complaints are shown."""
    with redirect_stdout(io.StringIO()):
        return oncue(["migrate", "--views", "--app", APP])


def _asked(work: Callable[[], Awaitable[None]]) -> int:
    """Do something with the application, and close it."""
    from cluster_maintenance.jobs import app

    async def done() -> None:
        try:
            await work()
        finally:
            await app.aclose()

    asyncio.run(done())
    return 0


def _verdict(work: Callable[[], Awaitable[ClusterJob]]) -> int:
    """The same; the exit code says whether the cluster job failed."""
    found: list[ClusterJob] = []

    async def done() -> None:
        found.append(await work())

    _asked(done)
    return FAILED if found[0].job.state in ("failed", "cancelled") else 0
