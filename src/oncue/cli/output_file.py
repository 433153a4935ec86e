"""Where a command leaves a file: all of it or nothing, and nothing before it is done."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class OutputFile:
    """A file to be written in the end. What was there before stays until then."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if it could not be written now."""
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._is_device = path.exists() and not path.is_file()
        self._path = path if self._is_device else path.resolve()
        self._draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        if self._path.exists():
            self._path.open("a").close()
        if not self._is_device:
            self._draft.open("x").close()
            self._draft.unlink()

    def write(self, text: str) -> None:
        if self._is_device:  # nobody would want another file instead of /dev/stdout
            self._path.write_text(text, "utf-8")
            return
        try:
            self._draft.write_text(text, "utf-8")
            self._draft.replace(self._path)
        finally:
            self._draft.unlink(missing_ok=True)
