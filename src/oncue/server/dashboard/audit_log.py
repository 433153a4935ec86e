"""The audit log: who changed what by hand, when, and from what to what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncue.model import AuditEntry
from oncue.server.dashboard.subjects import subject_link, window_link

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

ENTRIES = 100
LOOKS, LOOK = 4, 500
"""The log is kept by its numbers, subjects and actors, not by actions. So a look for an action goes through so many
pages of so many entries, and says where it ended."""
PAGES = {"job": "/jobs", "schedule": "/schedules", "webhook": "/webhooks", "queue": "/queues"}
"""The page of a subject, by the word before its name."""
LONGEST_VALUE = 300


@dataclass(frozen=True, slots=True)
class ChangedFact:
    """One fact that an entry tells of."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry of the log."""

    entry: AuditEntry
    link: str | None
    changes: list[ChangedFact]


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/audit-log", "audit_log.html", title="Audit log", room="audit-log")
    async def audit_log(view: View) -> dict[str, Any]:
        before = view.number("before")
        asked = {name: view.text(name) for name in ("subject", "actor", "action")}
        found, older = await _found(view, before, **asked)
        options = {"subject": asked["subject"], "actor": asked["actor"], "before": before}
        return {
            "rows": [_row(view, entry) for entry in found], "older": older, "before": before, "asked": asked,
            "is_filtered": any(asked.values()), "options": options,
        }  # fmt: skip


async def _found(
    view: View, before: int | None, *, subject: str | None, actor: str | None, action: str | None
) -> tuple[Sequence[AuditEntry], int | None]:
    """The entries of a page, and the number that the next page goes on from."""
    log = view.app.audit_log
    if action is None:
        found = await log.list(subject=subject, actor=actor, before=before, limit=ENTRIES + 1)
        return found[:ENTRIES], found[ENTRIES - 1].id if len(found) > ENTRIES else None
    kept: list[AuditEntry] = []
    for _ in range(LOOKS):
        looked = await log.list(subject=subject, actor=actor, before=before, limit=LOOK)
        for entry in looked:
            before = entry.id
            if entry.action == action:
                kept.append(entry)
            if len(kept) == ENTRIES:
                return kept, before
        if len(looked) < LOOK:
            return kept, None
    return kept, before


def _row(view: View, entry: AuditEntry) -> EntryRow:
    return EntryRow(entry, _page_of(view, entry.subject), changes(entry.before, entry.after))


def _page_of(view: View, subject: str) -> str | None:
    """What was changed, where it has a page. Where the name of a window ends is not told if there are more slashes."""
    kind, _, name = subject.partition(":")
    if kind == "window" and name:
        return window_link(view, name)
    if kind == "subject" and name.count("/") == 1:
        return subject_link(view, *name.split("/"))
    page = PAGES.get(kind)
    return view.link(page, name) if page and name else None


def changes(before: Any, after: Any) -> list[ChangedFact]:
    """What was, and what became of it, fact by fact."""
    if not isinstance(before, dict | None) or not isinstance(after, dict | None):
        return [ChangedFact("", _text(before), _text(after))]
    was, becomes = before or {}, after or {}
    names = dict.fromkeys([*becomes, *was])
    return [ChangedFact(str(name), _of(was, name), _of(becomes, name)) for name in names]


def _of(facts: dict[str, Any], name: str) -> str | None:
    return _text(facts[name]) if name in facts else None


def _text(value: Any) -> str | None:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
