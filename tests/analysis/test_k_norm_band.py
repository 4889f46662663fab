"""The band of the K-norm error and all bounds contain the truth by dense float64 algebra, in float32 too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import k_norm_error

N = 120
X = np.random.default_rng(0).uniform(-1, 1, (N, 2))
Y = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(N)
GAPS = ((X[:, None] - X[None]) ** 2).sum(-1)

SOLVERS = (
    apviz.AlternatingProjection(block_size=30, rule="gauss-southwell", tol=1e-4, max_epochs=30, check_every=10),
    apviz.AlternatingProjection(block_size=30, rule="cyclic", tol=1e-4, max_epochs=30, check_every=10),
    apviz.ConjugateGradient(tol=1e-4, max_epochs=40),
    apviz.ConjugateGradient(preconditioner=apviz.RandomlyPivotedCholesky(rank=20), tol=1e-6, max_epochs=40),
    apviz.solvers.CoordinateDescentPlusPlus(block_size=30, tol=1e-6, max_epochs=30),
    apviz.ColouredProjection(block_size=30, tol=1e-6, max_epochs=30),
)


class Errors(apviz.Hook):
    """Keeps ‖W − W*‖²_K after every epoch."""

    def __init__(self, k):
        self.k, self.factor, self.found = k, np.linalg.cholesky(k), []

    def on_start(self, run):
        self.run = run

    def on_epoch(self, epoch):
        r = Y - self.k @ self.run.weights.numpy()[:, 0]
        self.found.append(float((np.linalg.solve(self.factor, r) ** 2).sum()))


def solved(solver, noise, dtype, *hooks, **settings):
    """Return the trace and the true errors."""
    truth = Errors(np.exp(-GAPS / 2) + noise * np.eye(N))
    system = apviz.KernelSystem(X, Y, apviz.RBF(lengthscale=1.0), noise=noise, dtype=dtype, device="cpu")
    recorder = apviz.Recorder(**settings)
    apviz.solvers.attempt(system, solver, [truth, recorder, *hooks])
    return recorder.trace, np.array(truth.found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", [1e-3, 1e-5])
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
def test_the_error_is_within_every_band(solver, noise, dtype):
    trace, truth = solved(solver, noise, dtype)
    band = k_norm_error(trace)
    known = band["upper"].notnull().values
    assert (band["lower"].values[known] <= truth[known] * (1 + 1e-6)).all()
    assert (truth[known] <= band["upper"].values[known] * (1 + 1e-6)).all()
    assert known[0] and known[-1]
    is_recursion = solver.name in ("AlternatingProjection", "ConjugateGradient") and dtype == torch.float64
    assert known.all() == is_recursion and band.attrs["at_passes"] != is_recursion


def test_in_float32_energies_of_the_recursion_do_not_give_the_error():
    trace, truth = solved(SOLVERS[3], 1e-4, torch.float32)
    estimate, known = k_norm_error(trace)["estimate"].values, k_norm_error(trace)["upper"].notnull().values
    assert np.isfinite(estimate).all() and (np.abs(estimate - truth)[~known] > 0.1 * truth[~known]).any()


def test_in_float64_the_band_is_as_narrow_as_the_remaining_error():
    trace, truth = solved(apviz.ConjugateGradient(tol=1e-5), 1e-2, torch.float64)
    band = k_norm_error(trace)
    early = truth > 1e3 * truth[-1]
    assert early.sum() > 3
    np.testing.assert_allclose(band["upper"].values[early], truth[early], rtol=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_solve_that_starts_near_the_solution_has_a_valid_band(dtype):
    k = np.exp(-GAPS / 2) + 1e-3 * np.eye(N)
    start = torch.from_numpy(np.linalg.solve(k, Y) * (1 + 1e-6 * np.random.default_rng(2).standard_normal(N)))
    truth, recorder = Errors(k), apviz.Recorder()
    system = apviz.KernelSystem(X, Y, apviz.RBF(lengthscale=1.0), noise=1e-3, dtype=dtype, device="cpu")
    apviz.solvers.attempt(system, SOLVERS[0], [truth, recorder], initial_weights=start)
    band = k_norm_error(recorder.trace)
    assert float(band["lower"][0]) <= truth.found[0] <= float(band["upper"][0])


def test_a_bound_ends_once_rounding_exceeds_it():
    # in exact arithmetic, CG would lower the error forever
    trace, truth = solved(apviz.ConjugateGradient(tol=1e-9, min_epochs=70, max_epochs=70), 10.0, torch.float64)
    bound = k_norm_error(trace)["bound"].values
    drawn = np.isfinite(bound)
    assert drawn[:10].all() and not drawn[-1] and (truth[drawn] <= bound[drawn]).all()
    assert 4 * 0.32**70 * truth[0] < truth[-1]  # the bound without rounding


def test_there_is_no_band_if_squares_overflow_float64():
    system = apviz.KernelSystem(
        X, 1e-200 * Y, apviz.RBF(lengthscale=1.0), noise=1e-2, dtype=torch.float64, device="cpu"
    )
    recorder = apviz.Recorder()
    apviz.solve(system, SOLVERS[2], [recorder])
    assert k_norm_error(recorder.trace)["upper"].isnull().all()


@pytest.mark.parametrize("spectrum", ["exact", "lanczos", "subsample"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounds_on_eigenvalues_hold_for_noise_below_the_rounding_of_lambda_max(spectrum, dtype):
    # every x twice, so that λmin = σ², and one distant point
    x = np.repeat(np.vstack([X[:40], [[1e4, 0.0]]]), 2, axis=0)
    k = np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 2)
    blocks = [slice(i, i + 20) for i in range(0, 82, 20)]
    system = apviz.KernelSystem(
        x, np.ones(82), apviz.RBF(lengthscale=1.0), noise=1e-15, dtype=torch.float64, device="cpu"
    ).with_right_hand_sides(np.ones(82))
    operator = system.operator.in_dtype(dtype)
    system = apviz.KernelSystem(
        x, np.ones(82), apviz.RBF(lengthscale=1.0), noise=1e-15, operator=operator, device="cpu"
    )
    found = apviz.spectrum.spectrum(system, (operator.block(rows) for rows in blocks), spectrum)
    assert found.lambda_min.bound <= 1e-15 and found.lambda_min.is_estimate
    assert found.lambda_max.bound >= np.linalg.eigvalsh(k)[-1] * (1 - 1e-13)
    assert found.lambda_max_block.bound >= max(np.linalg.eigvalsh(k[b, b])[-1] for b in blocks) * (1 - 1e-13)
