"""The options that say what a webhook is, and how they are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from oncue.cli import values

STDIN = "-"
SECRET_HELP = (
    "Signs requests; repeat it. env:ONCUE_SECRET_… is read by workers from their environment, - reads the standard "
    "input; a whsec_… that is typed here stays in the shell's history."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The webhook.", show_default=False)]
Method = Annotated[str | None, typer.Option("--method", metavar="METHOD", help="POST unless given.")]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="Repeat it; a value may be env:ONCUE_SECRET_…."),
]
ContentType = Annotated[
    str | None, typer.Option("--content-type", metavar="TYPE", help="application/json if not given.")
]
Body = Annotated[
    str | None, typer.Option("--body", metavar="TEMPLATE", help="With {{payload.field}}, {{id}} and such.")
]
BodyFile = Annotated[str | None, typer.Option("--body-file", metavar="FILE", help="The template; - is standard input.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="Of one attempt: 1s to 60s, 30s.")]
Secrets = Annotated[list[str] | None, typer.Option("--secret", metavar="SECRET", help=SECRET_HELP)]
Retry = Annotated[
    str | None, typer.Option("--retry", metavar="WAITS", help="'30s,2m,10m': before each further attempt; 'none'.")
]
Redirects = Annotated[int | None, typer.Option("--redirects", help="So many are followed, at most 5; none by default.")]
Ca = Annotated[str | None, typer.Option("--ca", metavar="FILE", help="A private CA, in ONCUE_WEBHOOKS_TLS_DIR.")]
Certificate = Annotated[
    str | None, typer.Option("--certificate", metavar="FILE", help="Its client certificate, in ONCUE_WEBHOOKS_TLS_DIR.")
]
Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")]
Payload = Annotated[str | None, typer.Option("--payload", metavar="JSON", help="A JSON value; - is standard input.")]
PayloadFile = Annotated[str | None, typer.Option("--payload-file", metavar="FILE", help="A file with a JSON value.")]


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were typed, by the names that the verbs have for them."""
    taken = {name: value for name, value in fields.items() if value is not None}
    if "timeout" in taken:
        taken["timeout"] = values.duration(taken["timeout"], "--timeout")
    return taken


def headers(texts: Sequence[str]) -> dict[str, str]:
    """`Name: value` as people type it. A complaint never repeats a value: it may be a secret."""
    found: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise typer.BadParameter(f"header {number}: expected 'Name: value'", param_hint="--header")
        if name.strip().lower() in (known.lower() for known in found):
            raise typer.BadParameter(f"{name.strip()} is there twice", param_hint="--header")
        found[name.strip()] = value.strip()
    return found


def secrets(texts: Sequence[str]) -> list[str]:
    """The signing secrets. `-` stands for all lines of the standard input."""
    found: list[str] = []
    for text in texts:
        read = sys.stdin.read().split() if text == STDIN else [text.strip()]
        if not read:  # a webhook that is not signed by mistake is worse than a complaint
            raise typer.BadParameter("expected a secret on the standard input, which is empty", param_hint="--secret")
        found += read
    return found


def ladder(text: str) -> list[str]:
    """`30s,2m,10m`; `none` for a single attempt."""
    return [] if text.strip() == "none" else [values.duration(step.strip(), "--retry") for step in text.split(",")]


def body(text: str | None, file: str | None) -> str | None:
    if text is not None and file is not None:
        raise typer.BadParameter("give either --body or --body-file, not both", param_hint="--body-file")
    return text if file is None else _read(file, "--body-file")


def payload(text: str | None, file: str | None) -> Any:
    """What is delivered; None if nothing was given."""
    if text is not None and file is not None:
        raise typer.BadParameter("give either --payload or --payload-file, not both", param_hint="--payload-file")
    option = "--payload" if file is None else "--payload-file"
    place = file if file is not None else STDIN if text == STDIN else None
    said = text if place is None else _read(place, option)
    if said is None:
        return None
    try:
        return json.loads(said)
    except ValueError as error:
        wanted = "expected JSON, such as '{\"order\": 7}' (a text in quotation marks)"
        raise typer.BadParameter(f"{wanted}; {error}", param_hint=option) from None


def _read(file: str, option: str) -> str:
    if file == STDIN:
        return sys.stdin.read()
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"expected a file; {file}: {reason}", param_hint=option) from None
