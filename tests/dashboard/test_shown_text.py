"""Texts that others wrote, as they are seen in a page."""

from __future__ import annotations

import pytest

from bench.server.markup import Read
from oncue.server.dashboard.rendering import Renderer, compact, environment, pretty, shell

INVISIBLE = "a\u202eb\u200bc\x1b[31md\x07\u2028e\ufeff"
SEEN = r"a\u202eb\u200bc\x1b[31md\x07\u2028e\ufeff"


@pytest.mark.parametrize(
    "template",
    ["{{ text }}", "<b title=\"{{ text }}\">{{ text }}</b>", "{{ text | lines }}", "{{ [text] | pretty }}",
    "{{ ui.badge(text) }}",
     "{{ ui.command(text) }}", "{{ ui.empty(text, text, text) }}", "{{ ui.figure(text, text, text, '/', text) }}"],
)  # fmt: skip
def test_characters_that_would_act_on_the_screen_are_shown(template: str) -> None:
    page = environment().from_string(template).render(text=INVISIBLE)
    assert page.isprintable() or page.replace("\n", "").isprintable(), ascii(page)
    assert r"\u202e" in page
    assert r"\u200b" in page


def test_a_text_is_shown_as_it_is_otherwise() -> None:
    page = environment().from_string("{{ text }}").render(text="ünïcode 中 \U0001f680 <b>&amp;")
    assert Read(page).words == "ünïcode 中 \U0001f680 <b>&amp;"
    assert not Read(page).elements


def test_documents_keep_their_lines_and_nothing_else() -> None:
    shown = pretty({"a\u202e<b>": ["\x1b", "</pre>"]})
    assert Read(str(shown)).elements == []
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert shown.count("\n") == 5
    assert compact({"a": "x" * 500}).endswith("…")


def test_a_very_long_text_is_cut() -> None:
    page = environment().from_string("{{ text | lines }}").render(text="x" * 1_000_000)
    assert len(page) < 70_000
    assert page.endswith("more characters")


@pytest.mark.parametrize(
    "name", ["a b", "$(reboot)", "`reboot`", "; reboot", "-rf", "a'b", 'a"b', "a\nb", "!!", "~", "*"]
)
def test_a_command_can_be_pasted_whatever_a_name_is(name: str) -> None:
    import shlex

    words = shlex.split(shell("oncue queues pause", name, by=name))
    assert words[:3] == ["oncue", "queues", "pause"]
    assert words.count(name) == 2
    if name.startswith("-"):
        assert words[-2] == "--"


def test_every_template_can_be_read() -> None:
    made = environment()
    for name in made.list_templates():
        if name.endswith(".html"):
            made.get_template(name)
    assert made.autoescape is True
    Renderer()
