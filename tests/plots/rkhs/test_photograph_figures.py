"""What the figures of a photograph during a solve draw."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest
import torch

import apviz
from apviz import plots
from apviz.plots._style import THEMES
from apviz.plots.rkhs import margin_curves, photograph_step


def photograph(**settings):
    """The trace of a solve of the photograph of 704 pixels, with a snapshot after each of the first updates."""
    data = apviz.datasets.load("china", n=563)  # every twentieth row and column
    x, b = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.1), noise=0.05, device="cpu", dataset="china")
    recorder = apviz.Recorder(rows=True, snapshots=range(8), weights=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", apviz.NotConverged)
        apviz.solve(system, apviz.AlternatingProjection(block_size=100, **settings), hooks=[recorder])
    return recorder.trace


@pytest.fixture(scope="module")
def photos():
    return {overlap: photograph(partition="kd-tree", overlap=overlap) for overlap in (0.0, 1.0)}


@pytest.fixture(scope="module")
def scattered():
    return photograph(overlap=0.5, max_epochs=3)


def test_the_left_is_the_residual_of_residual_map_and_the_right_the_mean(photos):
    photo = photos[1.0]
    figure, existing = photograph_step(photo, 5), plots.residual_map(photo, 5)
    np.testing.assert_array_equal(figure.data[0].z, existing.data[0].z)
    np.testing.assert_array_equal(figure.data[2].x, existing.data[2].x)
    mean = figure.data[-1]
    x, target = photo["rows"]["coordinates"].values, photo["rows"]["target"].values
    r = np.sqrt(5) * np.linalg.norm(x[:, None] - x, axis=2) / 0.1
    expected = (1 + r + r**2 / 3) * np.exp(-r) @ photo["snapshot"]["weights"].sel(update=5).values
    assert mean.xaxis == "x2" and np.abs(mean.z - expected).max() <= 7e-4
    assert (mean.zmin, mean.zmax) == (pytest.approx(target.min()), pytest.approx(target.max()))


def test_both_panels_hold_the_same_pixels_upright_and_square(photos):
    figure = photograph_step(photos[0.0], 3)
    layout = figure.layout
    for axis in ("x", "y"):
        np.testing.assert_array_equal(figure.data[0][axis], figure.data[-1][axis])
        assert layout[f"{axis}axis"].range == layout[f"{axis}axis2"].range
    assert layout.yaxis.range[0] > layout.yaxis.range[1]
    assert (layout.yaxis.scaleanchor, layout.yaxis2.scaleanchor) == ("x", "x2")


def test_outlines_and_dots_are_the_same_traces_and_leave_nothing_of_each_other(photos, scattered):
    outlined, dotted = (photograph_step(photo, 2) for photo in (photos[1.0], scattered))
    assert [each.type for each in outlined.data] == [each.type for each in dotted.data]
    assert outlined.data[1].fill == "toself" and dotted.data[1].fill == "none"
    assert dotted.data[2].marker.size > 0 and dotted.data[2].line.width == 0 < outlined.data[2].line.width
    assert "outline: block" in outlined.layout.title.text and "dots: block" in dotted.layout.title.text


def test_the_caption_states_system_solver_outcome_and_update(photos, scattered):
    title = photograph_step(photos[1.0], 4).layout.title.text
    for stated in (
        "china",
        "n = 704",
        "b = 100",
        "Matérn-5/2",
        "σ² = 0.05",
        "kd-tree",
        "— converged",
        "update 4: block",
    ):
        assert stated in title
    # a long line is broken
    title = re.sub("<[^>]*>", " ", photograph_step(scattered, 4).layout.title.text)
    assert "not converged (max_epochs)" in " ".join(title.split())


@pytest.mark.parametrize("theme", THEMES)
def test_both_themes_colour_both_figures_and_they_are_json(photos, theme):
    for figure in (photograph_step(photos[0.0], 1, theme=theme), margin_curves(photos, 0.0, 1, theme=theme)):
        assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        lines = [line.partition(">")[2].partition("<")[0] for line in figure.layout.title.text.split("<br>")]
        assert all(len(line) <= 52 for line in lines)


def test_each_panel_has_its_name_and_nothing_else_stands_there(photos):
    annotations = photograph_step(photos[0.0], 2).layout.annotations
    assert [each.text for each in annotations] == ["residual r", "posterior mean so far"]


def test_an_update_that_was_not_kept_gets_a_message(photos):
    with pytest.raises(ValueError, match="update 100000 of this run was not recorded"):
        photograph_step(photos[0.0], 100_000)


def test_every_margin_is_a_curve_and_the_one_looked_at_is_thick_and_marked(photos):
    figure = margin_curves(photos, 1.0, 3)
    assert [each.name for each in figure.data[:2]] == ["no margin: converged", "margin 100%: converged"]
    assert figure.data[1].line.width > figure.data[0].line.width
    for curve, photo in zip(figure.data, photos.values(), strict=False):
        update = photo["update"]
        np.testing.assert_allclose(curve.x[1:], update["work"])
        np.testing.assert_allclose(curve.y[1:], update["residual"].values[:, 0])
        assert curve.y[0] == pytest.approx(1.0)
    assert figure.data[2].x == figure.data[1].x[3] and figure.data[2].y == figure.data[1].y[3]


def test_pictures_are_as_high_as_the_figure_says_of_the_width_of_its_axes(photos):
    figure = photograph_step(photos[0.0], 3)
    rows, columns = 22, 32
    left, right = figure.layout.xaxis.domain
    assert rows * columns == 704 == len(figure.data[0].z)
    assert figure.layout.meta["heightOverWidth"] == pytest.approx((right - left) * rows / columns)


def test_a_trace_without_weights_gets_a_message():
    x = torch.cartesian_prod(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 6))
    system = apviz.KernelSystem(x, torch.sin(4 * x.sum(1)), apviz.Matern52(lengthscale=0.3), noise=0.05, device="cpu")
    recorder = apviz.Recorder(rows=True, snapshots=range(2))
    apviz.solve(system, apviz.AlternatingProjection(block_size=6), hooks=[recorder])
    with pytest.raises(ValueError, match="weights=True"):
        photograph_step(recorder.trace, 1)
