"""The band of the K-norm error if skeletons approximate most of a column: it comes from passes alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.errors import k_norm_error
from apviz.partitions import PrincipalAxisTree
from apviz.solvers import Skeletons, Subspace

N = 1_000


def points(kind):
    rng = np.random.default_rng(3)
    if kind == "uniform":
        return rng.uniform(size=(N, 2))
    return rng.uniform(size=(12, 2))[rng.integers(12, size=N)] + 0.03 * rng.standard_normal((N, 2))


class Errors(apviz.Hook):
    """Keeps ‖W − W*‖²_K after every epoch, by dense float64 algebra."""

    def __init__(self, matrix, b):
        self.matrix, self.solution, self.found = matrix, np.linalg.solve(matrix, b), []

    def on_start(self, run):
        self.run = run

    def on_epoch(self, epoch):
        gap = self.run.weights.numpy() - self.solution
        self.found.append(np.sum(gap * (self.matrix @ gap)))


def solved(kind, *hooks, **settings):
    """Return the trace and the true errors."""
    x = points(kind)
    b = np.sin(9 * x[:, :1]) + 0.3 * np.random.default_rng(4).standard_normal((N, 2))
    r = np.sqrt(3) * np.linalg.norm(x[:, None] - x[None], axis=-1) / 0.2  # the formula of Matérn-3/2
    truth, recorder = Errors((1 + r) * np.exp(-r) + 0.05 * np.eye(N), b), apviz.Recorder()
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.2), noise=0.05, dtype=torch.float64, device="cpu")
    given = {
        "block_size": 100,
        "partition": PrincipalAxisTree(overlap=1.0),
        "step": Subspace(length=4),
        "columns": Skeletons(rank=20),
    }
    apviz.solve(system, apviz.AlternatingProjection(**given | {"tol": 1e-6} | settings), [*hooks, truth, recorder])
    return recorder.trace, np.array(truth.found)


@pytest.mark.parametrize("settings", [{}, {"columns": Skeletons(rank=5)}, {"precision": "float32"}, {"min_epochs": 8}])
@pytest.mark.parametrize("kind", ["uniform", "clusters"])
def test_the_true_error_is_within_the_band_which_exists_at_passes(kind, settings):
    trace, truth = solved(kind, **settings)
    band, epochs = k_norm_error(trace), trace["epoch"]["epoch"].values
    exact = trace["pass"]["epoch"].values[trace["pass"]["is_exact"].values == 1]
    at = np.flatnonzero(np.isin(epochs, exact) | (epochs == 0))
    np.testing.assert_array_equal(np.flatnonzero(band["upper"].notnull()), at)
    assert len(at) > 2 and trace.converged
    slack = 1e-12 * truth[0]
    assert (band["lower"].values[at] <= truth[at] + slack).all()
    assert (truth[at] <= band["upper"].values[at] + slack).all()
    # the band is at most as wide as the error left by the last pass plus the rounding of h(W) in float64
    np.testing.assert_allclose(band["upper"].values[at][:-1], truth[at][:-1], rtol=0.2, atol=3e-10 * truth[0])


def test_between_passes_energies_of_the_recursion_do_not_give_the_error():
    trace, truth = solved("clusters", min_epochs=8)
    energy = trace["epoch"]["energy"].values
    without = 2 * (energy - energy[-1])
    between = k_norm_error(trace)["upper"].isnull().values
    assert between.sum() > 5 and (np.abs(without - truth)[between] > 0.5 * truth[between]).any()
    assert "pass" in trace["epoch"]["energy"].attrs["how"] and "pass" in trace["update"]["energy_decrease"].attrs["how"]


def test_theorem_1_is_not_claimed_for_updates_with_skeletons():
    trace, _ = solved("uniform")
    band = k_norm_error(trace)
    assert band.attrs["bound_name"] == "no bound is known" and band["bound"].isnull().all()
    assert trace["update"]["guaranteed_decrease"].isnull().all()


@pytest.mark.filterwarnings("ignore::apviz.NotConverged")
def test_a_solve_that_ends_before_its_first_pass_has_the_band_of_its_start():
    trace, truth = solved("uniform", apviz.StopHook(max_work=1.0))
    assert "pass" not in trace and trace.outcome == "stopped"
    band = k_norm_error(trace)
    assert float(band["lower"][0]) <= truth[0] <= float(band["upper"][0]) and band["upper"][1:].isnull().all()


def test_with_exact_columns_every_epoch_has_a_band():
    trace, truth = solved("uniform", columns="exact", step="plain")
    band, slack = k_norm_error(trace), 1e-9 * truth[0]
    assert (band["lower"] <= truth + slack).all() and (truth <= band["upper"] + slack).all()
    assert band.attrs["bound_name"] == "Theorem 1" and "how" not in trace["epoch"]["energy"].attrs
