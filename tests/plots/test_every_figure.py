"""Properties of all figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from apviz import plots
from apviz.plots._style import THEMES

FIGURES = {
    plots.residuals: ["ap", "ap100", "cyclic", "cut", "interrupted", "cg", "pcg", "cholesky"],
    plots.k_norm_error: ["ap", "cyclic", "cg", "skeletons"],
    plots.test_rmse: ["ap", "cg"],
    plots.passes: ["ap", "skeletons", "cut", "cg"],
    plots.batch_sizes: ["ap", "ap100"],
    plots.grouped_curves: ["ap", "ap100", "cut", "cg", "interrupted"],
    plots.performance_profiles: ["ap", "ap100", "cut", "cg"],
    plots.batch_size_sweep: ["ap", "ap100", "cut", "interrupted"],
    plots.noise_sweep: ["ap", "noisy", "cg", "cut", "interrupted"],
    plots.condition_numbers: ["ap", "cyclic", "cg", "noisy"],
    plots.block_timeline: ["ap", "cyclic", "skeletons"],
    plots.block_norms: ["ap", "cyclic"],
    plots.eigenvalues: ["ap eigenvalues", "pcg eigenvalues"],
    plots.lengthscales: ["training ap", "training one", "training cut"],
    plots.training: ["training ap", "training cg", "training kappa", "training cut"],
}


@pytest.fixture(scope="module", params=FIGURES, ids=lambda plot: plot.__name__)
def plot(request):
    return request.param


@pytest.fixture(scope="module")
def traces(plot, runs, trainings):
    every = runs | {f"training {name}": trace for name, trace in trainings.items()}
    return [every[name] for name in FIGURES[plot]]


@pytest.fixture(scope="module")
def figure(plot, traces):
    return plot(traces)


def axes(figure):
    return [figure.layout[name] for name in figure.layout.to_plotly_json() if name[1:].startswith("axis")]


def test_one_trace_equals_a_sequence_of_one(plot, traces):
    assert plot(traces[0]).to_json() == plot([traces[0]]).to_json()


def test_nothing_to_draw_is_an_error_that_says_what_to_pass(plot):
    with pytest.raises(ValueError, match=r"no trace to draw; pass one or several"):
        plot([])


def test_an_unknown_theme_is_an_error_that_names_both(plot, traces):
    with pytest.raises(ValueError, match=r"light, dark, got 'blue'"):
        plot(traces, theme="blue")


def test_every_axis_with_labels_has_a_title(figure):
    for axis in axes(figure):
        assert axis.title.text or axis.showticklabels is False or axis.matches


def test_log_axes_have_no_bare_digits_between_powers_of_ten(figure):
    for axis in axes(figure):
        if axis.type == "log":
            assert axis.tickformat or axis.tickvals is not None or isinstance(axis.dtick, int | float)


def test_both_themes_colour_the_whole_figure(plot, traces):
    for name, theme in THEMES.items():
        figure = plot(traces, theme=name)
        assert figure.layout.template.layout.paper_bgcolor == theme.paper
        assert figure.layout.template.layout.font.color == theme.ink


def test_the_settings_of_the_solve_are_stated_under_the_title(plot, traces):
    title = plot(traces[:1]).layout.title.text
    # a training has its block size in the legend and its σ² in the chart
    of_training = plot in (plots.training, plots.lengthscales)
    own = ("Adam steps of 0.1", "σ² ≥ 0.0001") if of_training else ("b = 50", "σ² = 0.05")
    for stated in ("n = 400", "d = 3", "Matérn-5/2", "float32", *own):
        assert stated in title


def test_zoom_survives_an_update_because_uirevision_is_constant(plot, figure, traces):
    assert figure.layout.uirevision == plot(traces[:1]).layout.uirevision
    assert isinstance(figure.layout.uirevision, str)


def test_no_figure_uses_a_webgl_context(figure):
    assert {each.type for each in figure.data} <= {"scatter", "heatmap", "box"}


def test_legend_and_colour_bar_do_not_reduce_the_width_of_the_chart(figure):
    layout = figure.layout
    assert layout.legend.orientation == "h"
    assert layout.coloraxis.colorbar.orientation in (None, "h")


def test_every_line_of_the_title_fits_a_phone(figure):
    lines = [line.partition(">")[2].partition("<")[0] for line in figure.layout.title.text.split("<br>")]
    assert all(len(line) <= 52 for line in lines)
    assert len(lines[0]) <= 36


def test_every_row_of_axes_is_150_pixels_high_even_with_one_legend_entry_per_line(figure):
    rows = len({axis.domain for axis in figure.select_yaxes()})
    entries = [each.name for each in figure.data if each.name and each.showlegend is not False]
    legend = 20 * sum(1 + entry.count("<br>") for entry in entries)
    assert figure.layout.height >= figure.layout.margin.t + 150 * rows + 50 + legend


def test_only_bounds_are_dotted(plot, figure):
    dotted = [each.name for each in figure.data if each.type == "scatter" and each.line.dash == "dot"]
    assert all("Theorem 1" in name or "bound" in name for name in dotted)
    assert bool(dotted) == (plot in (plots.condition_numbers, plots.k_norm_error, plots.noise_sweep))


def test_a_figure_is_valid_json_for_any_browser(figure):
    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_nothing_drawn_on_a_log_axis_is_zero_or_negative(figure):
    for each in figure.data:
        if each.type == "scatter" and figure.layout[(each.yaxis or "y").replace("y", "yaxis")].type == "log":
            values = np.asarray(each.y, dtype=float)
            assert (values[np.isfinite(values)] > 0).all()


def test_one_method_has_one_colour_in_every_figure(runs):
    by_method = (plots.residuals, plots.k_norm_error, plots.test_rmse, plots.passes)
    for theme in THEMES:
        for run in (runs["ap"], runs["cg"]):
            expected = plots.method_color(run.method, theme)
            for figure in [each([runs["ap"], runs["cg"]], theme=theme) for each in by_method]:
                used = {d.line.color for d in figure.data if run.method_name in d.name and d.line.color}
                assert used == {expected}
