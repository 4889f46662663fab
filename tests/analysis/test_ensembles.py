"""Many runs together: groups that differ only in the seed, medians and bands, performance profiles."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import xarray as xr

import apviz
from apviz.analysis import but_for_the_seed, group_table, median_and_band, performance_profile


def run(work, residual, *, seconds=None, rmse=None, converged=True, method="CG", **attrs):
    """Return a trace with only these epochs and the attributes of a real one."""
    nan = np.full(len(work), np.nan)
    columns = {
        "epoch": np.arange(len(work)),
        "work": work,
        "seconds": work if seconds is None else seconds,
        "residual": residual,
        "test_rmse": nan if rmse is None else rmse,
    }
    epochs = xr.Dataset({name: ("epoch", np.asarray(values)) for name, values in columns.items()})
    root = {
        "method_name": method, "method_details": "", "method": {"family": method}, "dataset": "made", "n": 100, "d": 2,
        "dtype": "float64",
        "noise": 0.1, "tol": 0.01, "status": "finished", "stop_reason": "converged" if converged else "max_epochs",
        "seed": 0, "data": "0",
    }  # fmt: skip
    return apviz.Trace(xr.DataTree.from_dict({"/": xr.Dataset(attrs=root | attrs), "epoch": epochs}))


# --- groups -------------------------------------------------------------------------------------------------------


def test_only_runs_that_differ_in_the_seed_alone_form_a_group():
    alike = [run([1.0], [0.1], seed=seed, data=f"{seed}", created=f"{seed}") for seed in range(3)]
    rule = {"rule": {"type": "random", "seed": 0}}
    settings = [json.dumps(each) for each in (rule, {"rule": {"type": "random", "seed": 5}}, {"max_epochs": 3})]
    others = [
        run([1.0], [0.1], **change)
        for change in (
            {"noise": 0.2}, {"tol": 0.1}, {"dtype": "float32"}, {"device_name": "another"}, {"lengthscale": [0.3]},
            {"dataset": "houses"}, {"method": "AP"}, *({"solver_settings": each} for each in settings),
        )
    ]  # fmt: skip
    groups = but_for_the_seed([*alike, *others])
    assert [len(group) for group in groups] == [3, 1, 1, 1, 1, 1, 1, 1, 2, 1]
    assert groups[0] == alike


def test_without_a_seed_runs_on_the_same_data_form_a_group():
    traces = [run([1.0], [0.1], seed=None, data=data) for data in ("a", "b", "a")]
    assert [len(group) for group in but_for_the_seed(traces)] == [2, 1]


def test_seeds_of_real_solves_are_grouped_by_method_and_noise():
    recorder = apviz.Recorder()
    x = np.linspace(0, 1, 60)[:, None]
    for seed in range(3):
        y = np.sin(6 * x[:, 0]) + 0.1 * np.random.default_rng(seed).normal(size=60)
        for noise in (0.1, 0.2):
            system = apviz.KernelSystem(
                x, y, apviz.Matern52(lengthscale=0.2), noise=noise, seed=seed, dataset="sine", device="cpu"
            )
            for solver in (apviz.ConjugateGradient(), apviz.AlternatingProjection(block_size=20)):
                apviz.solve(system, solver, hooks=[recorder])
    groups = but_for_the_seed(recorder.traces)
    found = [{(each.method_name, each.attrs["noise"]) for each in group} for group in groups]
    assert len(groups) == 4 and all(len(each) == 1 for each in found)
    assert all([each.attrs["seed"] for each in group] == [0, 1, 2] for group in groups)


# --- median and band ----------------------------------------------------------------------------------------------


def value_at(trace, variable, x, place):
    """Return the value of a run at a given x, found epoch by epoch."""
    found = None
    for at, value in zip(trace["epoch"][x].values, trace["epoch"][variable].values, strict=True):
        if at <= place and math.isfinite(value):
            found = value
    return found


@pytest.mark.parametrize("x", ["work", "seconds"])
@pytest.mark.parametrize(("band", "ends"), [("quartiles", (25, 75)), ("range", (0, 100))])
def test_median_and_band_use_the_value_of_each_run_at_that_work(x, band, ends):
    rng = np.random.default_rng(1)
    traces = [
        run(np.cumsum(rng.uniform(0.5, 2, size)), np.exp(-np.cumsum(rng.normal(0.5, 1, size))),
            seconds=np.cumsum(rng.uniform(0.1, 1, size)))
        for size in (5, 9, 7, 12, 6)
    ]  # fmt: skip
    table = median_and_band(traces, x=x, band=band)
    places = sorted({place for trace in traces for place in trace["epoch"][x].values})
    first = max(t["epoch"][x].values[0] for t in traces)
    last = sorted(t["epoch"][x].values[-1] for t in traces)[2]
    np.testing.assert_array_equal(table["x"], [place for place in places if first <= place <= last])
    for row in table.itertuples():
        values = [math.log(value_at(trace, "residual", x, row.x)) for trace in traces]
        expected = [math.exp(np.percentile(values, share)) for share in (ends[0], 50, ends[1])]
        np.testing.assert_allclose([row.low, row.median, row.high], expected)


def test_the_median_of_identical_runs_is_the_run_with_a_band_of_width_zero():
    one = run([0.0, 1.0, 2.0, 3.0], [1.0, 0.5, 0.7, 0.01])
    table = median_and_band([one] * 4)
    for column in ("low", "median", "high"):
        np.testing.assert_allclose(table[column], [1.0, 0.5, 0.7, 0.01])
    assert table["x"].tolist() == [0, 1, 2, 3]


def test_a_converged_run_keeps_its_last_value_and_an_unconverged_one_ends_the_curve():
    quick, slow = run([0.0, 1.0], [1.0, 0.001]), run([0.0, 1.0, 2.0, 3.0], [1.0, 0.9, 0.8, 0.7], converged=False)
    longer = run([0.0, 2.5, 5.0], [1.0, 0.1, 0.001])
    table = median_and_band([quick, slow, longer], band="range")
    assert table["x"].tolist() == [0, 1, 2, 2.5, 3]
    assert table["low"].tolist()[1:] == pytest.approx([0.001] * 4)
    assert median_and_band([quick, longer, longer])["x"].max() == 5.0


@pytest.mark.parametrize("ends", [(3.0, 5.0, 9.0, 6.0, 5.5), (2.0, 4.0, 8.0, 9.0)])
def test_the_median_curve_ends_at_the_seconds_that_the_table_of_groups_says(ends):
    runs = [run([0.0, 1.0, 2.0], [1.0, 0.1, 0.01], seconds=[0.0, end / 2, end]) for end in ends]
    (row,) = group_table([runs]).to_dict("records")
    assert median_and_band(runs, x="seconds")["x"].iloc[-1] == row["seconds"]


def test_epochs_without_predictions_are_skipped_and_a_run_without_any_is_named():
    one = run([0.0, 1.0, 2.0], [1.0, 0.5, 0.1], rmse=[1.0, np.nan, 0.4])
    assert median_and_band([one], "test_rmse")["median"].tolist() == pytest.approx([1.0, 0.4])
    with pytest.raises(ValueError, match="CG has recorded no test_rmse; leave it out"):
        median_and_band([one, run([0.0], [1.0])], "test_rmse")


def test_values_that_are_not_all_positive_have_plain_quantiles():
    traces = [run([0.0], [1.0], rmse=[value]) for value in (0.0, 1.0, 4.0, 9.0)]
    row = median_and_band(traces, "test_rmse").iloc[0]
    assert (row["low"], row["median"], row["high"]) == tuple(np.percentile([0, 1, 4, 9], [25, 50, 75]))


def test_the_table_of_groups_counts_converged_runs_and_uses_their_work_only():
    group = [run([0.0, w], [1.0, r], converged=w < 9) for w, r in ((2.0, 0.01), (4.0, 0.03), (9.0, 0.5))]
    (row,) = group_table([group]).to_dict("records")
    assert (row["runs"], row["converged"], row["work"], row["seconds"], row["residual"]) == (3, 2, 3.0, 3.0, 0.03)
    assert math.isnan(row["test_rmse"])


# --- performance profiles -----------------------------------------------------------------------------------------


def on_systems(**costs):
    """Return one run for every method and system; None stands for one that did not converge."""
    return [
        run([0.0, cost or 50.0], [1.0, 0.01], converged=cost is not None, method=method, data=f"{system}")
        for method, of_one in costs.items()
        for system, cost in enumerate(of_one)
    ]


def share(profile, method, ratio):
    """Return the share of systems that `method` solves within `ratio` times the best time."""
    rows = profile[(profile["method"] == method) & (profile["ratio"] <= ratio)]
    return rows["share"].max()


def test_a_performance_profile_follows_the_definition_of_dolan_and_more():
    """The oracle counts system by system, as in their definition."""
    rng = np.random.default_rng(2)
    costs = {name: [float(c) if rng.random() > 0.2 else None for c in rng.lognormal(1, 1, 25)] for name in "ABC"}
    profile = performance_profile(on_systems(**costs))
    ratios = {name: [] for name in costs}
    for system in range(25):
        solved = [costs[name][system] for name in costs if costs[name][system] is not None]
        for name in costs:
            cost = costs[name][system]
            ratios[name].append(math.inf if cost is None else cost / min(solved))
    for name, ratio in ((name, tau) for name in costs for tau in (1.0, 1.3, 2.0, 5.0, 1e9)):
        expected = sum(each <= ratio * (1 + 1e-9) for each in ratios[name]) / 25
        assert share(profile, name, ratio) == pytest.approx(expected)
    assert profile.attrs["systems"] == 25 and profile.attrs["left_out"] == 0
    assert profile.attrs["unsolved"] == sum(all(costs[name][k] is None for name in costs) for k in range(25))


def test_a_failure_never_counts_at_any_ratio():
    profile = performance_profile(on_systems(A=[1.0, None], B=[2.0, None]))
    assert share(profile, "A", 1e12) == share(profile, "B", 1e12) == 0.5 and profile.attrs["unsolved"] == 1
    never = performance_profile(on_systems(A=[1.0, 1.0], B=[None, None]))
    assert share(never, "B", 1e12) == 0.0


def test_systems_without_a_run_of_a_method_are_left_out_and_counted():
    traces = [
        *on_systems(A=[1.0, 1.0, 1.0], B=[2.0, 2.0]),
        run([1.0], [0.5], method="B", data="2", status="interrupted"),
    ]
    profile = performance_profile(traces)
    assert (profile.attrs["systems"], profile.attrs["left_out"]) == (2, 1)
    assert share(profile, "B", 1.9) == 0.0 and share(profile, "B", 2.0) == 1.0
    assert profile.attrs["runs"] == [0, 1, 3, 4]


def test_repeated_runs_count_by_their_median_and_another_tolerance_is_another_system():
    repeated = [run([0.0, cost], [1.0, 0.01], method="A") for cost in (1.0, 9.0, 4.0)]
    profile = performance_profile([*repeated, run([0.0, 2.0], [1.0, 0.01], method="B")])
    assert share(profile, "A", 1.99) == 0.0 and share(profile, "A", 2.0) == 1.0
    with pytest.raises(ValueError, match="no system has a run of every method .*A: 1, B: 1"):
        performance_profile([repeated[0], run([0.0, 2.0], [1.0, 0.01], method="B", tol=0.1)])


def test_a_profile_of_one_method_is_its_share_of_solved_systems_and_two_precisions_are_two_methods():
    alone = performance_profile(on_systems(A=[1.0, 7.0, None]))
    assert share(alone, "A", 1.0) == share(alone, "A", 1e9) == pytest.approx(2 / 3)
    both = [run([0.0, 1.0], [1.0, 0.01], dtype=dtype) for dtype in ("float32", "float64")]
    assert set(performance_profile(both)["method"]) == {"CG, float32", "CG, float64"}


def test_unfinished_runs_have_no_profile():
    with pytest.raises(ValueError, match="none of these runs has ended"):
        performance_profile([run([1.0], [0.5], status="interrupted")])
