"""Making a schedule and changing one, with a preview of the slots that go, stay and come. A preview writes nothing."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from oncue.errors import Conflict
from oncue.model import Schedule
from oncue.policy.durations import describe
from oncue.policy.triggers import DST_POLICIES, Rule, cron, trigger, trigger_of
from oncue.policy.windows import is_window
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.rendering import shell
from oncue.server.dashboard.schedule import next_runs
from oncue.server.dashboard.schedule_parts import complaint, page_of, part_view
from oncue.server.dashboard.schedule_terms import delivers, is_in_code, words_of
from oncue.verbs.schedules import Comparison, fires
from oncue.verbs.schedules.editing import ScheduleEdit

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

COMPARED, NEW_RUNS, MOST_CHOICES = 8, 8, 100
WEEK = timedelta(days=7)
MISSED = ("latest", "each", "none")
NUMBERS = ("priority", "max_instances", "max_retries")
OF_TASKS = ("task", "queue", "max_retries")
"""What the schedule of a webhook has not: all deliveries have it in common, or the webhook says it."""
OPTIONS = {"new_name": "rename"}
"""What the shell calls a field by another name."""


def add(dashboard: Dashboard) -> None:
    for path in ("/edit-schedule/{name:path}", "/edit-schedule"):
        dashboard.page(path, "schedule_edit.html", title="Edit a schedule", room="schedules")(_edit_page)
    dashboard.page("/new-schedule", "schedule_edit.html", title="New schedule", room="schedules")(_new_page)

    @dashboard.action("/schedules/change", needs="operate")
    async def change(deed: Deed) -> Done:
        one = await deed.app.schedules.get(deed.text("name"))
        _refuse_stale(deed, one)
        changed = await deed.app.schedules.change(one.name, **_edit(deed, one), changed_by=deed.by)
        return Done(f"{changed.name} is changed.", go=page_of(deed, changed.name))

    @dashboard.action("/schedules/create", needs="operate")
    async def create(deed: Deed) -> Done:
        made = await deed.app.schedules.create(**_new(deed), created_by=deed.by)
        return Done(f"{made.name} is made.", go=page_of(deed, made.name))

    @dashboard.action("/schedules/change-preview", needs="read")
    async def change_preview(deed: Deed) -> Done:
        try:
            told = await _compared(deed)
        except Exception as error:
            told = {"problem": complaint(error)}
        return Done("", html=_part(dashboard, deed, "schedule_compared.html", told), is_change=False)

    @dashboard.action("/schedules/create-preview", needs="read")
    async def create_preview(deed: Deed) -> Done:
        try:
            told = await _first_runs(deed)
        except Exception as error:
            told = {"problem": complaint(error)}
        return Done("", html=_part(dashboard, deed, "schedule_first_runs.html", told), is_change=False)


def _part(dashboard: Dashboard, deed: Deed, template: str, told: dict[str, Any]) -> str:
    return dashboard.renderer.part(template, {**told, "view": part_view(deed)})


# --- the forms ------------------------------------------------------------------------------------------------------


async def _edit_page(view: View) -> dict[str, Any]:
    one = await view.app.schedules.get(view.name)
    return {
        **await _choices(view), "schedule": one, "values": values_of(one), "title": f"ScheduleEdit {one.name}",
        "delivers": delivers(one), "is_in_code": is_in_code(one), "is_window": is_window(one.expression),
        "is_unknown_task": not delivers(one) and one.task not in view.app.tasks,
    }  # fmt: skip


async def _new_page(view: View) -> dict[str, Any]:
    blank = {"expression": "", "tz": "UTC", "dst": "debian", "missed": "latest", "args": ""}
    names = ("name", "expression", "tz", "task", "webhook", "args")
    asked = {name: value for name in names if (value := view.query.get(name))}
    return {
        **await _choices(view), "schedule": None, "values": {**blank, **asked}, "delivers": False, "is_in_code": False,
        "is_window": False, "is_unknown_task": False,
    }  # fmt: skip


async def _choices(view: View) -> dict[str, Any]:
    webhooks = await view.app.webhooks.list(limit=MOST_CHOICES)
    return {
        "tasks": sorted(view.app.tasks), "webhooks": [one.name for one in webhooks], "zones": _zones(),
        "dst_policies": DST_POLICIES, "missed_policies": MISSED,
    }  # fmt: skip


@cache
def _zones() -> list[str]:
    """The zones to choose from: places, and UTC."""
    return [*sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")), "UTC"]


def values_of(one: Schedule) -> dict[str, str]:
    """What the form says of a schedule as it is."""
    found = {
        "new_name": one.name, "expression": one.expression, "tz": one.tz, "dst": one.dst, "task": one.task,
        "webhook": one.group or "", "args": json.dumps(_own_args(one), ensure_ascii=False), "missed": one.missed,
        "grace": describe(one.grace), "max_instances": str(one.max_instances), "priority": str(one.priority),
        "queue": one.queue, "max_retries": str(one.max_retries), "description": one.description,
    }  # fmt: skip
    unknown = OF_TASKS if delivers(one) else ("webhook",)
    return {name: value for name, value in found.items() if name not in unknown}


def _own_args(one: Schedule) -> dict[str, Any]:
    args: dict[str, Any] = json.loads(one.args)
    return {name: value for name, value in args.items() if name != "webhook"} if delivers(one) else args


# --- what was filled in ---------------------------------------------------------------------------------------------


def _edit(deed: Deed, one: Schedule) -> ScheduleEdit:
    """What the form wants to be different. A field that still says what the schedule is asks for nothing."""
    was = values_of(one)
    given = {name: value for name, value in _given(deed) if name in was and value != was[name]}
    edit: dict[str, Any] = {"rule" if name == "expression" else name: _read(name, text) for name, text in given.items()}
    if edit.get("args") == _own_args(one):
        del edit["args"]
    return edit  # type: ignore[return-value]


def _new(deed: Deed) -> dict[str, Any]:
    """What `create` is to make. A field that is empty has its default."""
    given = {name: _read(name, value) for name, value in _given(deed) if value}
    for name in ("name", "expression"):
        if name not in given:
            raise invalid(name, "expected, and not there")
    rule = Rule(given.pop("expression"), given.pop("tz", "UTC"), given.pop("dst", "debian"))
    return {"task": None, "enabled": not given.pop("disabled", False), **given, "rule": rule}


def _given(deed: Deed) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, value in deed.fields if name not in ("csrf", "revision")]


def _read(name: str, text: str) -> Any:
    if name in NUMBERS:
        if not text.isascii() or not text.isdecimal() or len(text) > 9:
            raise invalid(name, f"expected a whole number, not {text!r:.60}")
        return int(text)
    return _arguments(text) if name == "args" else text


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise invalid("args", f'expected a JSON object such as {{"pages": 3}}; {error}') from None
    if not isinstance(found, dict):
        raise invalid("args", f"expected a JSON object, not {text!r:.60}")
    return found


def _refuse_stale(deed: Deed, one: Schedule) -> None:
    """The form was filled in for a revision. What others have changed meanwhile is not to be overwritten unseen."""
    if deed.has("revision") and deed.number("revision") != one.revision:
        raise Conflict(f"{one.name!r} was changed meanwhile, it has revision {one.revision} now: load the page again")


# --- what would come of it ------------------------------------------------------------------------------------------


async def _compared(deed: Deed) -> dict[str, Any]:
    one = await deed.app.schedules.get(deed.text("name"))
    edit = _edit(deed, one)
    found = await deed.app.schedules.preview_change(one.name, count=COMPARED, **edit)
    now = found.now
    return {
        "problem": None, "found": found, "words": words_of(found.after.expression), "in_code": is_in_code(one),
        "sides": _sides(found), "week_before": trigger_of(found.before).count(now, now + WEEK),
        "week_after": trigger_of(found.after).count(now, now + WEEK), "is_edit": bool(edit),
        "command": _edit_command(one.name, edit),
    }  # fmt: skip


def _sides(found: Comparison) -> list[dict[str, Any]]:
    """Both sides, each slot with what the edit does to it."""
    sides = (("Now", found.before, found.going, "goes"), ("After", found.after, found.coming, "new"))
    return [
        {
            "title": title,
            "tz": terms.tz,
            "runs": [
                (run, "stays" if one.stays else otherwise)
                for run, one in zip(next_runs(terms, [one.fire for one in compared]), compared, strict=True)
            ],
        }
        for title, terms, compared, otherwise in sides
    ]


def _edit_command(name: str, edit: ScheduleEdit) -> str:
    asked = {OPTIONS.get(key, key): value for key, value in edit.items()}
    if "rule" in asked:
        asked["expression"] = asked.pop("rule")
    if "args" in asked:
        asked["args"] = json.dumps(asked["args"], ensure_ascii=False)
    return shell("oncue schedules edit", name, **asked)


async def _first_runs(deed: Deed) -> dict[str, Any]:
    given = dict(_given(deed))
    if not given.get("expression"):
        return {"problem": None, "runs": None}
    rule = cron(given["expression"], tz=given.get("tz") or "UTC", dst=given.get("dst") or "debian")  # type: ignore[arg-type]
    now: datetime = await deed.app.now()
    slots = trigger(rule, now)
    return {
        "problem": None, "runs": next_runs(rule, fires(slots, rule.tz, now, NEW_RUNS)), "rule": rule,
        "words": words_of(rule.expression), "week": slots.count(now, now + WEEK), "command": _add_command(given),
    }  # fmt: skip


def _add_command(given: dict[str, str]) -> str:
    names = [given.get("name") or "NAME", given["expression"]]
    if not given.get("webhook"):
        names.append(given.get("task") or "TASK")
    known = ("name", "expression", "task")
    options = {key: value for key, value in given.items() if value and key not in known}
    for name, default in (("tz", "UTC"), ("dst", "debian"), ("missed", "latest")):
        if options.get(name) == default:
            del options[name]
    disabled = options.pop("disabled", None) is not None
    return shell("oncue schedules add", *names, **options, disabled=disabled)
