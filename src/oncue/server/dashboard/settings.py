"""The settings as they are in force, where each comes from, and what the doctor finds."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.clock import wall
from oncue.doctor.checks import declared
from oncue.doctor.effective import value_of
from oncue.doctor.examining import examine, unknown_variables
from oncue.doctor.findings import Check
from oncue.policy.words import plural
from oncue.server.api.problems import AWAY, Problem
from oncue.server.dashboard import access
from oncue.server.dashboard.deeds import Deed, Done
from oncue.store.addresses import hidden
from oncue.store.statements import DEFAULT_SCHEMA, migrations

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

SAMPLE = 1000
"""Of the jobs that wait, and of those that run, the doctor looks at so many here: less than in the shell, since this
process has other work."""
WORST_FIRST = {"fail": 0, "warn": 1, "ok": 2}
OF_TOKENS = "tokens"
"""The check that names tokens: only for visitors who may list them."""


class SettingRow(NamedTuple):
    """A setting in force."""

    name: str
    value: str
    origin: str
    is_set: bool
    """Whether it is not left at its default."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What the doctor found, and when."""

    at: datetime
    checks: list[Check]


class Doctor:
    """Runs the checks when it is asked to, at most once at a time. Every tab sees what was found last."""

    def __init__(self) -> None:
        self.latest: Examination | None = None
        self._is_running = False

    async def examine(self, app: Oncue) -> Examination:
        if self._is_running:
            raise Problem(AWAY, "The doctor is at work already: its findings appear here in a moment.")
        self._is_running = True
        try:
            found = [declared(app), *unknown_variables(os.environ), *await examine(app, sample=SAMPLE)]
            self.latest = Examination(wall(), sorted(found, key=lambda check: WORST_FIRST[check.status]))
            return self.latest
        finally:
            self._is_running = False


def add(dashboard: Dashboard) -> None:
    doctor = Doctor()
    access.add(dashboard)

    @dashboard.page("/settings", "settings.html", title="Settings", room="settings", every=10.0)
    async def settings(view: View) -> dict[str, Any]:
        part = (view.text("part") or "").lower()
        rows = [row for row in setting_rows(view.app) if part in row.name or part in row.value.lower()]
        wanted = rows if view.text("all") or part else [row for row in rows if row.is_set]
        return {"rows": wanted, "part": part, "left_out": len(rows) - len(wanted), **await _facts(view)}

    @dashboard.page("/settings/doctor", "doctor.html", title="Doctor", room="settings")
    async def findings(view: View) -> dict[str, Any]:
        return {"examination": None if doctor.latest is None else _for(view, doctor.latest)}

    @dashboard.action("/settings/doctor", needs="operate", is_long=True)
    async def run_doctor(deed: Deed) -> Done:
        found = await doctor.examine(deed.app)
        return Done(verdict(found.checks))


def verdict(checks: list[Check]) -> str:
    """All of it in a sentence, as the shell says it."""
    failed = sum(check.status == "fail" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    if failed:
        return f"{plural(failed, 'check')} failed."
    return f"{plural(warned, 'warning')}." if warned else "All is well."


def _for(view: View, found: Examination) -> dict[str, Any]:
    """What a visitor may see of it."""
    checks = [
        Check(check.name, check.status, hidden(check.detail), hidden(check.advice))
        for check in found.checks
        if check.name != OF_TOKENS or view.may("admin")
    ]
    return {"at": found.at, "checks": checks, "verdict": verdict(checks)}


def setting_rows(app: Oncue) -> list[SettingRow]:
    found = []
    for name in app.settings.names():
        value, origin = value_of(app.settings, name), app.settings.origin(name)
        text = "–" if value is None or value == "" else str(value).lower() if isinstance(value, bool) else str(value)
        found.append(SettingRow(name, text, origin, origin != "default" or name == "database_url"))
    return found


async def _facts(view: View) -> dict[str, Any]:
    """Versions, and what the tables are."""
    store = (await view.app.internals.connected()).store
    async with asyncio.timeout(2.0):
        owner = await store.application.owner()
    known = migrations(store.dialect)
    is_sqlite = store.dialect == "sqlite"
    return {
        "dialect": "SQLite" if is_sqlite else "PostgreSQL", "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version if is_sqlite else None, "application": view.app.name,
        "schema": None if is_sqlite else view.app.settings.schema or DEFAULT_SCHEMA, "migration": known[-1].name,
        "migrations": len(known), "owner": owner.name if owner is not None else None,
        "database": value_of(view.app.settings, "database_url"),
    }  # fmt: skip
