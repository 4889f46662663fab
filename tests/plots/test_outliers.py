"""Runs far beyond the others leave the axes, are named, and never stretch an axis until the others are lines."""

from __future__ import annotations

import html

import numpy as np
import pytest

from apviz import plots
from apviz.dashboard.pages.compare.highlight import highlight


@pytest.fixture
def far(runs, edited):
    """Return a run whose epochs end in these values."""

    def of(name="cg", **last):
        trace, given = runs[name], {}
        for variable, value in last.items():
            values = np.array(trace["epoch"][variable].values, dtype=float)
            given[variable] = np.linspace(values[0], value, len(values))
        return edited(trace, **given)

    return of


def limits(figure):
    return {axis.plotly_name + axis.anchor: axis.autorangeoptions.clipmax for axis in figure.select_yaxes()} | {
        "x": figure.layout.xaxis.autorangeoptions.clipmax
    }


def title(figure):
    return html.unescape(figure.layout.title.text)


def test_a_residual_of_1e30_neither_stretches_the_axis_nor_loses_its_name(runs, far):
    others = [runs["ap"], runs["cut"], runs["pcg"]]
    figure = plots.residuals([*others, far(residual=1e30)])
    largest = max(float(trace["epoch"]["residual"].max()) for trace in others)
    top = figure.layout.yaxis.autorangeoptions.clipmax
    assert largest < top < 10 * largest and figure.layout.xaxis.autorangeoptions.clipmax is None
    assert "beyond the axes: CG (up to 1e+30)" in title(figure).replace("</span><br><span", "")
    assert any(
        curve.name.startswith("CG") and np.nanmax(curve.y) > 1e29 for curve in figure.data if curve.y is not None
    )
    # labels of the axis are those of the others, not of 30 decades
    assert (figure.layout.yaxis.dtick or 1) in (1, "D2")


@pytest.mark.parametrize(("x", "said"), [("seconds", "CG (1e+06 s)"), ("work", "CG (work 1e+06)")])
def test_a_run_that_takes_a_million_times_longer_leaves_the_others_their_axis_in_each_unit(runs, far, x, said):
    others = [runs["ap"], runs["cut"]]
    figure = plots.residuals([*others, far(**{x: 1e6})], x="epochs")
    assert f"beyond the axes: {said}" in title(figure) and figure.layout.xaxis.autorangeoptions.clipmax is None
    button = next(each for each in figure.layout.updatemenus[0].buttons if each.label == x)
    longest = max(float(trace["epoch"][x][-1]) for trace in others)
    assert button.args[1]["xaxis.autorangeoptions.clipmax"] == pytest.approx(1.05 * longest)
    assert figure.layout.updatemenus[0].buttons[1].args[1]["xaxis.autorangeoptions.clipmax"] is None
    shown = plots.residuals([*others, far(**{x: 1e6})], x=x)
    assert shown.layout.xaxis.autorangeoptions.clipmax == pytest.approx(1.05 * longest)


def test_a_run_without_a_finite_residual_keeps_its_legend_entry_and_changes_no_axis(runs, edited):
    others = [runs["ap"], runs["cut"]]
    lost = edited(runs["cg"], residual=np.full(len(runs["cg"]["epoch"]["epoch"]), np.nan))
    figure, before = plots.residuals([*others, lost]), plots.residuals(others)
    assert any(curve.name and curve.name.startswith("CG") and curve.showlegend is not False for curve in figure.data)
    assert (
        figure.layout.yaxis.autorangeoptions.clipmax is None and figure.layout.yaxis.dtick == before.layout.yaxis.dtick
    )


def test_runs_that_differ_as_methods_do_are_never_cut_off(runs, far):
    for traces in ([runs["ap"], far(residual=1e3)], [runs["ap"], runs["cg"], far(work=50.0)], [far(residual=1e30)]):
        figure = plots.residuals(traces, x="work")
        assert set(limits(figure).values()) == {None} and "beyond" not in title(figure)


def test_an_outlier_of_the_test_error_leaves_its_linear_axis(runs, far):
    figure = plots.test_rmse([runs["ap"], far(test_rmse=1e9)])
    largest = float(runs["ap"]["epoch"]["test_rmse"].max())
    assert figure.layout.yaxis.autorangeoptions.clipmax == pytest.approx(1.05 * largest)
    assert figure.layout.yaxis2.autorangeoptions.clipmax is None and "CG (up to 1e+09)" in title(figure)


def test_one_seed_far_beyond_the_others_leaves_the_median_its_axis(runs, far, edited):
    seeds = [edited(runs["cg"], {"seed": seed, "dataset": "made"}) for seed in range(4)]
    seeds.append(edited(far(residual=1e30), {"seed": 4, "dataset": "made"}))
    figure = plots.grouped_curves(seeds, band="range")
    assert figure.layout.yaxis.autorangeoptions.clipmax < 100 and "band of CG (up to 1e+30)" in title(figure)


def test_the_label_of_an_outlier_is_at_the_end_of_the_axis(runs, far):
    figure = plots.residuals([runs["ap"], runs["cut"], far(residual=1e30)])
    groups = {curve.legendgroup: curve.legendgroup[:2] for curve in figure.data if curve.legendgroup}
    top = np.log10(figure.layout.yaxis.autorangeoptions.clipmax)
    highlight(figure, groups, "light")
    heights = [each.y for each in figure.layout.annotations if each.name == "end"]
    assert len(heights) == 3 and max(heights) == pytest.approx(top)
    assert np.log10(figure.layout.yaxis.autorangeoptions.include[0]) > -10
    assert figure.layout.yaxis.autorangeoptions.clipmax == pytest.approx(10**top)
