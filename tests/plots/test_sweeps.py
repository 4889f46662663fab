"""Figures over a setting, with one point per run."""

from __future__ import annotations

import html
import math
import re

import numpy as np
import pytest

import apviz
from apviz import plots
from apviz.analysis import what_next
from apviz.plots._style import rule_color

PANELS = ("epochs", "seconds", "kappa_prime", "factor_bytes")


def drawn(figure, row, mode):
    axis = "y" if row == 1 else f"y{row}"
    return [
        each for each in figure.data if (each.yaxis or "y") == axis and each.mode == mode and each.hoverinfo != "skip"
    ]


def rings(figure):
    return [each for each in figure.data if each.hoverinfo == "skip"]


def test_a_curve_over_b_shows_epochs_seconds_condition_and_memory_of_every_run(runs):
    small, large = runs["ap"], runs["ap100"]
    figure = plots.batch_size_sweep([large, small])
    for row, expected in enumerate(
        (
            [int(trace["epoch"]["epoch"][-1]) for trace in (small, large)],
            [float(trace["epoch"]["seconds"][-1]) for trace in (small, large)],
            [float(trace["spectrum"]["kappa_prime"]) for trace in (small, large)],
            # 8 blocks of 50² and 4 of 100² numbers of 4 bytes, two in a square
            [4 * 50**2 * 4, 2 * 100**2 * 4],
        ),
        start=1,
    ):
        (curve,) = drawn(figure, row, "lines+markers")
        np.testing.assert_array_equal(curve.x, [50, 100])
        np.testing.assert_allclose(np.asarray(curve.y, float), expected)


def test_every_panel_has_labels_on_its_axis(runs):
    """The lowest panel may be far below the window."""
    sweep, noise = plots.batch_size_sweep([runs["ap"], runs["ap100"]]), plots.noise_sweep([runs["cg"]])
    for figure in (sweep, noise):
        assert all(axis.showticklabels for axis in figure.select_xaxes())


def test_the_ring_marks_the_fastest_converged_run(runs):
    # `cut` took the least time by far, and did not converge
    traces = [runs["ap"], runs["ap100"], runs["cut"]]
    figure = plots.batch_size_sweep(traces)
    seconds = {trace.method.block_size: float(trace["epoch"]["seconds"][-1]) for trace in traces[:2]}
    best = min(seconds, key=seconds.get)
    # the reached residuals are above, because one run did not converge
    assert {ring.x[0] for ring in rings(figure)} == {best} and len(rings(figure)) == 1 + len(PANELS)
    assert f"ring: b = {best}, {seconds[best]:.3g} s, the fastest of 2 converged" in figure.layout.title.text


def test_runs_to_another_tolerance_cannot_get_the_ring(edited, runs):
    quick = edited(runs["ap"], {"tol": 0.5, "block_size": 70}, seconds=runs["ap"]["epoch"]["seconds"].values / 1e3)
    figure = plots.batch_size_sweep([quick, runs["ap"], runs["ap100"]])
    assert 70 not in {ring.x[0] for ring in rings(figure)}
    assert "of 2 converged" in figure.layout.title.text and "to tolerance 0.01" in figure.layout.title.text


def words(figure):
    """Return title and caption as plain text."""
    text = re.sub('<br><span class="words"[^>]*>', " ", figure.layout.title.text)
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split())


def sweep_without_convergence(edited, run, kept, epochs=40):
    """Return runs over b that hit the epoch limit; an epoch multiplies the residual by the value in `kept`."""
    found = []
    for size, share in kept.items():
        tree = run.tree.copy(deep=True)
        tree["epoch"].dataset = (
            run["epoch"].isel(epoch=np.zeros(epochs + 1, int)).assign_coords(epoch=np.arange(epochs + 1))
        )
        attrs = {"stop_reason": "max_epochs", "method": run.attrs["method"] | {"block_size": size}}
        values = share ** np.arange(epochs + 1.0)
        found.append(edited(apviz.Trace(tree), attrs, residual=values, seconds=np.arange(epochs + 1.0)))
    return found


def test_without_a_converged_run_no_b_is_marked_and_the_reached_residual_is_stated(edited, runs):
    traces = sweep_without_convergence(edited, runs["ap"], {100: 0.99, 200: 0.9, 400: 0.95})
    figure = plots.batch_size_sweep(traces)
    assert not rings(figure)
    said = f"none of 3 converged; smallest residual: {0.9**40:.2g}, by b = 200 after 40 epochs, 40 s (tolerance 0.01)"
    assert said in words(figure)


