"""What an application is called that was given no name: after the package or the folder that its code is in.

Every process of an application finds the same, whichever module it starts from: what counts is the module that makes
the `Oncue`. Names that many projects have say nothing, nor do numbers of releases; there the folder above is asked.

    /srv/shop/shop/jobs.py             shop
    /srv/shop/app.py                   shop
    /home/ann/shop/app/tasks.py        shop
    /srv/shop/releases/20261116/app.py shop
    /app/app.py                        app, which says nothing: nothing above it does either
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from oncue.policy.checks import LONGEST_NAME

_COMMON = frozenset((
    "api", "app", "application", "apps", "backend", "bin", "build", "code", "core", "current", "deploy", "dist", "home",
    "jobs", "lib", "main", "opt", "project", "projects", "python", "release", "releases", "repo", "root", "server",
    "service", "services", "site", "src", "srv", "task", "tasks", "tmp", "usr", "var", "web", "worker", "workers",
    "workspace", "www",
))  # fmt: skip
_LIBRARIES = ("site-packages", "dist-packages")
_RELEASE = re.compile(r"(?:release|rev|build|r|v)?[-_.]?\d[\dtz._-]*|(?=.*\d)[0-9a-f-]{7,}", re.IGNORECASE)


class Place(NamedTuple):
    """Where an application's code is."""

    name: str
    telling: bool
    """Whether the name tells the application from others. Many containers have their code in /app."""


def place_of(module: Mapping[str, Any]) -> Place:
    """The place of a module, by its globals."""
    name = _name(module)
    try:
        folders = list(_folders(name, module.get("__file__")))
    except OSError:  # the folder that the process is in was deleted
        folders = [name.partition(".")[0]]
    usable = [folder.strip()[:LONGEST_NAME] for folder in folders if folder.isprintable() and folder.strip()]
    found = next((folder for folder in usable if _says_something(folder)), None)
    return Place(found or (usable[0] if usable else "app"), found is not None)


def _name(module: Mapping[str, Any]) -> str:
    """`python -m shop.jobs` runs shop.jobs under another name."""
    name, spec = str(module.get("__name__", "__main__")), module.get("__spec__")
    return str(spec.name) if name == "__main__" and spec is not None else name


def _folders(module: str, file: str | None) -> Iterator[str]:
    """The package or folder that the code is in, then the folders above it."""
    top, dot, _ = module.partition(".")
    folder = Path.cwd() if file is None else Path(os.path.abspath(file)).parent
    names = [*reversed(folder.parts[1:])]
    if dot and top in names:
        names = names[names.index(top) :]
    elif dot:
        names = [top]
    else:
        names = names[_depth(folder) :]
    for name in names:
        if name in _LIBRARIES:
            return
        yield name


def _depth(folder: Path) -> int:
    """How many folders above a script its outermost package is: one that is run by its path does not know."""
    above = 0
    while (folder / "__init__.py").exists() and (folder.parent / "__init__.py").exists():
        folder, above = folder.parent, above + 1
    return above


def _says_something(name: str) -> bool:
    return name.lower() not in _COMMON and not _RELEASE.fullmatch(name)
