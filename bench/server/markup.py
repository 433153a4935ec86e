"""What a page of the dashboard is made of, and where it leads: for benchmarks, `make fuzz` and tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

LINKS = {("a", "href"), ("tr", "data-href"), ("form", "action"), ("form", "hx-post"), ("form", "hx-get"),
         ("link", "href"), ("script", "src"), ("img", "src"), ("button", "formaction")}  # fmt: skip
IS_SAFE = re.compile(r"(/(?![/\\])|\?|#|https?://)\S*", re.ASCII)


@dataclass
class Form:
    """A form with the values that it is sent with."""

    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    has_button: bool = False
    """Whether it can be sent by a click."""


class Read(HTMLParser):
    """The elements of a page, in their order, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[tuple[str, str]] = []
        """Of links, forms, scripts and pictures, each with the name of its element."""
        self.forms: list[Form] = []
        self.inline: list[str] = []
        """What a strict policy forbids: scripts and styles that stand in the page."""
        self.text: list[str] = []
        self.others: list[str] = []
        """Comments, declarations and the like."""
        self._select: str | None = None
        self._script: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    @property
    def words(self) -> str:
        return "".join(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.elements.append((tag, tuple(sorted(name for name, _ in attrs))))
        self.addresses += [(tag, value or "") for name, value in attrs if (tag, name) in LINKS]
        self.inline += [
            f"<{tag} {name}>" for name in known if name.startswith(("on", "hx-on", "data-hx-on")) or name == "style"
        ]
        if tag == "style" or (tag == "script" and "src" not in known):
            self.inline.append(f"<{tag}>")
        self._note_form(tag, known)

    def _note_form(self, tag: str, known: dict[str, str | None]) -> None:
        if tag == "form":
            method = "get" if "hx-get" in known else "post" if "hx-post" in known else known.get("method") or "get"
            action = known.get("hx-post") or known.get("hx-get") or known.get("action") or ""
            self.forms.append(Form(method.lower(), action))
        elif "hx-post" in known or "hx-get" in known:
            method = "post" if "hx-post" in known else "get"
            self.forms.append(Form(method, known.get("hx-post") or known.get("hx-get") or ""))
        name = known.get("name")
        if tag == "select":
            self._select = name
        if not self.forms:
            return
        if tag == "button" and known.get("type", "submit") == "submit":
            self.forms[-1].has_button = True
        fields = self.forms[-1].fields
        is_box = (known.get("type") or "").lower() in ("checkbox", "radio")
        if tag == "option" and self._select and ("selected" in known or self._select not in dict(fields)):
            fields[:] = [(key, value) for key, value in fields if key != self._select]
            fields.append((self._select, known.get("value") or ""))
        elif name and tag in ("input", "button", "textarea") and (not is_box or "checked" in known):
            fields.append((name, known.get("value") or ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.others.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.others.append(decl)

    def handle_pi(self, data: str) -> None:
        self.others.append(f"instruction {data}")

    def unknown_decl(self, data: str) -> None:
        self.others.append(f"declaration {data}")

    def unsafe(self) -> list[str]:
        """Addresses that are neither ours nor a web page's."""
        return [f"<{tag}> {value!r}" for tag, value in self.addresses if value and not IS_SAFE.fullmatch(value)]


def leading_on(page: Read, address: str, prefix: str = "") -> Iterator[str]:
    """Where a page leads by GET, below the prefix, without fragments; other sites are left out."""
    asked = [value for tag, value in page.addresses if tag in ("a", "tr") and value]
    asked += [f"{one.action}?{urlencode(one.fields)}" for one in page.forms if one.method == "get"]
    for one in asked:
        found = urlsplit(urljoin(f"{prefix}{address}", one))
        if not found.netloc and found.path.startswith(f"{prefix}/"):
            path = found.path.removeprefix(prefix)
            yield f"{path}?{found.query}" if found.query else path
