"""Whether tables are an application's own."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from oncue.model import Owner
from oncue.policy.ownership import ApplicationName, brings_name, is_owner, refusal

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def named(name: str, place: str = "app") -> ApplicationName:
    return ApplicationName(name, True, place)


def unnamed(place: str) -> ApplicationName:
    return ApplicationName(place, False, place)


@pytest.mark.parametrize(
    ("name", "given", "application", "same"),
    [
        ("orders", True, named("orders"), True),
        ("orders", True, named("blog"), False),
        ("orders", True, named("blog", place="orders"), False),
        ("orders", True, unnamed("orders"), True),
        ("orders", True, unnamed("blog"), False),
        ("shop", False, unnamed("shop"), True),
        ("shop", False, unnamed("blog"), False),
        ("shop", False, named("orders", place="shop"), True),
        ("shop", False, named("shop", place="elsewhere"), True),
        ("shop", False, named("blog", place="blog"), False),
    ],
)
def test_whose_tables_these_are(name: str, given: bool, application: ApplicationName, same: bool) -> None:
    owner = Owner(name, given, NOW)
    assert is_owner(owner, application) is same
    assert brings_name(owner, application) is (application.given and not given)


def test_a_refusal_names_both_and_the_ways_out() -> None:
    text = refusal(Owner("orders", True, NOW), named("blog"), own_tables="a schema")
    assert "belong to the application 'orders', and this application is called 'blog'" in text
    assert "tables of its own (a schema)" in text
    assert "ONCUE_NAME=orders" in text
    assert "oncue migrate --rename blog" in text
    assert "has no name, and is called after the place of its code 'x'" in refusal(
        Owner("orders", True, NOW), unnamed("x"), own_tables="a file"
    )
