"""The figure of a variogram: its points and curve, and what its caption says."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from apviz.plots._style import THEMES

X = np.random.default_rng(0).uniform(size=(300, 2))
EMPIRICAL = apviz.gp.empirical_variogram(X, np.sin(6 * X[:, 0]), max_pairs=20_000)
MODEL = apviz.Variogram("gaussian", sill=0.6, nugget=0.1, range=0.4, convention="effective")


def test_the_points_are_those_of_the_bins_and_the_curve_is_the_model():
    points, curve = apviz.plots.variogram(EMPIRICAL, MODEL).data
    np.testing.assert_array_equal(points.x, EMPIRICAL.distances)
    np.testing.assert_array_equal(points.y, EMPIRICAL.semivariances)
    np.testing.assert_allclose(curve.y, MODEL(np.array(curve.x)))
    assert curve.y[0] == pytest.approx(MODEL.nugget)
    assert np.argmax(points.marker.size) == np.argmax(EMPIRICAL.counts)


def test_the_caption_says_how_many_pairs_were_used_and_which_model_is_drawn():
    title = apviz.plots.variogram(EMPIRICAL, MODEL).layout.title.text
    for words in ("n = 300", "20,000 random pairs of 44,850", "Matheron's estimator", "model: gaussian"):
        assert words in title


def test_without_a_model_there_are_points_only():
    assert [each.name for each in apviz.plots.variogram(EMPIRICAL).data] == ["empirical"]


def test_both_themes_colour_the_figure_and_an_unknown_one_is_refused():
    for name, theme in THEMES.items():
        figure = apviz.plots.variogram(EMPIRICAL, MODEL, theme=name)
        assert figure.layout.template.layout.paper_bgcolor == theme.paper
        json.loads(figure.to_json(), parse_constant=pytest.fail)
    with pytest.raises(TypeError, match=r"empirical must be apviz.gp.empirical_variogram\(x, y\), got ndarray"):
        apviz.plots.variogram(X)
    with pytest.raises(TypeError, match="model must be an apviz.Variogram, or None, got str"):
        apviz.plots.variogram(EMPIRICAL, "gaussian")
    with pytest.raises(ValueError, match=r"light, dark, got 'blue'"):
        apviz.plots.variogram(EMPIRICAL, theme="blue")
