"""The examples of docs/api.md work as they stand, but for the address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncue.server.api import AccessMode
from oncue.settings import load
from tests.client.conftest import Aside, Shop
from tests.server.test_docs import blocks


def test_both_examples(
    aside: Aside, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declared: dict[str, Any] = {}
    exec(next(block for block in blocks("python") if "@app.task" in block), declared)
    declared["app"].configure(load({"database_url": sqlite_url}, environment={}, folder=tmp_path))
    shop = Shop(aside, declared["app"], AccessMode.LOOPBACK)
    monkeypatch.setenv("ONCUE_URL", shop.url)
    plain, awaited = (block for block in blocks("python") if "Client" in block)
    exec(plain.replace('"https://jobs.example", token="oncue_…", ', ""), {})
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("scheduled ")
    assert told[1] == "job 1 is scheduled: only finished jobs are retried"
    exec(awaited, {})
    assert capsys.readouterr().out == "queued\n"
