"""Certificates for tests, made by the openssl command: an authority, and what it signs."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


class Authority:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.certificate, "-subj", f"/CN={name}",
                 "-days", "2", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
                 "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip

    def issue(self, name: str, alternative: str = "") -> Path:
        """A certificate with its key, in one file."""
        key, asked, signed = (self.folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.folder / f"{name}.ext"
        # From Python 3.13 on certificates are checked strictly: these two have to be there.
        identifiers = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        extensions.write_text(identifiers + (f"subjectAltName={alternative}\n" if alternative else ""))
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", asked, "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", asked, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
                 "-out", signed, "-days", "2", "-extfile", extensions)  # fmt: skip
        both = self.folder / f"{name}.both.pem"
        both.write_text(signed.read_text() + key.read_text())
        return both


def server_context(folder: Path, certificate: str, clients_of: str | None = None) -> ssl.SSLContext:
    """Of a server that shows this certificate and, if told so, asks its clients for one of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / certificate)
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / clients_of)
    return context


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
