from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.policy import options
from oncue.policy.options import Options, read
from oncue.policy.retry import Exponential, Ladder

limits = st.none() | st.floats(0, 1e9)
policies = st.builds(
    Exponential, base=st.floats(0, 1e6), factor=st.floats(1, 9), cap=st.floats(0, 1e6), jitter=st.floats(0, 1)
) | st.lists(st.floats(0, 1e6), min_size=1, max_size=5).map(lambda steps: Ladder(*steps))


@given(
    st.builds(
        Options,
        delivery=st.sampled_from(["at_least_once", "at_most_once"]),
        timeout=limits,
        max_runtime=limits,
        retry=policies,
    )
)
def test_options_survive_storage(made: Options) -> None:
    assert read(made.stored()) == made


def test_a_job_is_delivered_at_least_once_unless_told_otherwise() -> None:
    assert Options().delivery == "at_least_once"


@pytest.mark.parametrize(
    ("timeout", "max_runtime", "longest"),
    [(None, None, None), (30.0, None, 30.0), (None, 60.0, 60.0), (30.0, 60.0, 30.0), (90.0, 60.0, 60.0)],
)
def test_an_attempt_ends_at_the_nearest_limit(
    timeout: float | None, max_runtime: float | None, longest: float | None
) -> None:
    assert options.longest(Options(timeout=timeout, max_runtime=max_runtime).stored()) == longest


def test_the_same_text_is_read_once() -> None:
    text = Options(timeout=7.0).stored()
    assert read(text) is read(text)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "null"])
def test_a_job_whose_options_cannot_be_read_is_not_run_twice(text: str) -> None:
    assert read(text) == Options(delivery="at_most_once")


@pytest.mark.parametrize("retry", ['{"kind":"ladder"}', '{"kind":"fibonacci"}', "7", "[]"])
def test_an_unknown_policy_leaves_the_rest_as_it_is(retry: str) -> None:
    assert read(f'{{"delivery":"at_most_once","timeout":5.0,"retry":{retry}}}') == Options("at_most_once", 5.0)


@pytest.mark.parametrize("told", ['"timeout":"30s"', '"timeout":-1', '"max_runtime":[]', '"colour":"blue"'])
def test_what_is_not_understood_takes_its_default(told: str) -> None:
    assert read("{" + told + "}") == options.DEFAULTS


def test_an_unknown_delivery_is_taken_for_the_careful_one() -> None:
    assert read('{"delivery":"exactly_once"}').delivery == "at_most_once"
