"""One system, many solvers: what `apviz compare` is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import comparison


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


def test_given_hyperparameters_replace_the_cards_and_the_provenance_says_so(data):
    chosen = comparison.choose_hyperparameters(data, kernel="rbf", noise=0.5)
    card = data.card.hyperparameters
    assert (chosen.kernel, chosen.noise, chosen.lengthscale) == ("rbf", 0.5, card.lengthscale)
    assert chosen.provenance.startswith(card.provenance) and "kernel, noise as given" in chosen.provenance


def test_a_table_without_known_hyperparameters_gets_a_guess_that_says_it_is_not_fitted(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    path = tmp_path / "rows.csv"
    np.savetxt(path, rows, delimiter=",", header="a,b,y", comments="")
    chosen = comparison.choose_hyperparameters(apviz.datasets.load_table(path, "y"))
    assert "not fitted" in chosen.provenance


def test_every_combination_of_rule_partition_and_block_size_is_a_solver():
    solvers = comparison.choose_solvers(
        ["ap", "cg", "pcg", "cholesky"], rules=["cyclic", "random"], block_sizes=[5, 9],
        partitions=["sequential", "kd-tree"], ranks=[3, 4],
    )  # fmt: skip
    assert len({solver.label for solver in solvers}) == len(solvers) == 2 * 2 * 2 + 1 + 2 + 1


def test_every_method_by_its_name_solves_the_same_system(tmp_path, data):
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=2, dtype=torch.float64)
    solvers = comparison.choose_solvers(comparison.METHODS, block_sizes=[50], ranks=[20], tol=1e-6, max_epochs=2000)
    outcomes = list(comparison.compare(system, solvers, tmp_path, eigenvalues=True))
    assert len(outcomes) == 3 + 7 and all(outcome.trace.converged for outcome in outcomes)
    energies = [outcome.trace["epoch"]["energy"].values[-1] for outcome in outcomes]
    np.testing.assert_allclose(energies, energies[0], rtol=1e-8)
    assert all(outcome.trace["eigenvalues"].sizes["index"] == system.n for outcome in outcomes)


def test_pictures_are_recorded_of_projections_by_gauss_southwell(tmp_path):
    data = apviz.datasets.load("china", n=300)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=1)
    solvers = comparison.choose_solvers(["ap", "overlap", "cg"], block_sizes=[50], rules=["cyclic", "gauss-southwell"])
    traces = [outcome.trace for outcome in comparison.compare(system, solvers, tmp_path, pictures=3)]
    assert ["snapshot" in trace for trace in traces] == [False, True, True, False]
    assert traces[1]["snapshot"]["update"].values.tolist() == [0, 1, 2, 3]


def test_an_unknown_method_is_named_with_those_there_are():
    with pytest.raises(
        ValueError, match=r"methods must be among ap, overlap, cg, pcg, rpcg, schwarz, auto, cholesky, got sor"
    ):
        comparison.choose_solvers(["ap", "sor"])


def test_one_failing_solver_does_not_end_the_comparison(tmp_path):
    """Many equal rows and hardly any noise: no block factor, but conjugate gradients can go on."""
    x = torch.zeros(40, 1)
    system = apviz.KernelSystem(x, torch.randn(40), apviz.RBF(1e-3, 1e6), noise=1e-8)
    solvers = comparison.choose_solvers(["cholesky", "cg"], max_epochs=3)
    outcomes = list(comparison.compare(system, solvers, tmp_path))
    assert [o.solver.label for o in outcomes] == ["CG", "Cholesky"]
    assert all(o.error or o.trace is not None for o in outcomes)


def test_a_second_run_never_overwrites_the_first(tmp_path, data):
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=1)
    for _ in range(2):
        list(comparison.compare(system, [apviz.Cholesky()], tmp_path))
    assert sorted(path.name for path in tmp_path.glob("*.zarr")) == [
        "diabetes-n353-cholesky-run2.zarr",
        "diabetes-n353-cholesky.zarr",
    ]
