"""Figures of predictions: curves, maps, and predicted against observed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from apviz import plots
from apviz.plots._style import THEMES

X = np.linspace(0, 2, 21)
CURVE = xr.Dataset({"mean": ("x", X**2), "sd": ("x", X), "lower": ("x", X**2 - X), "upper": ("x", X**2 + X)}, {"x": X})
MAP = xr.Dataset({"mean": (("east", "north"), np.arange(15.0).reshape(5, 3))}, {"east": range(5), "north": range(3)})
POINTS = xr.Dataset(
    {"sd": ("point", [1.0, 2.0])}, {"east": ("point", [3.0, 4.0]), "north": ("point", [5.0, 6.0])}
)  # fmt: skip


def test_a_curve_has_the_data_behind_its_interval_and_mean():
    data, lower, upper, mean = plots.prediction(CURVE, observed=([1.0], [3.0])).data
    assert (data.name, mean.name, upper.fill) == ("data", "mean", "tonexty")
    np.testing.assert_array_equal(lower.y, X**2 - X)
    np.testing.assert_array_equal(upper.y, X**2 + X)
    assert [each.name for each in plots.prediction(CURVE, "sd", observed=([1.0], [3.0])).data] == ["sd"]


def test_a_map_has_the_first_input_to_the_right_and_square_cells_where_both_have_one_step():
    figure = plots.prediction(MAP)
    np.testing.assert_array_equal(figure.data[0].z, MAP["mean"].values.T)
    assert figure.layout.xaxis.title.text == "east" and figure.layout.yaxis.scaleanchor == "x"
    assert plots.prediction(MAP.assign_coords(north=[0, 7, 14])).layout.yaxis.scaleanchor is None


def test_points_of_two_inputs_are_drawn_in_the_colours_of_a_map():
    (points,) = plots.prediction(POINTS, "sd").data
    assert (points.x.tolist(), points.y.tolist(), points.marker.color.tolist()) == ([3, 4], [5, 6], [1, 2])


def test_pixels_are_drawn_as_an_image_with_the_first_row_at_the_top():
    rows, columns = np.arange(0.0, 6, 2), np.arange(0.0, 8, 2)
    grey = rows[:, None] + 10 * columns
    grid = xr.Dataset({"mean": (("row", "column"), grey)}, {"row": rows, "column": columns})
    points = grid.stack(point=("row", "column")).reset_index("point")
    for found in (grid, points):
        layout = plots.prediction(found).layout
        assert (layout.xaxis.title.text, layout.yaxis.title.text) == ("column", "row")
        assert layout.yaxis.range == (4, 0) and layout.xaxis.range == (0, 6) and layout.yaxis.scaleanchor == "x"
    (pixels,) = (each for each in plots.prediction(grid).data if each.type == "heatmap")
    np.testing.assert_array_equal(pixels.z, grey)


def test_many_points_are_thinned_and_the_figure_says_so():
    x = np.linspace(0, 1, 1_201)
    figure = plots.prediction(xr.Dataset({"mean": ("x", x)}, {"x": x}))
    assert len(figure.data[0].x) == 401 and "every k-th point" in figure.layout.title.text


def test_observations_outside_their_interval_are_counted_and_have_another_colour():
    figure = plots.predicted_against_observed([0.0, 1.0, 2.0], [0.1, 1.0, 5.0], [0.1, 0.1, 1.0], level=0.9, name="z")
    inside, outside = (each for each in figure.data if each.mode == "markers")
    assert (inside.x.tolist(), outside.x.tolist()) == ([0.0, 1.0], [2.0])
    assert inside.marker.color != outside.marker.color
    assert "2 of 3 observations are inside their 90% interval" in figure.layout.title.text


def test_both_themes_colour_the_figures_and_what_cannot_be_drawn_is_refused():
    for name, theme in THEMES.items():
        for figure in (
            plots.prediction(CURVE, theme=name),
            plots.predicted_against_observed([1], [1], [1], theme=name),
        ):
            assert figure.layout.template.layout.paper_bgcolor == theme.paper
            json.loads(figure.to_json(), parse_constant=pytest.fail)
    with pytest.raises(ValueError, match="name must be a variable of the predictions, mean, sd, lower, upper; got 'f'"):
        plots.prediction(CURVE, "f")
    with pytest.raises(ValueError, match="one or two inputs, not over 3"):
        plots.prediction(MAP.expand_dims(depth=[0.0]))
    with pytest.raises(ValueError, match=r"one shape \(m,\), got \(2,\), \(1,\) and \(1,\)"):
        plots.predicted_against_observed([1, 2], [1], [1])
    with pytest.raises(ValueError, match="level must be a number between 0 and 1, got 95"):
        plots.predicted_against_observed([1], [1], [1], level=95)
