"""Batch sizes, test error, drift."""

from __future__ import annotations

import numpy as np
import pytest

from apviz import plots


def test_batch_sizes_are_drawn_against_epochs_and_against_seconds(runs):
    figure = plots.batch_sizes(runs["ap100"])
    left, right = (next(d for d in figure.data if "lines" in d.mode and d.xaxis == axis) for axis in ("x", "x2"))
    np.testing.assert_array_equal(left.x, runs["ap100"]["epoch"]["epoch"].values)
    np.testing.assert_array_equal(right.x, runs["ap100"]["epoch"]["seconds"].values)
    for curve in (left, right):
        np.testing.assert_array_equal(curve.y, runs["ap100"]["epoch"]["residual"].values)
    assert figure.layout.yaxis2.matches == "y"


def test_batch_sizes_appear_once_each_in_order_whatever_the_order_of_the_traces(runs):
    figure = plots.batch_sizes([runs["ap100"], runs["ap"]])
    named = [each.name for each in figure.data if each.showlegend]
    assert named == ["b = 50 — Converged", "b = 100 — Converged"]


def test_a_run_has_one_colour_in_both_figures_over_b(runs, edited):
    """The two figures are next to each other on the page Block size."""
    cyclic = edited(runs["ap100"], {"method": runs["ap100"].attrs["method"] | {"rule": "cyclic"}})
    for traces in ([runs["ap"], runs["ap100"]], [runs["ap"], runs["ap100"], cyclic]):
        sweep, curves = plots.batch_size_sweep(traces), plots.batch_sizes(traces)
        points = {
            (trace.block_size, trace.method.rule): {
                color
                for curve in sweep.data
                if curve.yaxis == "y" and curve.mode == "lines+markers"
                for place, color in zip(curve.customdata[:, 0], curve.marker.color, strict=True)
                if traces[int(place)] is trace
            }
            for trace in traces
        }
        ordered = sorted(traces, key=lambda trace: trace.block_size)
        lines = [curve for curve in curves.data if curve.xaxis == "x" and "lines" in curve.mode]
        for trace, line in zip(ordered, lines, strict=True):
            assert points[trace.block_size, trace.method.rule] == {line.line.color}
        assert len({(line.line.color, line.line.dash) for line in lines}) == len(traces)


def test_a_run_without_a_batch_size_is_an_error_that_names_it(runs):
    with pytest.raises(ValueError, match=r"CG has none"):
        plots.batch_sizes([runs["ap"], runs["cg"]])


def test_test_rmse_is_above_the_residual_on_one_x_axis(runs, curve):
    figure = plots.test_rmse(runs["ap"])
    epochs = runs["ap"]["epoch"]
    np.testing.assert_array_equal(curve(figure, runs["ap"], row=1).y, epochs["test_rmse"].values)
    np.testing.assert_array_equal(curve(figure, runs["ap"], row=2).y, epochs["residual"].values)
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    assert figure.layout.xaxis.matches == "x2"


def test_the_figure_of_test_rmse_states_the_number_of_rows(runs):
    assert "test RMSE over 50 rows" in plots.test_rmse(runs["ap"]).layout.title.text


def test_runs_without_test_rmse_are_left_out_and_counted(runs):
    figure = plots.test_rmse([runs["ap"], runs["pcg"]])
    assert not any("CG +" in each.name for each in figure.data)
    assert "1 of 2 runs recorded no test RMSE" in figure.layout.title.text


def test_traces_without_test_rmse_raise_an_error_that_says_how_to_record_it(runs):
    with pytest.raises(ValueError, match=r"apviz\.PredictionHook\(test_x, test_y\)"):
        plots.test_rmse(runs["pcg"])


def test_an_epoch_without_a_prediction_is_not_a_gap(runs, edited, curve):
    values = runs["ap"]["epoch"]["test_rmse"].values.copy()
    values[1::2] = np.nan
    run = edited(runs["ap"], test_rmse=values)
    drawn = curve(plots.test_rmse(run), run)
    np.testing.assert_array_equal(drawn.y, values[::2])
    np.testing.assert_array_equal(drawn.x, runs["ap"]["epoch"]["work"].values[::2])


def test_figures_with_two_panels_switch_the_title_of_the_lower_axis(runs):
    for button in plots.test_rmse(runs["ap"]).layout.updatemenus[0].buttons:
        assert "xaxis2.title.text" in button.args[1]
