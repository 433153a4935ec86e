"""Names with a slash in an address. `a%2Fb` is one part of a path, `a/b` are two, and servers decode both to the same.

So a route is found by the address as it was sent. Where a proxy has decoded it on the way, the last part of the path
decides, for every method: `POST …/queues/a/pause/pause` pauses the queue `a/pause`, and `GET …/queues/a/pause` is a
method that the path of the verb does not take.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote

STAND_IN = "\ufdd0"
"""A slash inside of a name, while a route is looked for. It is no character, and no name has it."""
_KEPT = "oncue_guarded_path"


def guarded(scope: MutableMapping[str, Any]) -> str | None:
    """The path with its encoded slashes guarded, if it has any."""
    if _KEPT not in scope:
        scope[_KEPT] = _guarded(scope)
    path: str | None = scope[_KEPT]
    return path


def _guarded(scope: Mapping[str, Any]) -> str | None:
    path, sent = scope["path"], (scope.get("raw_path") or b"").decode("latin-1")
    if "%2f" not in sent.lower() or STAND_IN in path:
        return None
    found = unquote(sent.replace("%2f", "%2F").replace("%2F", STAND_IN))
    if not found.replace(STAND_IN, "/").endswith(path):  # an application around this one has rewritten it
        return None
    return found[len(found) - len(path) :]


def restored(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.replace(STAND_IN, "/") if isinstance(value, str) else value for name, value in parameters.items()
    }
