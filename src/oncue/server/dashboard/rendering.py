"""Templates, and how values are shown in them.

Every text that is put into a page is escaped as markup, and characters that would act on the reader's screen are shown
instead (`observe/visible.py`): stored text is never markup.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from shlex import quote
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from oncue import __version__
from oncue.observe.visible import visible, visible_lines
from oncue.policy.durations import describe
from oncue.server.dashboard import assets

LONGEST_TEXT = 64 * 1024
"""Longer texts are cut on a page; the API has them whole."""


class Renderer:
    """All templates, compiled once."""

    def __init__(self) -> None:
        self._environment = environment()

    def page(self, template: str, told: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(told)

    part = page

    def has(self, template: str, name: str) -> bool:
        """Whether a template has a block of this name for itself."""
        return name in self._environment.get_template(template).blocks

    def block(self, template: str, name: str, told: Mapping[str, Any]) -> str:
        """One block of a template; nothing if it has none of its own."""
        found = self._environment.get_template(template)
        block = found.blocks.get(name)
        return "" if block is None else "".join(block(found.new_context(dict(told))))


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("oncue.server.dashboard"), autoescape=True, undefined=StrictUndefined, finalize=shown,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters |= {
        "instant": instant, "ago": ago, "duration": duration, "milliseconds": milliseconds, "count": count,
        "pretty": pretty, "lines": lines, "compact": compact, "asset": assets.address, "share": share,
    }  # fmt: skip
    made.globals |= {"version": __version__, "shell": shell}
    made.globals["ui"] = made.get_template("ui.html").module
    return made


def shown(value: Any) -> Any:
    """Any value on its way into a page."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else value


def lines(text: Any) -> Markup:
    """A text of several lines, as it is."""
    text = str(text)
    rest = f"\n… {len(text) - LONGEST_TEXT:,} more characters" if len(text) > LONGEST_TEXT else ""
    return escape(visible_lines(text[:LONGEST_TEXT])) + rest


def pretty(document: Any) -> Markup:
    """JSON for people."""
    return lines(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def compact(document: Any, longest: int = 120) -> str:
    """JSON on one line, cut."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _utc(moment: datetime | str) -> datetime:
    return (datetime.fromisoformat(moment) if isinstance(moment, str) else moment).astimezone(UTC)


def instant(moment: datetime | str | None, empty: str = "–") -> Markup:
    """An instant: in UTC here, in the reader's zone as soon as the script has run, with UTC as its title."""
    if moment is None:
        return Markup(f'<span class="faint">{escape(empty)}</span>')
    at = _utc(moment)
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return Markup(f'<time datetime="{at.isoformat()}" title="{text} UTC">{text} UTC</time>')


def ago(moment: datetime | str | None, empty: str = "–") -> Markup:
    """An instant as its distance from now, which the script keeps up to date."""
    if moment is None:
        return Markup(f'<span class="faint">{escape(empty)}</span>')
    at = _utc(moment)
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return Markup(f'<time datetime="{at.isoformat()}" data-ago title="{text} UTC">{text} UTC</time>')


def duration(seconds: float | timedelta | None, empty: str = "–") -> str:
    """Seconds as people say them."""
    if seconds is None:
        return empty
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if 0 < abs(total) < 1:
        return f"{total * 1000:.3g} ms"
    return describe(total) if total == int(total) else f"{total:.1f} s" if abs(total) < 60 else describe(round(total))


def milliseconds(value: float | None, empty: str = "–") -> str:
    return empty if value is None else duration(value / 1000) if value else "0 ms"


def count(number: float | None, empty: str = "–") -> str:
    """A number with its thousands apart."""
    if number is None:
        return empty
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def share(part: float, whole: float) -> str:
    return "–" if not whole else f"{100 * part / whole:.1f} %"


def chart(unit: str, at: Sequence[datetime], **series: Sequence[float | None]) -> str:
    """What a chart is drawn from, for `ui.plot`: instants in seconds, and lines by their names."""
    return json.dumps(
        {
            "unit": unit, "x": [moment.timestamp() for moment in at],
            "series": [{"label": name.replace("_", " "), "values": values} for name, values in series.items()],
        }
    )  # fmt: skip


def shell(command: str, *names: object, **options: object) -> str:
    """A command line: `shell("oncue queues limit", "mail", rate="10/s")`. Names and values are quoted; an option that
    is None or False is left out, one that is True has no value."""
    words = [command]
    for name, value in options.items():
        if value is not None and value is not False:
            flag = f"--{name.strip('_').replace('_', '-')}"
            words.append(flag if value is True else f"{flag} {quote(str(value))}")
    if any(str(name).startswith("-") for name in names):
        words.append("--")
    return " ".join([*words, *(quote(str(name)) for name in names)])
