"""One system, many solvers: the parts of `apviz compare`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import comparison
from apviz.method import distinct_names
from apviz.methods import METHODS


@pytest.fixture(scope="module")
def data():
    return apviz.datasets.load("diabetes", seed=0)


def test_the_system_has_the_centred_targets_first_and_rademacher_probes_after(data):
    hyperparameters = comparison.choose_hyperparameters(data)
    system = comparison.build_system(data, hyperparameters, rhs=5, seed=3)
    assert torch.allclose(system.b[:, 0], data.train_y - hyperparameters.mean)
    assert set(system.b[:, 1:].unique().tolist()) == {-1.0, 1.0}
    again = comparison.build_system(data, hyperparameters, rhs=5, seed=3)
    assert torch.equal(system.b, again.b)


def test_given_hyperparameters_replace_those_of_the_card_and_the_provenance_says_so(data):
    chosen = comparison.choose_hyperparameters(data, kernel="rbf", noise=0.5)
    card = data.card.hyperparameters
    assert (chosen.kernel, chosen.noise, chosen.lengthscale) == ("rbf", 0.5, card.lengthscale)
    assert chosen.provenance.startswith(card.provenance) and "kernel, noise as given" in chosen.provenance


def test_a_fit_whose_results_are_all_replaced_is_not_named(data):
    given = comparison.choose_hyperparameters(data, "rbf", [0.1], 2.0, 0.5)
    assert given.provenance == "mean of the data set's card; kernel, lengthscale, outputscale, noise as given"
    without = comparison.choose_hyperparameters(data, None, [0.1], 2.0, 0.5)
    assert without.provenance.startswith("kernel and mean of the data set's card; ")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a data set without known hyperparameters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(1500, 2))
    y = np.sin(9 * x[:, 0]) + 0.1 * rng.normal(size=1500)
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,y", comments="")
    return apviz.datasets.load_table(path, "y")


def test_a_table_without_known_hyperparameters_gets_fitted_ones(table, monkeypatch):
    monkeypatch.setattr(comparison, "FIT_ROWS", 150)
    chosen = comparison.choose_hyperparameters(table)
    assert chosen.provenance == "fitted here: 40 steps on 150 of 1,200 rows"
    # the noise had variance 0.01, the target more than 0.4, and the second input is irrelevant
    assert chosen.noise < 0.06 and chosen.lengthscale[1] > 2 * chosen.lengthscale[0]
    wider = comparison.choose_hyperparameters(table, kernel="rbf", noise=0.3)
    assert wider.provenance == "fitted here: 40 steps on 150 of 1,200 rows; kernel, noise as given"
    assert (wider.kernel, wider.noise) == ("rbf", 0.3) and wider.lengthscale != chosen.lengthscale


def test_hooks_are_told_about_every_solve_of_a_fit(table, monkeypatch):
    monkeypatch.setattr(comparison, "FIT_ROWS", 50)
    recorder = apviz.Recorder()
    comparison.choose_hyperparameters(table, hooks=[recorder])
    assert len(recorder.traces) == comparison.FIT_STEPS


def test_nothing_is_fitted_if_all_hyperparameters_are_given(table, monkeypatch):
    monkeypatch.setattr(comparison, "_fit", None)
    chosen = comparison.choose_hyperparameters(table, None, [0.5], 2.0, 0.1)
    assert (chosen.kernel, chosen.lengthscale, chosen.outputscale, chosen.noise) == ("matern52", (0.5,), 2.0, 0.1)
    assert chosen.mean == pytest.approx(float(table.train_y.mean()))
    assert chosen.provenance == "mean of the training targets; lengthscale, outputscale, noise as given"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"lengthscale": [1.0, 2.0, 3.0]}, "3 lengthscales were given for inputs with 2 columns"),
        ({"noise": 0.0}, "noise is the variance"),
    ],
)
def test_invalid_settings_of_a_system_are_rejected_before_anything_is_fitted(table, monkeypatch, given, message):
    monkeypatch.setattr(comparison, "_fit", None)
    with pytest.raises(ValueError, match=message):
        comparison.choose_hyperparameters(table, **given)


def test_every_combination_of_rule_partition_and_block_size_is_a_solver():
    solvers = comparison.choose_solvers(
        ["ap", "cg", "pcg", "cholesky"], rules=["cyclic", "random"], block_sizes=[5, 9],
        partitions=["sequential", "kd-tree"], ranks=[3, 4],
    )  # fmt: skip
    assert len(set(distinct_names([solver.method for solver in solvers]))) == len(solvers) == 2 * 2 * 2 + 1 + 2 + 1


@pytest.mark.slow
def test_every_method_given_by_name_solves_the_same_system(tmp_path, data):
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=2, dtype=torch.float64)
    solvers = comparison.choose_solvers(list(METHODS), block_sizes=[50], ranks=[20], tol=1e-6, max_epochs=2000)
    outcomes = list(comparison.compare(system, solvers, tmp_path, comparison.Recording(eigenvalues=True)))
    assert len(outcomes) == 3 + len(METHODS) - 1
    # gradient descent needs κ times as long
    gradient, steepest = (found for found in outcomes if found.trace.method.family == "gradient-descent")
    outcomes = [found for found in outcomes if found not in (gradient, steepest)]
    assert all(outcome.trace.converged for outcome in outcomes)
    assert 1e-6 < steepest.trace["epoch"]["residual"][-1] < gradient.trace["epoch"]["residual"][-1] < 0.01
    energies = [outcome.trace["epoch"]["energy"].values[-1] for outcome in outcomes]
    np.testing.assert_allclose(energies, energies[0], rtol=1e-8)
    assert all(outcome.trace["eigenvalues"].sizes["index"] == system.n for outcome in outcomes)


def test_pictures_are_recorded_for_gauss_southwell_projections(tmp_path):
    data = apviz.datasets.load("china", n=300)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=1)
    solvers = comparison.choose_solvers(["ap", "overlap", "cg"], block_sizes=[50], rules=["cyclic", "gauss-southwell"])
    recording = comparison.Recording(pictures=3)
    traces = [outcome.trace for outcome in comparison.compare(system, solvers, tmp_path, recording)]
    assert ["snapshot" in trace for trace in traces] == [False, True, True, False]
    assert traces[1]["snapshot"]["update"].values.tolist() == [0, 1, 2, 3]


def test_pictures_of_every_solver_are_recorded_on_request_with_weights_for_one_input(tmp_path):
    data = apviz.datasets.load("china-profile", n=120)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=2)
    solvers = comparison.choose_solvers(["ap", "cg"], block_sizes=[30], rules=["cyclic"])
    recording = comparison.Recording(pictures=3, pictured=lambda solver: True)
    outcomes = comparison.compare(system, solvers, tmp_path, recording)
    for trace in [outcome.trace for outcome in outcomes]:
        assert trace["snapshot"]["update"].values.tolist() == [0, 1, 2, 3]
        assert trace["snapshot"]["weights"].shape == (4, 120) and not trace["snapshot"]["weights"][0].any()


def test_an_error_about_an_unknown_method_lists_the_known_ones():
    with pytest.raises(
        ValueError, match=r"methods must be among ap, overlap, cg, pcg, rpcg, nystrom, schwarz, .*, got sor"
    ):
        comparison.choose_solvers(["ap", "sor"])


def test_one_failing_solver_does_not_end_the_comparison(tmp_path):
    """Many equal rows and hardly any noise: no block factor, but conjugate gradients still run."""
    x = torch.zeros(40, 1)
    system = apviz.KernelSystem(x, torch.randn(40), apviz.RBF(lengthscale=1e-3, outputscale=1e6), noise=1e-8)
    solvers = comparison.choose_solvers(["cholesky", "cg"], max_epochs=3)
    outcomes = list(comparison.compare(system, solvers, tmp_path))
    assert [o.solver.method.name for o in outcomes] == ["CG", "Cholesky"]
    assert all(o.error or o.trace is not None for o in outcomes)


def test_a_second_run_never_overwrites_the_first(tmp_path, data):
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=1)
    for _ in range(2):
        list(comparison.compare(system, [apviz.Cholesky()], tmp_path))
    assert sorted(path.name for path in tmp_path.glob("*.zarr")) == [
        "diabetes-n353-cholesky-run2.zarr",
        "diabetes-n353-cholesky.zarr",
    ]


def test_a_merged_system_predicts_what_that_of_all_rows_does_and_its_trace_names_both_numbers(tmp_path):
    rng = np.random.default_rng(0)
    places, which = rng.uniform(size=(150, 2)), rng.integers(0, 150, 1_000)
    y = np.sin(6 * places[which, 0]) + 0.2 * rng.standard_normal(1_000)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([places[which], y]), delimiter=",", header="a,b,y", comments="")
    data = apviz.datasets.load_table(tmp_path / "rows.csv", "y", dtype=torch.float64)
    h = apviz.Hyperparameters("matern32", (0.5, 0.5), 1.0, 0.04, 0.1)
    kept, merged = (
        comparison.build_system(data, h, rhs=3, dtype=torch.float64, device="cpu", duplicates=how)
        for how in ("keep", "merge")
    )
    assert (kept.n, kept.merged_rows) == (800, None) and merged.n <= 150 and merged.merged_rows == 800
    # the oracle: dense NumPy on all 800 rows
    x, z = data.train_x.numpy(), data.test_x.numpy()
    covariance = [apviz.Matern32(lengthscale=0.5)(torch.tensor(x), torch.tensor(each)).numpy() for each in (x, z)]
    w = np.linalg.solve(covariance[0] + 0.04 * np.eye(800), data.train_y.numpy() - 0.1)
    solution = apviz.solve(merged, apviz.Cholesky(tol=1e-12))
    k = apviz.Matern32(lengthscale=0.5)(torch.tensor(z), merged.x)
    np.testing.assert_allclose(k @ solution.weights[:, 0], covariance[1].T @ w, rtol=1e-9, atol=1e-10)
    (outcome,) = comparison.compare(merged, [apviz.Cholesky()], tmp_path / "runs", comparison.Recording(data, 0.1))
    assert outcome.trace.attrs["n"] == merged.n and outcome.trace.attrs["merged_rows"] == 800
    rmse = float(np.sqrt(np.mean((covariance[1].T @ w + 0.1 - data.test_y.numpy()) ** 2)))
    assert float(outcome.trace["epoch"]["test_rmse"][-1]) == pytest.approx(rmse, rel=1e-4)
    said = f"800 training rows at {merged.n} distinct inputs"
    assert comparison.duplicates_in_words(data, kept) == f"{said}: kept; {merged.n} merged rows predict the same"
    assert comparison.duplicates_in_words(data, merged) == f"{said}: merged, solved as {merged.n} rows"
    assert f"{merged.n} rows (merged from 800)" in apviz.advise(merged).system
    assert f"800 rows at {merged.n} distinct inputs: apviz.duplicates merges them" in str(apviz.advise(kept))
    with pytest.raises(ValueError, match="duplicates must be keep or merge, got 'drop'"):
        comparison.build_system(data, h, duplicates="drop")


def test_without_duplicate_rows_merging_changes_no_bit(data):
    h = comparison.choose_hyperparameters(data)
    kept, merged = (comparison.build_system(data, h, rhs=3, duplicates=how) for how in ("keep", "merge"))
    assert torch.equal(kept.given_b, merged.given_b) and merged.noise == kept.noise and merged.merged_rows is None
    assert merged.operator.noises is None and comparison.duplicates_in_words(data, merged) == ""


def test_a_merged_system_of_many_rows_can_be_forecast():
    rng = torch.Generator().manual_seed(0)
    places = torch.rand(2_500, 2, generator=rng, dtype=torch.float64)
    x = places[torch.randint(0, 2_500, (9_000,), generator=rng)]
    rows = apviz.duplicates.merged(x, torch.sin(6 * x[:, 0]))
    system = apviz.KernelSystem(
        rows.x, rows.y, apviz.Matern52(lengthscale=0.3), noise=rows.noises(0.1), device="cpu", merged_rows=rows.n
    )
    advice = apviz.advise(system)
    assert advice.best.chance > 0.5 and advice.duplicates == "" and apviz.solve(system, advice.best.solver).converged
