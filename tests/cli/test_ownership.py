"""Whose tables these are, as the shell tells it: the refusal of a worker, `oncue migrate --rename`, `oncue doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Shell, Start

PROJECT = """
from oncue import Oncue
app = Oncue()

@app.task
def send(number: int) -> None:
    if {fails}:
        raise RuntimeError("the wrong code")
"""


def project(folder: Path, name: str, *, fails: bool = False) -> Path:
    """Two projects have little to tell them apart: the same file, the same task, no settings but a database."""
    (folder / name).mkdir()
    (folder / name / "app.py").write_text(PROJECT.format(fails=fails))
    return folder / name


def test_a_second_project_on_the_same_database_is_refused(
    oncue: Shell, start: Start, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is set but DATABASE_URL."""
    shop, blog = project(tmp_path, "shop"), project(tmp_path, "blog", fails=True)
    monkeypatch.setenv("DATABASE_URL", database_url)
    first = start(database_url, "worker", "--app", "app:app", folder=shop)
    first.says("is working on")
    second = start(database_url, "worker", "--app", "app:app", folder=blog)
    assert second.ends() == 2
    (line,) = [line for line in second.said.splitlines() if line.startswith("oncue: ")]
    assert "the tables of this database belong to the application 'shop'" in line
    assert "called after the place of its code 'blog'" in line
    assert "ONCUE_NAME=shop" in line
    assert ("ONCUE_SCHEMA" if "postgres" in database_url else "sqlite:///") in line
    third = start(database_url, "worker", "--app", "app:app", folder=blog, ONCUE_NAME="shop")
    third.says("is working on")


def test_a_file_that_is_moved_or_run_is_the_same_application(start: Start, sqlite_url: str, tmp_path: Path) -> None:
    shop = project(tmp_path, "shop")
    start(sqlite_url, "worker", "--app", "app:app", folder=shop).says("is working on")
    (shop / "app.py").rename(shop / "jobs.py")
    start(sqlite_url, "worker", "--app", "jobs:app", folder=shop).says("is working on")


def test_an_operator_renames_the_application_of_the_tables(
    oncue: Shell, shop: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert oncue("migrate", "--json").json["application"] is None
    worker = start(shop, "worker", ONCUE_NAME="orders")
    worker.says("is working on")
    assert oncue("migrate", "--json").json["application"] == "orders"
    refused = start(shop, "worker", ONCUE_NAME="sales")
    assert refused.ends() == 2
    assert "`oncue migrate --rename sales`" in refused.said
    assert "The tables belong to the application sales." in oncue("migrate", "--rename", "sales").out
    assert oncue("migrate", "--rename", "sales").code == 0
    start(shop, "worker", ONCUE_NAME="sales").says("is working on")
    (line,) = oncue("audit-log", "--json").json
    assert (line["action"], line["subject"]) == ("application.rename", "application")
    assert (line["before"], line["after"]) == ({"name": "orders"}, {"name": "sales"})
    answer = oncue("migrate", "--rename", " ")
    assert (answer.code, answer.err.startswith("oncue: --rename: expected a printable name")) == (2, True)


def test_doctor_says_whose_tables_these_are(oncue: Shell, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> tuple[str, str]:
        (found,) = [check for check in oncue("doctor", "--json").json["checks"] if check["name"] == "owner"]
        return found["status"], found["detail"]

    oncue("migrate")
    assert check() == ("ok", "the tables belong to no application yet: its first worker takes them")
    oncue("migrate", "--rename", "orders")
    assert check() == ("fail", "the tables belong to the application orders, and this application is called tests")
    monkeypatch.setenv("ONCUE_NAME", "orders")
    assert check() == ("ok", "the tables belong to the application orders")
    monkeypatch.delenv("ONCUE_NAME")
    monkeypatch.delenv("ONCUE_APP")
    assert check() == ("ok", "the tables belong to the application orders"), "an operator without an application"


def test_an_enqueue_under_another_name_is_refused(oncue: Shell, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oncue("migrate", "--rename", "orders")
    monkeypatch.setenv("ONCUE_NAME", "blog")
    answer = oncue("enqueue", "add", "a=1")
    assert (answer.code, "belong to the application 'orders'" in answer.err) == (2, True)
    assert oncue("jobs").code == 0, "an operator may look"