def test_the_residual_reached_by_every_b_is_a_cross_above_the_costs(edited, runs):
    traces = sweep_without_convergence(edited, runs["ap"], {100: 0.99, 200: 0.95, 400: 0.97})
    figure = plots.batch_size_sweep(traces)
    (crosses,) = drawn(figure, 1, "markers")
    assert crosses.marker.symbol == "x" and crosses.x.tolist() == [100, 200, 400]
    np.testing.assert_allclose(crosses.y, [0.99**40, 0.95**40, 0.97**40])
    assert figure.layout.yaxis.title.text == "final residual"
    assert [shape.y0 for shape in figure.layout.shapes if shape.yref == "y"] == [0.01]
    # if all runs converged, there is no note
    assert plots.batch_size_sweep(runs["ap"]).layout.yaxis.title.text == "epochs"


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        # 0.95 to the 90th is 0.01, and a fifth more is safe
        (0.95, "It needs about 90 epochs (90 s). Allow 110, to be safe."),
        # two thousand more epochs
        (0.9985, "fell by 0.15% an epoch: more epochs would not help"),
        (1.0, "fell by 0% an epoch: more epochs would not help"),
    ],
)
def test_the_advice_follows_from_the_fall_of_the_residual(edited, runs, kept, said):
    (trace,) = sweep_without_convergence(edited, runs["ap"], {100: kept})
    assert said in what_next(trace) and said in words(plots.batch_size_sweep(trace))


def test_the_forecast_is_the_epoch_at_which_the_run_reaches_its_tolerance(edited, runs):
    """The oracle extends the run itself, whose residual keeps falling at its rate."""
    (trace,) = sweep_without_convergence(edited, runs["ap"], {100: 0.93}, epochs=20)
    total = int(re.search(r"about (\d+) epochs", what_next(trace))[1])
    assert total == next(k for k in range(200) if 0.93**k <= 0.01)


def test_a_run_that_ends_at_once_gives_no_rate(runs):
    assert what_next(runs["cut"]).startswith("Too few epochs to estimate a rate: allow 20")


def test_an_unconverged_run_is_a_cross_and_not_a_point_of_the_curve(runs):
    figure = plots.batch_size_sweep([runs["cut"]])
    for row in (1, 2, 3):
        (curve,) = drawn(figure, row, "lines+markers")
        assert not np.isfinite(np.asarray(curve.y, float)).any()
        (cross,) = drawn(figure, row, "markers")
        assert cross.marker.symbol == "x" and cross.x[0] == 50
    assert drawn(figure, 2, "markers")[0].y[0] == 2
    # κ′ and the memory do not change
    for row in (4, 5):
        assert np.isfinite(np.asarray(drawn(figure, row, "lines+markers")[0].y, float)).all()
    assert drawn(figure, 1, "lines+markers")[0].name.endswith("1 of 1 not converged")


def test_a_run_without_an_end_is_an_open_circle(runs):
    figure = plots.batch_size_sweep([runs["ap"], runs["interrupted"]])
    (circle,) = drawn(figure, 1, "markers")
    assert circle.marker.symbol == "circle-open" and circle.name.endswith("1 unfinished")


def test_every_method_has_its_own_curve(runs):
    figure = plots.batch_size_sweep([runs["ap"], runs["cyclic"], runs["ap100"]])
    curves = drawn(figure, 1, "lines+markers")
    assert [len(curve.x) for curve in curves] == [2, 1]
    assert [re.split("<br>| — ", curve.name)[0] for curve in curves] == [
        "Alternating projection (greedy)",
        "Alternating projection (cyclic)",
    ]
    assert curves[1].line.color == rule_color("cyclic")


def test_systems_of_different_noise_do_not_share_a_curve_over_b(runs):
    figure = plots.batch_size_sweep([runs["ap"], runs["noisy"]])
    names = [curve.name for curve in drawn(figure, 1, "lines+markers")]
    assert "σ² = 0.05" in names[0] and "σ² = 0.5" in names[1]


def test_the_memory_limit_is_a_line_inside_its_panel(runs):
    figure = plots.batch_size_sweep(runs["ap"], memory_limit=4e9)
    assert [shape.y0 for shape in figure.layout.shapes if shape.y0 == shape.y1] == [4e9]
    (label,) = figure.layout.annotations
    assert label.text == "limit 4 GB" and label.y == pytest.approx(math.log10(4e9))
    low, high = figure.layout.yaxis4.range
    assert low < math.log10(80_000) and math.log10(4e9) < high


def test_labels_on_the_axis_of_b_never_overlap(edited, runs):
    traces = [
        edited(runs["ap"], {"method": runs["ap"].attrs["method"] | {"block_size": size}})
        for size in (100, 110, 200, 210, 400)
    ]
    axis = plots.batch_size_sweep(traces).layout.xaxis
    assert dict(zip(axis.tickvals, axis.ticktext, strict=True)) == {
        100: "100",
        110: "",
        200: "200",
        210: "",
        400: "400",
    }


