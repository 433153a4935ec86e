"""The README's own examples work as they stand."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from oncue import cron
from oncue.cli import run

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language; plain ones have none."""
    fenced = README.read_text("utf-8").split("```")[1::2]
    return [text for kind, _, text in (block.partition("\n") for block in fenced) if kind == language]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of somebody who copies the examples."""
    example = next(block for block in blocks("python") if "rebuild_catalogue" in block)
    (tmp_path / "shop.py").write_text(example)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_the_first_examples_declare_and_enqueue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    (tmp_path / "elsewhere.py").write_text(blocks("python")[1])
    subprocess.run([sys.executable, "elsewhere.py"], check=True, timeout=60)
    assert (tmp_path / "oncue.db").exists()


def test_jobs_are_enqueued_as_shown(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = next(block for block in blocks("python") if "receipt.created" in block)
    (shop / "enqueue.py").write_text(example + "\nassert (receipt.id, receipt.created) == (1, True)\n")
    subprocess.run([sys.executable, "enqueue.py"], check=True, timeout=60)


def test_every_command_that_the_readme_names_exists(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is asked for its help: a command or an option that is gone would be refused."""
    commands = {command for block in blocks("") for command in re.findall(r"(?:^|  )oncue ([a-z-]+)", block, re.M)}
    assert {"worker", "enqueue", "jobs", "retry", "set-status", "doctor"} <= commands
    for command in sorted(commands):
        assert run([command, "--help"]) == 0, (command, capsys.readouterr().err)


def test_a_wrong_argument_is_refused_as_the_readme_says(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(shop))
    declared = runpy.run_path(str(shop / "shop.py"))
    with pytest.raises(ValueError, match=r"order_id: Input should be a valid integer"):
        declared["send_invoice"].enqueue("soon")


GUIDE = README.parent / "docs" / "guide.md"


def test_the_guides_chapter_on_schedules_works_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = GUIDE.read_text("utf-8").split("\n## Schedules\n")[1].split("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", chapter, re.DOTALL)
    assert len(examples) == 2
    said = "\nassert made.next_run_at > made.created_at and slot.job_id == 1 and report.holds\n"
    (tmp_path / "guide.py").write_text("\n".join(examples) + said, "utf-8")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "guide.py"], check=True, timeout=60)


def test_every_expression_of_the_guide_is_one() -> None:
    expressions = re.findall(r'cron\("([^"]+)"', GUIDE.read_text("utf-8"))
    assert len(expressions) >= 10
    for expression in expressions:
        cron(expression)


def test_the_guides_chapter_on_groups_works_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = GUIDE.read_text("utf-8").split("\n## Groups\n")[1].split("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", chapter, re.DOTALL)
    listing, comment = example.strip().splitlines()[-2:]
    (tmp_path / "guide.py").write_text(f"{example}\nassert {listing} == {comment.removeprefix('# ')}\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "guide.py"], check=True, timeout=60)


def test_the_readmes_webhooks_are_declared_and_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = next(block for block in blocks("python") if "app.webhook(" in block)
    (tmp_path / "hooks.py").write_text(example + "\n(job,) = app.wait(app.webhooks.executions())\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "hooks.py"], check=True, timeout=60)


RECEIVED = """
from datetime import UTC, datetime
from oncue.webhooks import new_secret, sign

assert len(app.wait(app.webhooks.executions())) == 3 and receipt.created
secret = new_secret(lambda count: bytes(count))
genuine = sign(secret, str(receipt.uid), datetime.now(UTC), b"{}")
assert (receive(b"{}", genuine, secret), receive(b"[]", genuine, secret)) == (204, 401)
"""


@pytest.mark.contract("HOOK-19")
def test_the_guides_chapter_on_webhooks_works_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = GUIDE.read_text("utf-8").split("\n## Webhooks\n")[1].split("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", chapter, re.DOTALL)
    assert len(examples) == 3
    (tmp_path / "guide.py").write_text("\n".join(examples) + RECEIVED, "utf-8")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "guide.py"], check=True, timeout=60)
