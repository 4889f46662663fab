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
    *outcomes, gradient, steepest = outcomes  # gradient descent needs κ times as long
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
