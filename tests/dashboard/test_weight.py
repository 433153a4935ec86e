"""What a browser has to load, and that nothing in a page is a script or a style."""

from __future__ import annotations

import re
from importlib.resources import files

from bench.server.markup import Read
from oncue.server.dashboard import assets
from oncue.server.dashboard.pages import SECURITY
from tests.dashboard.kit import HERE, Door

MOST_BYTES = 150 * 1024
HERE_ON = files("oncue.server.dashboard")


async def test_scripts_and_styles_weigh_little(story_door: Door) -> None:
    session = await story_door.session("admin")
    page = Read((await story_door.get("/", session)).text)
    addresses = {value for tag, value in page.addresses if tag in ("script", "link")}
    assert addresses == {assets.address(name) for name in assets.NAMES}, "what is listed is loaded, and nothing else"
    total = 0
    for address in addresses:
        reply = await story_door.client.send(
            story_door.client.build_request("GET", f"{HERE}{address}", headers={"Accept-Encoding": "gzip"}), stream=True
        )
        raw = b"".join([chunk async for chunk in reply.aiter_raw()])
        assert reply.headers["content-encoding"] == "gzip"
        assert "immutable" in reply.headers["cache-control"]
        total += len(raw)
    assert total <= MOST_BYTES, f"{total:,} bytes"


def test_every_file_that_is_served_is_listed() -> None:
    def names(folder: str) -> set[str]:
        found = set()
        for one in HERE_ON.joinpath("static", folder).iterdir():
            found |= names(f"{folder}{one.name}/") if one.is_dir() else {f"{folder}{one.name}"}
        return {name for name in found if name.endswith((".js", ".css", ".svg"))}

    assert names("") == set(assets.NAMES)


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    policy = dict(part.strip().partition(" ")[::2] for part in SECURITY["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in SECURITY["Content-Security-Policy"]
    assert "http" not in SECURITY["Content-Security-Policy"]


INLINE = re.compile(
    r"""<script(?![^>]*\bsrc=)|<style\b|\sstyle\s*=|\son[a-z]+\s*=|\shx-on|data-hx-on|javascript:|\shx-vals|\shx-vars|"""
    r"""\|\s*safe\b|autoescape\s+false|hx-disable-csp|hx-headers(?!='\{"X-CSRF-Token")""",
    re.IGNORECASE,
)


def test_no_template_has_a_script_a_style_or_a_text_that_is_not_escaped() -> None:
    for one in HERE_ON.joinpath("templates").iterdir():
        text = re.sub(r"\{%.*?%\}", "", one.read_text("utf-8"), flags=re.DOTALL)
        found = [text[max(match.start() - 30, 0) : match.end() + 30] for match in INLINE.finditer(text)]
        assert not found, f"{one.name}: {found}"


UNQUOTED = re.compile(r"""=\{\{|=\s*[^"'\s>{]*\{\{""")


def test_every_attribute_of_a_template_is_quoted() -> None:
    """A text with a space in it would begin another attribute."""
    for one in HERE_ON.joinpath("templates").iterdir():
        for tag in re.findall(r"<[a-zA-Z][^<>]*>", one.read_text("utf-8")):
            found = UNQUOTED.findall(tag)
            assert not found, f"{one.name}: {tag}"


MAKES_MARKUP = re.compile(r"insertAdjacentHTML|outerHTML\s*=|innerHTML\s*=|document\.write|\beval\(|new Function")


def test_scripts_make_no_markup_of_texts() -> None:
    """What a script shows it shows as text. The one place that takes markup is `put`, for what our pages send."""
    for name in assets.NAMES:
        if name.endswith(".js") and not name.startswith("vendor/"):
            text = HERE_ON.joinpath("static", name).read_text("utf-8")
            found = re.findall(
                r"insertAdjacentHTML|outerHTML\s*=|innerHTML\s*=|document\.write|\beval\(|new Function", text
            )
            assert not found, f"{name}: {found}"
