"""What can be set, all of it through the environment. oncue reads DATABASE_URL and ONCUE_… by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oncue import ConfigError


class SettingsError(ConfigError):
    """A variable has a value that makes no sense; the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    folder: Path = Path("maintenance")
    """Has a folder for each node of this host, and what `up` has started."""
    manifest: Path = Path("maintenance/manifest")
    """Shared by all nodes, on whatever hosts they are."""
    writes: float = 50.0
    """So many writes a second go to each node's store."""
    keep: int = 5
    """So many manifests are kept."""


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. A variable that is empty counts as not set. Raises SettingsError."""
    found = os.environ if environment is None else environment
    given, usual = {name: value.strip() for name, value in found.items() if value.strip()}, Settings()
    folder = Path(given.get("MAINTENANCE_FOLDER", usual.folder)).absolute()
    return Settings(
        folder=folder,
        manifest=Path(given.get("MAINTENANCE_MANIFEST", folder / "manifest")).absolute(),
        writes=_number(given, "MAINTENANCE_WRITES", usual.writes, 0, 10_000),
        keep=int(_number(given, "MAINTENANCE_KEEP", usual.keep, 1, 10_000)),
    )


def _number(given: Mapping[str, str], name: str, usual: float, least: float, most: float) -> float:
    try:
        number = float(given.get(name, usual))
    except ValueError:
        raise SettingsError(f"{name}: expected a number, not {given[name]!r:.60}") from None
    if not least <= number <= most:
        raise SettingsError(f"{name}: expected a number from {least:g} to {most:g}, not {given[name]!r:.60}")
    return number
