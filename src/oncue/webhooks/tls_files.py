"""The TLS files of webhooks: private authorities and client certificates, by name, from one directory.

A context is kept for each pair of names and made anew when a file changes. Connections are shared by context, so that
no webhook ever gets a connection that was made with another's certificate or authority.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from oncue.errors import InvalidWebhook

SETTING = "ONCUE_WEBHOOKS_TLS_DIR"
_Stamp = tuple[tuple[int, int, int], ...]


class TlsFiles:
    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._contexts: dict[tuple[str | None, str | None], tuple[_Stamp, ssl.SSLContext]] = {}

    def context(self, ca: str | None, certificate: str | None) -> ssl.SSLContext | bool:
        """For `ssl=` of a request; True is the system's authorities and no certificate."""
        if ca is None and certificate is None:
            return True
        paths = [self._path("ca", ca), self._path("certificate", certificate)]
        stamp = tuple(_stamp(path) for path in paths if path is not None)
        kept = self._contexts.get((ca, certificate))
        if kept is None or kept[0] != stamp:
            kept = self._contexts[ca, certificate] = stamp, _made(*paths)
        return kept[1]

    def _path(self, field: str, name: str | None) -> Path | None:
        if name is None:
            return None
        if self._directory is None:
            raise InvalidWebhook(field, f"{name!r:.100} is the name of a file, but {SETTING} names no directory")
        if checked_file_name(name, field) and not (self._directory / name).is_file():
            raise InvalidWebhook(field, f"there is no file {name!r} in the directory of {SETTING}")
        return self._directory / name


def checked_file_name(name: str, field: str) -> str:
    """The name of a file in the directory: no path leads out of it."""
    if not isinstance(name, str) or not 0 < len(name) <= 255 or name.startswith(".") or not name.isprintable():
        raise InvalidWebhook(field, f"expected the name of a PEM file, not {name!r:.100}")
    if "/" in name or "\\" in name:
        raise InvalidWebhook(field, f"expected the name of a PEM file in the directory of {SETTING}, without a path")
    return name


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _made(ca: Path | None, certificate: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError):
        raise InvalidWebhook("ca", f"{ca and ca.name!r} is not a PEM file with a certificate of an authority") from None
    context.set_alpn_protocols(["http/1.1"])
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, password="")  # without one, OpenSSL would ask the terminal
        except (OSError, ValueError):
            expected = "a PEM file with a certificate and its private key, unencrypted"
            raise InvalidWebhook("certificate", f"{certificate.name!r} is not {expected}") from None
    return context