def test_a_run_without_blocks_has_no_place_over_b(runs):
    with pytest.raises(ValueError, match=r"batch_size_sweep draws runs of AlternatingProjection.*CG has none"):
        plots.batch_size_sweep([runs["ap"], runs["cg"]])


def test_the_first_number_of_a_point_is_the_index_of_its_run(runs):
    traces = [runs["ap100"], runs["cut"], runs["ap"]]
    figure = plots.batch_size_sweep(traces)
    for each in figure.data:
        for x, values in zip(each.x, each.customdata if each.customdata is not None else (), strict=False):
            assert traces[int(values[0])].method.block_size == x


def test_a_curve_over_the_noise_uses_kappa_on_a_shared_axis(runs):
    figure = plots.noise_sweep([runs["ap"], runs["noisy"], runs["cg"]])
    blocks, gradients = drawn(figure, 1, "lines+markers")
    kappas = [float(runs[name]["spectrum"]["kappa"]) for name in ("noisy", "ap")]
    assert kappas[0] < kappas[1]
    # in the order of σ², so the line goes from right to left
    np.testing.assert_allclose(blocks.x, kappas[::-1])
    np.testing.assert_allclose(gradients.x, kappas[1:])
    work = drawn(figure, 2, "lines+markers")
    assert [float(w) for w in work[0].y] == [float(runs[name]["epoch"]["work"][-1]) for name in ("ap", "noisy")]


def test_cg_stays_below_its_bound(runs):
    figure = plots.noise_sweep([runs["cg"], runs["ap"]])
    (bound,) = [each for each in figure.data if each.line.dash == "dot"]
    assert int(runs["cg"]["epoch"]["epoch"][-1]) <= min(bound.y)
    assert not [each for each in plots.noise_sweep([runs["ap"], runs["pcg"]]).data if each.line.dash == "dot"]


def test_an_estimated_kappa_is_marked(edited, runs):
    for run in ("ap", "cg"):
        exact = plots.noise_sweep(runs[run])
        assert "estimate" not in exact.layout.title.text and exact.layout.xaxis2.title.text.startswith("κ = ")
        assert "κ = " in drawn(exact, 1, "lines+markers")[0].text[0]
        trace = edited(runs[run])
        trace.tree["spectrum"]["kappa"].attrs["is_estimate"] = True
        trace.tree["spectrum"].attrs["lambda_max_bound"] *= 2  # so that κ is not the bound itself
        figure = plots.noise_sweep(trace)
        assert "κ is an estimate" in figure.layout.title.text and figure.layout.xaxis2.title.text.startswith("κ ≈ ")
        assert "κ ≈ " in drawn(figure, 1, "lines+markers")[0].text[0]
        for bound in [each for each in figure.data if each.line.dash == "dot"]:
            assert "(estimate)" in bound.name and "κ ≈ " in bound.hovertemplate


def test_kappa_prime_from_power_iteration_is_marked(runs):
    figure = plots.batch_size_sweep(runs["ap"])
    assert figure.layout.yaxis3.title.text.startswith("κ′ ≈ ")
    assert "κ′ ≈ " in drawn(figure, 1, "lines+markers")[0].text[0]


def test_over_seeds_the_ring_and_the_line_are_at_medians_and_seconds_of_machines_stay_apart(edited, runs):
    seconds = runs["ap"]["epoch"]["seconds"].values / runs["ap"]["epoch"]["seconds"].values[-1]
    # one seed of b = 50 is the fastest of all runs; its median is not
    several = [edited(runs["ap"], {"seed": seed}, seconds=took * seconds) for seed, took in enumerate((0.1, 5.0, 6.0))]
    last = runs["ap100"]["epoch"]["seconds"].values
    other = [edited(runs["ap100"], {"seed": seed}, seconds=2.0 * last / last[-1]) for seed in range(3)]
    figure = plots.batch_size_sweep([*several, *other])
    assert {ring.x[0] for ring in rings(figure) if ring.mode == "markers"} == {100}
    assert "ring: b = 100, 2 s in the median of 3 seeds, the fastest of 2 converged" in words(figure)
    lines = [each for each in figure.data if each.mode == "lines" and each.yaxis == "y2"]
    assert [(each.x.tolist(), each.y.tolist()) for each in lines] == [([50.0, 100.0], [5.0, 2.0])]
    elsewhere = [edited(each, {"device_name": "another"}) for each in other]
    apart = plots.batch_size_sweep([*several, *elsewhere])
    assert [each.x.tolist() for each in apart.data if each.mode == "lines" and each.yaxis == "y2"] == [[50.0], [100.0]]
    assert "on one system and machine" in words(apart)
