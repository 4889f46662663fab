"""The figure of the two norms of the residual, step by step, shows the computed values."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from apviz.plots import two_norms
from apviz.plots._style import THEMES
from apviz.rkhs import Span, trajectory_on

SETS = {"plane": [(0, 1), (2,)], "lines": [(0,), (1,), (2,)]}


def walked(sets="plane", noise=0.05, lengthscale=0.4, steps=6):
    span = Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=lengthscale), noise)
    return trajectory_on(span, np.array([1.0, 0.3, -0.5]), SETS[sets], rule="cyclic", steps=steps)


def test_rises_of_the_euclidean_norm_are_marked_and_the_other_never_rises():
    found = walked("lines", noise=0.1, lengthscale=1.0, steps=12)
    figure = two_norms(found, 0)
    euclidean = np.array([np.linalg.norm(step.residual) for step in found.steps])
    rises = np.flatnonzero(np.diff(euclidean) > 0) + 1
    assert len(rises) and list(figure.data[2].x) == list(rises)
    said = f"‖r‖<sub>H</sub> rose never, Euclidean ‖r‖ {len(rises)} times"
    assert said in figure.layout.title.text.replace("<br>", " ")
    assert (np.diff(np.asarray(figure.data[0].y)) < 0).all()


@pytest.mark.parametrize("theme", THEMES)
def test_the_theme_colours_all(theme):
    figure = two_norms(walked(), 2, theme=theme)
    assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_axes_have_titles_captions_fit_a_phone_and_no_line_is_dashed():
    figure = two_norms(walked(), 2)
    title = figure.layout.title.text
    assert all(part in title for part in ("n = 3", "Matérn-5/2", "ℓ = 0.4", "σ² = 0.05"))
    assert all(len(each.partition(">")[2].partition("<")[0]) <= 52 for each in title.split("<br>"))
    assert all(axis.title.text for axis in (figure.layout.xaxis, figure.layout.yaxis))
    assert not any(each.line.dash for each in figure.data)


def test_data_of_zeros_are_drawn_and_a_missing_step_raises():
    span = Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.4), 0.1)
    found = trajectory_on(span, np.zeros(3), SETS["plane"], steps=4)
    for number in range(len(found.steps)):
        assert np.isfinite(two_norms(found, number).layout.yaxis.range).all()
    with pytest.raises(ValueError, match="number must be from 0 to 6"):
        two_norms(walked(), 7)
