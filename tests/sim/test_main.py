"""`python -m oncue.sim`: what is typed."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from oncue.sim.__main__ import seeds, writable


def test_seeds_are_one_or_a_range() -> None:
    assert (seeds("7"), seeds("0-2")) == (range(7, 8), range(3))


@pytest.mark.parametrize("text", ["", "some", "-1", "5-3"])
def test_no_seed_at_all_is_no_good_news(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a seed, or a range of them such as 0-199"):
        seeds(text)


def test_a_history_that_cannot_be_written_is_told_before_the_seeds_are_lived(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a file that can be written; No such file"):
        writable(str(tmp_path / "nowhere" / "history"))
