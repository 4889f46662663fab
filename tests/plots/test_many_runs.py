"""Figures of many runs: over seeds, over systems, over settings."""

from __future__ import annotations

import numpy as np
import pytest

from apviz import plots

RESIDUALS = {0: [1.0, 0.5, 0.2, 0.005], 1: [1.0, 0.4, 0.1, 0.009], 2: [1.0, 0.9, 0.3, 0.001]}


@pytest.fixture
def seeds(runs, edited):
    """Return three seeds of one method with four epochs each, of 1 work and 0.1 s."""

    def of(name, noise=0.05, residuals=RESIDUALS, **attrs):
        found = []
        for seed, values in residuals.items():
            trace = edited(runs[name], {"seed": seed, "noise": noise, "dataset": "made", **attrs})
            trace.tree["epoch"].dataset = trace["epoch"].isel(epoch=slice(0, 4))
            found.append(
                edited(
                    trace, epoch=np.arange(4), work=np.arange(4.0), seconds=np.arange(4) / 10, residual=np.array(values)
                )
            )
        return found

    return of


def legend(figure):
    return [each.name for each in figure.data if each.name and each.showlegend is not False]


def drawn(figure, entry):
    """Return lower edge, upper edge, median and end of a group."""
    return [each for each in figure.data if each.name == entry]


# --- over seeds ---------------------------------------------------------------------------------------------------


def test_a_group_is_one_curve_through_the_medians_with_a_band_between_the_quartiles(seeds):
    figure = plots.grouped_curves(seeds("cg"))
    (entry,) = legend(figure)
    assert entry == "CG — 3 runs, 3 converged"
    low, high, median, end = drawn(figure, entry)
    columns = np.log(np.array(list(RESIDUALS.values())))
    for curve, share in ((low, 25), (median, 50), (high, 75)):
        np.testing.assert_allclose(curve.y, np.exp(np.percentile(columns, share, axis=0)))
        np.testing.assert_array_equal(curve.x, np.arange(4.0))
        assert curve.line.shape == "hv"
    assert high.fill == "tonexty" and (end.x[0], end.y[0]) == (3.0, median.y[-1])
    assert "band: quartiles" in figure.layout.title.text


def test_the_band_can_be_the_full_range_and_x_the_seconds(seeds):
    figure = plots.grouped_curves(seeds("cg"), band="range", x="seconds")
    low, high, *_ = drawn(figure, *legend(figure))
    np.testing.assert_allclose(low.y, [1.0, 0.4, 0.1, 0.001])
    np.testing.assert_allclose(high.y, [1.0, 0.9, 0.3, 0.009])
    np.testing.assert_allclose(high.x, np.arange(4) / 10)
    assert "band: minimum to maximum" in figure.layout.title.text
    assert figure.layout.xaxis.title.text == "time since the start (s)"


def test_a_group_with_a_run_that_did_not_converge_ends_in_a_cross_and_counts_it(seeds):
    traces = seeds("cg")
    traces[1].tree.attrs["stop_reason"] = "max_epochs"
    figure = plots.grouped_curves(traces)
    (entry,) = legend(figure)
    assert entry == "CG — 3 runs, 2 converged" and drawn(figure, entry)[-1].marker.symbol == "x"
    assert "did not converge" in figure.layout.title.text
    assert drawn(plots.grouped_curves(seeds("cg")), "CG — 3 runs, 3 converged")[-1].marker.symbol != "x"


def test_noise_levels_and_methods_form_groups_named_by_their_differences(seeds):
    figure = plots.grouped_curves([*seeds("cg"), *seeds("cg", noise=0.5)])
    assert [name.partition(" — ")[0] for name in legend(figure)] == ["σ² = 0.05", "σ² = 0.5"]
    both = plots.grouped_curves([*seeds("cg"), *seeds("ap")])
    assert [name.replace("<br>", " — ").partition(" — ")[0] for name in legend(both)] == [
        "CG",
        "Alternating projection (greedy, b = 50)",
    ]
    assert {each.line.color for each in both.data if each.line.width} == {
        plots.method_color(trace.method) for trace in (seeds("cg")[0], seeds("ap")[0])
    }


def test_a_single_run_has_no_band(seeds):
    figure = plots.grouped_curves(seeds("cg")[:1])
    assert legend(figure) == ["CG — 1 run, 1 converged"] and not any(each.fill for each in figure.data)


@pytest.mark.slow
def test_a_group_has_at_most_four_curves_for_any_number_of_seeds(seeds):
    traces = [trace for noise in range(1, 11) for _ in range(10) for trace in seeds("cg", noise=noise / 10)]
    assert len(plots.grouped_curves(traces).data) == 40


def test_the_test_error_over_seeds_omits_runs_without_one_with_a_note(runs):
    figure = plots.grouped_curves([runs["ap"], runs["cg"], runs["pcg"]], y="test_rmse")
    assert len(legend(figure)) == 2 and "1 of 3 runs recorded none" in figure.layout.title.text
    with pytest.raises(ValueError, match="no trace has a test rmse"):
        plots.grouped_curves(runs["pcg"], y="test_rmse")


@pytest.mark.parametrize(("name", "known"), [("y", "residual, test_rmse"), ("band", "quartiles, range")])
def test_an_unknown_choice_is_an_error_that_lists_the_known_ones(runs, name, known):
    with pytest.raises(ValueError, match=f"{name} must be one of {known}, got 'all'"):
        plots.grouped_curves(runs["cg"], **{name: "all"})


# --- over systems -------------------------------------------------------------------------------------------------


def test_profiles_state_the_number_of_systems_and_how_many_each_method_solved(seeds):
    cg, ap = [*seeds("cg"), *seeds("cg", noise=0.5)], [*seeds("ap"), *seeds("ap", noise=0.5)]
    for place, (one, other) in enumerate(zip(cg, ap, strict=True)):
        one.tree.attrs["data"] = other.tree.attrs["data"] = f"{place}"
    ap[0].tree.attrs["stop_reason"] = "max_epochs"
    figure = plots.performance_profiles([*cg, *ap])
    assert legend(figure) == ["CG — solved 6 of 6", "Alternating projection (greedy, b = 50)<br>solved 5 of 6"]
    assert "6 systems of 3 seeds, to tolerance 0.01" in figure.layout.title.text
    one, other = (drawn(figure, name)[0] for name in legend(figure))
    # equal work on five systems, and one that AP never solved: constant to the end of the axis
    assert one.y.tolist() == [1.0, 1.0] and other.y.tolist() == [5 / 6, 5 / 6]
    assert one.x[0] == other.x[0] == 1.0 and one.x[-1] == other.x[-1] > 1


def test_systems_without_a_run_of_every_method_are_left_out_with_a_note(seeds):
    cg, ap = seeds("cg"), seeds("ap")[:2]
    for place, trace in enumerate([*cg, *ap]):
        trace.tree.attrs["data"] = f"{place % 3}"
    title = plots.performance_profiles([*cg, *ap]).layout.title.text
    assert "2 systems" in title and "1 left out: not run by all methods" in title.replace("<br>", " ")
