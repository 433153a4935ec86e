"""The manifest: which segment of which node is the current one. The leader publishes one after each compaction.

A generation is a file of its own, made by one atomic step that fails if the file is there: of two leaders that publish
at once (a new one, and an old one that was fenced and does not know it) one comes first. A generation carries the uid
of its job, which is the same for each attempt: what is published again under the same uid is there already.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CURRENT = "MANIFEST.json"


def publish(
    folder: Path, uid: str, told: Mapping[str, Any], segments: Mapping[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Publish what the nodes have come to, once for this uid. The generation, and whether it was made here.

    A node that is not among the segments keeps those of the generation before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        # In this order: a generation that another process makes after the first look takes the number that is tried.
        before = latest(folder)
        published = _of(folder, uid)
        if published is not None:
            _point(folder)
            return published, False
        number = 1 if before is None else before["generation"] + 1
        fresh = {name: {**segment, "generation": number} for name, segment in segments.items()}
        kept = {} if before is None else before["segments"]
        made = {"generation": number, "uid": uid, **told, "segments": {**kept, **fresh}}
        if _create(folder, number, made):
            _point(folder)
            return made, True


def latest(folder: Path) -> dict[str, Any] | None:
    """The newest generation."""
    paths = generations(folder)
    return _read(paths[-1]) if paths else None


def generations(folder: Path) -> list[Path]:
    """All that are kept, oldest first."""
    return sorted(folder.glob("manifest-*.json"))


def evict(folder: Path, keep: int) -> list[str]:
    """Remove all generations but the newest ones; the names of those removed."""
    removed = generations(folder)[:-keep]
    for path in removed:
        path.unlink(missing_ok=True)
    return [path.name for path in removed]


def _of(folder: Path, uid: str) -> dict[str, Any] | None:
    """The generation that was published under this uid."""
    found = (_read(path) for path in reversed(generations(folder)))
    return next((generation for generation in found if generation["uid"] == uid), None)


def _create(folder: Path, number: int, content: Mapping[str, Any]) -> bool:
    """Make the file of a generation, whole, unless another process was quicker."""
    unfinished = _written(folder, content)
    try:
        os.link(unfinished, folder / f"manifest-{number:08}.json")
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
    return True


def _point(folder: Path) -> None:
    """Let MANIFEST.json be the newest generation, also if another process publishes at the same time."""
    while True:
        newest = latest(folder)
        assert newest is not None
        _written(folder, newest).replace(folder / CURRENT)
        if latest(folder) == newest:
            return


def _written(folder: Path, content: Mapping[str, Any]) -> Path:
    """A new file with this content, which has reached the disk."""
    handle, name = tempfile.mkstemp(dir=folder, suffix=".unfinished")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content
