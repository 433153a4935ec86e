"""What an application is called that was given no name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from oncue import Oncue
from oncue.application.naming import place_of
from oncue.errors import ConfigError, InvalidJob
from oncue.settings import load


@pytest.mark.parametrize(
    ("module", "file", "name"),
    [
        ("shop.jobs", "/srv/x/shop/jobs.py", "shop"),
        ("shop.mail.jobs", "/srv/x/shop/mail/jobs.py", "shop"),
        ("shop", "/srv/x/shop/__init__.py", "shop"),
        ("shop.jobs", "/venv/lib/python3.11/site-packages/shop/jobs.py", "shop"),
        ("app", "/srv/shop/app.py", "shop"),
        ("__main__", "/srv/shop/app.py", "shop"),
        ("jobs", "/srv/shop/jobs.py", "shop"),
        ("app.tasks", "/home/ann/shop/app/tasks.py", "shop"),
        ("src.app.tasks", "/home/ann/shop/src/app/tasks.py", "shop"),
        ("app", "/srv/shop/releases/20261116-120500/app.py", "shop"),
        ("app", "/srv/shop/releases/4f2a9be/app.py", "shop"),
        ("app", "/srv/shop/v1.2.3/app.py", "shop"),
        ("app", "/srv/shop/current/app.py", "shop"),
        ("app.tasks", "/app/app/tasks.py", "app"),
        ("app", "/app/app.py", "app"),
        ("app", "/app.py", "app"),
        ("app.tasks", "/venv/lib/python3.11/site-packages/app/tasks.py", "app"),
        ("shop.jobs", "/somewhere/frozen.zip", "shop"),
    ],
)
def test_it_is_called_after_the_place_of_its_code(module: str, file: str, name: str) -> None:
    assert place_of({"__name__": module, "__file__": file}) == (name, name == "shop")


def test_a_module_that_is_run_is_called_as_when_it_is_imported() -> None:
    spec = SimpleNamespace(name="shop.mail.jobs")
    assert place_of({"__name__": "__main__", "__file__": "/x/shop/mail/jobs.py", "__spec__": spec}) == ("shop", True)


def test_without_a_file_the_folder_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    assert place_of({"__name__": "__main__"}) == ("shop", True)
    (tmp_path / "shop").rmdir()
    assert place_of({"__name__": "shop.jobs", "__file__": "jobs.py"}) == ("shop", True), "the folder is gone"


WAYS = (
    ("-m", "shop.mail.jobs"),
    ("shop/mail/jobs.py",),
    ("-c", "import shop.mail.jobs"),
    ("script.py",),
)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_all_processes_of_an_application_find_the_same_name(tmp_path: Path, way: tuple[str, ...]) -> None:
    code = tmp_path / "shop" / "mail"
    code.mkdir(parents=True)
    (tmp_path / "shop" / "__init__.py").touch()
    (code / "__init__.py").touch()
    (code / "jobs.py").write_text("from oncue import Oncue\napp = Oncue()\nprint(app.name)\n")
    (tmp_path / "script.py").write_text("import shop.mail.jobs\n")
    answer = subprocess.run([sys.executable, *way], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (answer.stdout, answer.stderr) == ("shop\n", "")


def test_where_a_given_name_comes_from(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_text("name = 'file'")
    assert load(environment={}, folder=tmp_path).name == "file"
    outside = load(environment={"ONCUE_NAME": "outside"}, folder=tmp_path)
    assert Oncue(settings=outside).name == "outside"
    app = Oncue(name="code", settings=outside)
    assert (app.name, app.settings.origin("name")) == ("code", "Oncue(name=...)")
    assert Oncue(settings=load(environment={}, folder=tmp_path / "no file")).name == "tests"


def test_what_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match=r"^name: expected a printable name"):
        Oncue(name=" shop ")
    with pytest.raises(ConfigError, match=r"^ONCUE_NAME: expected a printable name"):
        load(environment={"ONCUE_NAME": "x" * 129}, folder=tmp_path)
