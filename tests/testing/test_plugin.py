"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import pytest

from oncue.cli.root import cli

pytest_plugins = ["pytester"]

# pytester forgets the modules that are first imported inside a test. The shell's would then be there twice, and tests
# that come later would not know the errors of the second as those of the first.
cli()

# Without the plugins of others: each takes longer to import, in every one of these runs, than all of ours.
QUICK = [
    part for name in ("hypothesispytest", "schemathesis", "xdist", "anyio", "timeout") for part in ("-p", f"no:{name}")
]

SHOP = """
    from oncue import Oncue

    app = Oncue("postgresql://nobody@nowhere.invalid/nothing")

    @app.task
    def send(to: str) -> str:
        return f"sent to {to}"
"""

TEST = """
    from shop import send

    def test_sending(oncue):
        send.enqueue("ada")
        oncue.assert_enqueued(send, "ada")
        assert oncue.drain() == {"succeeded": 1}

    def test_every_test_begins_empty(oncue):
        assert oncue.jobs() == []
"""


@pytest.fixture
def shop(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP)
    pytester.syspathinsert()
    return pytester


def test_the_application_is_found_by_the_ini_option(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\noncue_app = shop:app")
    shop.makepyfile(test_shop=TEST)
    shop.runpytest(*QUICK, "-W", "error").assert_outcomes(passed=2)


def test_the_application_is_found_by_a_fixture(shop: pytest.Pytester) -> None:
    shop.makeconftest("""
        import pytest
        import shop

        @pytest.fixture
        def oncue_app():
            return shop.app
    """)
    shop.makepyfile(test_shop=TEST)
    shop.runpytest(*QUICK, "-W", "error").assert_outcomes(passed=2)


def test_a_run_without_an_application_is_not_disturbed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_something_else(): pass")
    pytester.runpytest(*QUICK, "-W", "error").assert_outcomes(passed=1)


def test_the_fixture_without_an_application_says_what_to_do(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(oncue): pass")
    result = pytester.runpytest(*QUICK)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*which application is under test? set `oncue_app = module:app`*"])


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        (":app", "expected the place of an application, such as shop.jobs:app, not ':app'"),
        ("shops:app", "there is no module 'shops'"),
        ("shop:applet", "the module shop has no 'applet'"),
        ("shop:send", "shop:send is Task, not Oncue"),
    ],
)
def test_a_wrong_place_is_explained(shop: pytest.Pytester, place: str, complaint: str) -> None:
    shop.makeini(f"[pytest]\noncue_app = {place}")
    shop.makepyfile("def test_it(oncue): pass")
    result = shop.runpytest(*QUICK)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*oncue_app: *{complaint}*"])


def test_an_import_error_inside_the_application_is_shown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(shop="import not_installed_here")
    pytester.syspathinsert()
    pytester.makeini("[pytest]\noncue_app = shop:app")
    pytester.makepyfile("def test_it(oncue): pass")
    result = pytester.runpytest(*QUICK)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*No module named 'not_installed_here'*"])


def test_the_assertion_points_at_the_test_and_not_into_the_kit(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\noncue_app = shop:app")
    shop.makepyfile("""
        from shop import send

        def test_it(oncue):
            oncue.assert_enqueued(send, "ada")
    """)
    result = shop.runpytest(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: no job send(to='ada') was enqueued; nothing was enqueued at all"])
    result.stdout.no_fnmatch_line("*expected.matches*")
