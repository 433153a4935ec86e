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


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "null", '{"retry":{"kind":"ladder"}}', '{"retry":7}'])
def test_options_that_cannot_be_read_are_the_defaults(text: str) -> None:
    assert options.read(text) == options.DEFAULTS


def test_an_option_of_a_newer_version_is_passed_over() -> None:
    assert options.read('{"timeout":5.0,"colour":"blue"}').timeout == 5.0
