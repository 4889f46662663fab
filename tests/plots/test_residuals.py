"""The residual of runs against work, epochs and seconds."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from apviz import plots


def entries(figure):
    return [each.name for each in figure.data if each.showlegend is not False]


def test_the_curve_is_the_recorded_residual_at_the_recorded_work(runs, curve):
    for run in runs.values():
        drawn = curve(plots.residuals(run), run)
        np.testing.assert_array_equal(drawn.y, run["epoch"]["residual"].values)
        np.testing.assert_array_equal(drawn.x, run["epoch"]["work"].values)


@pytest.mark.parametrize(("x", "variable"), [("work", "work"), ("epochs", "epoch"), ("seconds", "seconds")])
def test_x_is_the_requested_quantity(runs, curve, x, variable):
    drawn = curve(plots.residuals(runs["ap"], x=x), runs["ap"])
    np.testing.assert_array_equal(drawn.x, runs["ap"]["epoch"][variable].values)


def test_an_unknown_x_is_an_error_that_lists_the_choices(runs):
    with pytest.raises(ValueError, match=r"x must be one of work, epochs, seconds, got 'minutes'"):
        plots.residuals(runs["ap"], x="minutes")


def test_buttons_change_the_x_of_every_curve_and_the_title_of_the_axis(runs):
    several = [runs[name] for name in ("ap", "cut", "cg", "cholesky")]
    shown = plots.residuals(several)
    for button in shown.layout.updatemenus[0].buttons:
        data, layout = button.args
        asked = plots.residuals(several, x=button.label)
        assert len(data["x"]) == len(shown.data)
        for switched, expected in zip(data["x"], asked.data, strict=True):
            np.testing.assert_array_equal(np.asarray(switched, float), np.asarray(expected.x, float))
        assert layout["xaxis.title.text"] == asked.layout.xaxis.title.text


def test_the_hover_text_states_epoch_work_seconds_and_residual_in_full(runs, curve):
    epochs = runs["cg"]["epoch"]
    drawn = curve(plots.residuals(runs["cg"], x="seconds"), runs["cg"])
    columns = [epochs[name].values for name in ("epoch", "work", "seconds", "residual")]
    np.testing.assert_array_equal(drawn.customdata, np.column_stack(columns))
    assert "%{fullData.name}" in drawn.hovertemplate
    assert drawn.name.startswith("CG")


def test_the_legend_marks_an_unconverged_run(runs):
    # the final pass of a solve is a separate point
    residual = f"{runs['cut']['epoch']['residual'].values[-1]:.2g}"
    ended = f"Not converged: epoch limit (residual {residual})"
    expected = [f"{runs['cut'].method_name}<br>{ended}", "checked on all rows"]
    assert entries(plots.residuals(runs["cut"])) == expected


def test_the_legend_marks_a_converged_run(runs):
    assert entries(plots.residuals(runs["cg"]))[0] == "CG — Converged"


def test_the_legend_marks_an_interrupted_run_as_unfinished(runs):
    (entry,) = entries(plots.residuals(runs["interrupted"]))
    assert "Unfinished" in entry
    assert "Converged" not in entry


def end_marker(figure, trace):
    """Return the end marker of a run, which is drawn after its other parts."""
    return [each for each in figure.data if trace.method_name in each.name and each.mode == "markers"][-1]


def test_ends_differ_for_converged_not_converged_and_unfinished_runs(runs):
    converged, cut, open_end = (
        end_marker(plots.residuals(runs[name]), runs[name]) for name in ("cholesky", "cut", "interrupted")
    )
    assert cut.marker.symbol == "x"
    assert open_end.marker.symbol == "circle-open"
    assert not converged.marker.symbol.startswith(("x", "circle-open"))
    assert "open" not in converged.marker.symbol


def test_the_end_marker_is_at_the_last_epoch_and_states_the_stop_reason(runs):
    end = end_marker(plots.residuals(runs["cut"]), runs["cut"])
    assert end.y[0] == runs["cut"]["epoch"]["residual"].values[-1]
    assert "Not converged: epoch limit. Raise it" in end.hovertemplate.replace("<br>", " ")


def test_recomputed_residuals_are_open_diamonds_separate_from_the_curve(runs):
    checked = runs["ap"]["epoch"]["checked_residual"].values
    figure = plots.residuals(runs["ap"])
    (drawn,) = diamonds(figure)
    # the last one is the end marker, because only a recomputed residual ends a converged run
    np.testing.assert_array_equal([*drawn.y, end_marker(figure, runs["ap"]).y[0]], checked[np.isfinite(checked)])
    assert drawn.mode == "markers"
    assert "checked on all rows" in entries(figure)


def diamonds(figure):
    return [each for each in figure.data if each.marker.symbol == "diamond-open" and each.x[0] is not None]


def test_no_diamond_hides_the_end_of_a_converged_run(runs):
    figure = plots.residuals([runs["ap"], runs["cg"], runs["cholesky"]])
    ends = {(end_marker(figure, runs[name]).x[0], end_marker(figure, runs[name]).y[0]) for name in ("ap", "cg")}
    assert not ends & {point for each in diamonds(figure) for point in zip(each.x, each.y, strict=True)}


def test_nothing_is_drawn_over_the_cross_at_the_end_of_a_run(runs):
    """Diamonds of later runs once covered these crosses."""
    figure = plots.residuals([runs["cut"], runs["ap"], runs["cyclic"]])
    drawn = [each for each in figure.data if each.x[0] is not None]
    cross = next(i for i, each in enumerate(drawn) if each.marker.symbol == "x")
    assert all(len(each.x) == 1 and each.mode == "markers" for each in drawn[cross:])
    checks = [each.marker.size for each in drawn if each.marker.symbol == "diamond-open"]
    assert checks and drawn[cross].marker.size > max(checks)


def test_coinciding_curves_are_named(runs, edited):
    near = edited(runs["ap"], {"seed": 3}, residual=runs["ap"]["epoch"]["residual"].values * 1.005)
    apart = edited(runs["ap"], {"seed": 4}, residual=runs["ap"]["epoch"]["residual"].values * 1.5)
    first = edited(runs["ap"], {"seed": 2})
    title = plots.residuals([first, near, apart, runs["cg"]]).layout.title.text
    label = runs["ap"].method_name
    said = html.unescape(title.replace("<br>", " "))
    assert f"{label}, seed 2 = {label}, seed 3" in re.sub("<[^>]*>", "", said)
    assert "seed 4 =" not in said and "= seed 4" not in said
    assert "each other" not in plots.residuals([runs["ap"], runs["cg"]]).layout.title.text


def test_for_many_runs_the_legend_lists_methods_and_the_hover_text_names_every_run(runs, edited):
    traces = [edited(runs["cut"], {"seed": seed}) for seed in range(30)] + [runs["cg"]]
    figure = plots.residuals(traces)
    label = runs["cut"].method_name
    assert entries(figure) == [f"{label} — 30 runs, 0 converged", "CG — 1 run, 1 converged"]
    groups = {each.legendgroup.replace("<br>", " — ") for each in figure.data if each.legendgroup}
    for seed in range(30):
        assert any(each.startswith(f"{label}, seed {seed} — Not converged: epoch limit") for each in groups)


def test_the_tolerance_is_a_labelled_line_at_its_value(runs):
    layout = plots.residuals(runs["ap"]).layout
    (line,) = layout.shapes
    assert line.y0 == line.y1 == 0.01
    (label,) = layout.annotations
    assert label.text == "tolerance 0.01"
    assert label.y == pytest.approx(-2)  # annotations on a log axis take the logarithm


def test_each_of_several_tolerances_has_its_line(runs):
    layout = plots.residuals([runs["ap"], runs["interrupted"]]).layout
    assert [line.y0 for line in layout.shapes] == [1e-4, 1e-2]


def test_an_exact_zero_is_marked_and_never_left_out(runs, edited):
    values = runs["cg"]["epoch"]["residual"].values.copy()
    values[-1] = 0.0
    figure = plots.residuals(edited(runs["cg"], residual=values))
    (zero,) = [each for each in figure.data if each.marker.symbol == "triangle-down"]
    assert zero.y[0] < values[:-1].min()
    assert zero.customdata[0][3] == 0.0
    assert "exactly zero" in zero.hovertemplate


def test_a_diverged_run_ends_in_a_cross_at_its_last_finite_residual(runs, edited):
    values = runs["cut"]["epoch"]["residual"].values.copy()
    values[-1] = np.inf
    figure = plots.residuals(edited(runs["cut"], attrs={"stop_reason": "diverged"}, residual=values))
    end = next(each for each in figure.data if each.marker.symbol == "x")
    assert end.y[0] == values[-2]
    assert any("Not converged: diverged" in name for name in entries(figure))


def test_a_direct_solver_is_drawn_as_a_step(runs, curve):
    assert curve(plots.residuals(runs["cholesky"]), runs["cholesky"]).line.shape == "hv"
    assert curve(plots.residuals(runs["cg"]), runs["cg"]).line.shape == "linear"
