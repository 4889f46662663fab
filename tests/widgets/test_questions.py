"""Statements of the widgets on single questions, in Python: their presets and texts say what is true."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

from apviz.widgets import EarlyStopping, Forecast, PositiveDefinite, SamplePaths, Zigzag


@pytest.mark.parametrize("angle", [6, 20, 40])
def test_half_the_angle_takes_about_four_times_as_many_legs(angle):
    legs = [np.log(0.01) / np.log(np.cos(np.radians(each))) for each in (angle / 2, angle)]
    counted = [len(Zigzag(angle=each, start=0).residuals) - 2 for each in (angle // 2, angle)]
    assert counted == pytest.approx(legs, abs=1)
    assert counted[0] / counted[1] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize(
    ("preset", "works"),
    [("30 points: it fails", False), ("10 points: it works", True), ("15 points, in float32", False),
     ("a shorter lengthscale", True), ("a rough kernel", True), ("jitter", True)],
)  # fmt: skip
def test_presets_of_cholesky_work_and_fail_as_named(preset, works):
    widget = PositiveDefinite()
    widget.choose(preset)
    found = scipy.linalg.lapack.spotrf if widget.dtype == "float32" else scipy.linalg.lapack.dpotrf
    assert (found(widget.gram)[1] == 0) == widget.works == works


def test_the_norm_of_a_sine_settles_and_that_of_a_sample_is_near_the_number_of_points():
    norms = {doublings: SamplePaths(doublings=doublings).norms for doublings in (5, 6)}
    assert norms[6][1] == pytest.approx(norms[5][1], rel=0.01)
    # the sum of 129 squares has the standard deviation √258
    assert norms[6][0] == pytest.approx(129, abs=3 * 258**0.5) and norms[6][0] > 1.5 * norms[5][0]


def test_a_forecast_four_lengthscales_away_is_the_prior_and_a_line_goes_on():
    mean, sd = Forecast().predict([2.0])
    assert abs(mean[0]) < 0.01 and sd[0] == pytest.approx(1, abs=0.01)
    line = Forecast(drift="line")
    assert abs(line.predict([2.0])[0][0]) > 0.1 and line.predict([2.0])[1][0] > 1


def test_the_best_stop_predicts_about_as_well_as_the_best_noise():
    places = EarlyStopping.controls["step"]["places"][:18]
    errors = [EarlyStopping(step=t).errors for t in places]
    best = {name: min(each[name] for each in errors) for name in ("descent", "ridge")}
    assert best["descent"] == pytest.approx(best["ridge"], rel=0.1)
    assert EarlyStopping(step=10_000).errors["descent"] > 1.5 * best["descent"]
