"""The figure of the eigenvalues of K and P⁻¹K."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import plots
from apviz.partitions import PrincipalAxisTree
from apviz.plots._style import THEMES

N = 120
SOLVERS = {
    "cg": apviz.ConjugateGradient(),
    "pcg": apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=10)),
    "schwarz": apviz.ConjugateGradient(
        preconditioner=apviz.TwoLevelSchwarz(block_size=30, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10)
    ),
    "ap": apviz.AlternatingProjection(block_size=30),
}


def solved(solver, noise=0.05, **recording):
    x = torch.rand(N, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    system = apviz.KernelSystem(
        x, torch.sin(9 * x[:, 0]), apviz.Matern52(lengthscale=0.3), noise=noise, dtype=torch.float64
    )
    recorder = apviz.Recorder(**{"eigenvalues": True, **recording})
    apviz.solve(system, solver, [recorder])
    return recorder.trace


@pytest.fixture(scope="module")
def traces():
    return {name: solved(solver) for name, solver in SOLVERS.items()}


def curves(figure):
    """Return the drawn curves by the first line of their name, without markers and legend keys."""
    return {each.name.split(" — ")[0].split("<br>")[0]: each for each in figure.data if each.mode == "lines"}


def legend(figure):
    return [each.name for each in figure.data if each.showlegend]


def test_one_curve_for_k_and_one_for_each_preconditioned_run(traces):
    drawn = curves(plots.eigenvalues(list(traces.values())))
    assert list(drawn) == ["K", traces["pcg"].method_name, traces["schwarz"].method_name]
    for each in drawn.values():
        np.testing.assert_array_equal(each.x, np.arange(1, N + 1))
    np.testing.assert_array_equal(drawn["K"].y, traces["ap"]["eigenvalues"]["eigenvalue"].values)
    for name in ("pcg", "schwarz"):
        recorded = traces[name]["eigenvalues"]["preconditioned"].values
        np.testing.assert_array_equal(drawn[traces[name].method_name].y, recorded)


def test_runs_without_a_preconditioner_show_the_curve_of_k_alone(traces):
    for name in ("cg", "ap"):
        figure = plots.eigenvalues(traces[name])
        assert list(curves(figure)) == ["K"]
        # and does not mention a P
        assert "P" not in figure.layout.title.text.partition("</span>")[0] and not figure.layout.annotations
    assert "P⁻¹K" in plots.eigenvalues(traces["pcg"]).layout.title.text


def test_different_systems_have_separate_curves_of_k(traces):
    drawn = curves(plots.eigenvalues([traces["cg"], solved(SOLVERS["cg"], noise=0.5)]))
    assert list(drawn) == ["K of σ² = 0.05", "K of σ² = 0.5"]


def test_legend_and_hover_text_show_the_condition_numbers(traces):
    figure = plots.eigenvalues([traces["pcg"]])
    group = traces["pcg"]["eigenvalues"]
    before, after = (values[0] / values[-1] for values in (group[name].values for name in group.data_vars))
    assert [each.partition("κ")[2] for each in legend(figure)] == [f"(K) = {before:.3g}", f"(P⁻¹K) = {after:.3g}"]
    for each, kappa in zip(curves(figure).values(), (before, after), strict=True):
        assert f"= {kappa:.3g}" in each.hovertemplate


def test_an_eigenvalue_made_negative_by_rounding_is_a_gap_without_a_condition_number(traces):
    tree = traces["pcg"].tree.copy(deep=True)
    values = tree["eigenvalues"]["preconditioned"].values.copy()
    values[-1] = -1e-9
    # without the attribute, like a recorder that omits κ
    tree["eigenvalues"].dataset = tree["eigenvalues"].to_dataset().assign(preconditioned=("index", values))
    figure = plots.eigenvalues(apviz.Trace(tree))
    (drawn,) = [each for name, each in curves(figure).items() if name != "K"]
    assert np.isnan(drawn.y[-1]) and np.isfinite(drawn.y[:-1]).all()
    assert legend(figure)[-1].endswith("κ(P⁻¹K) unknown: λmin ≤ 0")


@pytest.mark.parametrize("theme", THEMES)
def test_a_preconditioned_curve_has_the_colour_of_its_method_and_that_of_k_is_neutral(traces, theme):
    figure = plots.eigenvalues(list(traces.values()), theme=theme)
    drawn = curves(figure)
    for name in ("pcg", "schwarz"):
        assert drawn[traces[name].method_name].line.color == plots.method_color(traces[name].method, theme)
    assert drawn["K"].line.color not in {plots.method_color(trace.method, theme) for trace in traces.values()}
    assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper


def test_markers_lie_on_their_curve_and_hide_with_it(traces):
    figure = plots.eigenvalues(traces["pcg"])
    (markers,) = [each for each in figure.data if each.mode == "lines+markers"]
    curve = curves(figure)[traces["pcg"].method_name]
    at = markers.x[::2].astype(int) - 1
    np.testing.assert_array_equal(markers.y[::2], curve.y[at])
    assert at[0] == 0 and at[-1] == N - 1
    assert np.isnan(markers.y[1::2]).all()  # no line between them
    assert markers.legendgroup == curve.legendgroup


def test_both_axes_are_logarithmic_and_a_line_marks_the_perfect_preconditioner(traces):
    layout = plots.eigenvalues(traces["pcg"]).layout
    assert layout.xaxis.type == layout.yaxis.type == "log"
    assert layout.xaxis.title.text and layout.yaxis.title.text == "eigenvalue"
    (line,) = layout.shapes
    assert line.y0 == line.y1 == 1 and line.line.dash is None
    assert layout.annotations[0].y == 0  # annotations on a log axis take the logarithm


def test_runs_without_eigenvalues_are_left_out_and_counted_and_alone_are_an_error(traces):
    without = solved(SOLVERS["cg"], eigenvalues=False)
    title = plots.eigenvalues([traces["cg"], without]).layout.title.text
    assert "1 of 2 runs recorded no eigenvalues" in title
    with pytest.raises(ValueError, match=r"4,000 rows with hooks=\[apviz\.Recorder\(eigenvalues=True\)\]"):
        plots.eigenvalues(without)
