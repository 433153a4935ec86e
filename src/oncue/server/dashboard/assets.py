"""Scripts and styles: read and compressed once, addressed by a digest of what they say, kept by browsers for good."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
NAMES = (
    "vendor/htmx.min.js", "vendor/idiomorph-ext.min.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css",
    "theme.js", "live.js", "charts.js", "palette.js", "dashboard.js", "jobs.js", "dashboard.css", "icon.svg",
)  # fmt: skip
FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    media_type: str
    plain: bytes
    compressed: bytes
    digest: str


@cache
def known() -> dict[str, Asset]:
    return {name: _read(name) for name in NAMES}


def _read(name: str) -> Asset:
    plain = files("oncue.server.dashboard").joinpath("static", name).read_bytes()
    media_type = MEDIA_TYPES[name[name.rindex(".") :]]
    return Asset(media_type, plain, gzip.compress(plain, mtime=0), hashlib.sha256(plain).hexdigest()[:12])


def address(name: str) -> str:
    """Where a file is, below the dashboard's prefix: another version has another address."""
    return f"/static/{known()[name].digest}/{name}"


def answer(request: Request, path: str) -> Response | None:
    """The file at this path, if any. The digest may be an old one: a page may be older than its server."""
    _, _, name = path.removeprefix("/static/").partition("/")
    asset = known().get(name)
    if asset is None:
        return None
    headers = {"Cache-Control": FOR_GOOD, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.compressed, media_type=asset.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(asset.plain, media_type=asset.media_type, headers=headers)
