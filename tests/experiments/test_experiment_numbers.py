"""Numbers in tables equal the values up to the digits shown."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apviz.experiments.base import duration, spread

sizes = st.floats(min_value=1e-8, max_value=1e6)


@pytest.mark.parametrize(
    ("values", "digits", "shown"),
    [
        ([0.0464], 3, "0.046"),
        ([-1.0374], 3, "-1.037"),
        ([550], 0, "550"),
        ([551, 550, 552], 0, "551 ± 1"),
        ([0.045, 0.047], 3, "0.046 ± 0.001"),
        ([7.25], 1, "7.2"),
        ([0.0], 3, "0.000"),
        ([0.00123456], 3, "0.00123"),
        ([2.5e-7], 3, "2.50e-07"),
        ([], 3, "–"),
        ([math.nan], 3, "–"),
        ([1.0, math.nan], 3, "–"),
        ([math.inf], 3, "∞"),
        ([1.0, math.inf], 3, "∞"),
    ],
)
def test_a_mean_is_formatted_like_in_the_paper(values, digits, shown):
    assert spread(values, digits) == shown


@given(sizes, st.sampled_from([-1, 1]))
def test_one_value_is_shown_to_three_decimals_or_three_digits(size, sign):
    shown = float(spread([sign * size]))
    assert abs(shown - sign * size) <= (0.5001e-3 if size >= 0.01 else 0.5001e-2 * size)


@given(st.lists(st.floats(0.1, 1e3), min_size=2, max_size=6))
def test_mean_and_spread_over_seeds_agree_with_numpy(values):
    mean, deviation = map(float, spread(values).split(" ± "))
    assert mean == pytest.approx(np.mean(values), abs=0.5001e-3)
    assert deviation == pytest.approx(np.std(values, ddof=1), abs=0.5001e-3)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (13.53, "13.5 s"),
        (0.01234, "0.0123 s"),
        (0.0, "0 s"),
        (119.0, "119.0 s"),
        (120.0, "2.0 min"),
        (576.0, "9.6 min"),
        (7200.0, "2.0 h"),
        (84.5 * 3600, "84.5 h"),
        (math.nan, "–"),
    ],
)
def test_a_duration_has_the_unit_of_the_paper(seconds, shown):
    assert duration(seconds) == shown


@given(st.floats(min_value=1e-3, max_value=1e7))
def test_a_duration_can_be_read_back(seconds):
    number, unit = re.fullmatch(r"([\d.e-]+) (s|min|h)", duration(seconds)).groups()
    assert float(number) * {"s": 1, "min": 60, "h": 3600}[unit] == pytest.approx(seconds, rel=0.051)
