"""Means and deviations are accurate to a tenth of the posterior deviation, for any number of rows."""

from __future__ import annotations

import math
import pickle
import re
import warnings
from types import SimpleNamespace

import gpytorch
import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.prediction import accuracy
from apviz.gp.prediction.posterior import Posterior
from apviz.solvers.choosing import automatic
from tests.device import DEVICE, only_on_the_cpu
from tests.textbook import CORRELATIONS

LENGTHSCALE = 0.5


def markov(n, sigma, seed=0, m=32):
    """Return data in one dimension and their posterior by the tridiagonal precision of Matérn-1/2, without K."""
    rng = np.random.default_rng(seed)
    # none so close to another that a warning proposes to merge them
    x, z = (rng.permutation(n) + rng.uniform(0.1, 0.9, n)) / n, np.r_[rng.random(m // 2), np.zeros(m // 2)]
    z[m // 2 :] = x[: m // 2]  # the strictest test points: the deviation is smallest at inputs
    z[m // 2 :] += 1e-7  # slightly shifted, so that no two points are equal
    y = np.sin(5 * x) + sigma * rng.standard_normal(n)
    order = np.argsort(both := np.r_[x, z])
    decay = np.exp(-np.diff(both[order]) / LENGTHSCALE)
    gain = -np.expm1(2 * np.log(decay))
    diagonal = np.ones(n + m)
    diagonal[1:] += decay**2 / gain
    diagonal[:-1] += decay**2 / gain
    precision = np.zeros((2, n + m))
    precision[1], precision[0, 1:] = diagonal, -decay / gain
    precision[1] += (order < n) / sigma**2
    places = np.argsort(order)[n:]
    right = np.zeros((n + m, m + 1))
    right[:, 0] = np.where(order < n, np.r_[y, np.zeros(m)][order] / sigma**2, 0.0)
    right[places, np.arange(1, m + 1)] = 1.0
    solved = scipy.linalg.solveh_banded(precision, right)
    sd = np.sqrt(solved[places, np.arange(1, m + 1)])
    h = apviz.Hyperparameters("matern12", (LENGTHSCALE,), 1.0, sigma**2, 0.0)
    return SimpleNamespace(x=x[:, None], y=y, z=z[:, None], h=h, mean=solved[places, 0], sd=sd)


def dense(n, sigma, kernel="rbf", d=2, m=40, seed=0):
    """Return data and their posterior by dense float64 NumPy."""
    rng = np.random.default_rng(seed)
    x, z = rng.random((n, d)), rng.random((m, d))
    z[: m // 2] = x[: m // 2]
    y = np.sin(5 * x[:, 0]) + x[:, -1] + sigma * rng.standard_normal(n)
    correlation = CORRELATIONS[kernel]
    k, c = (correlation(cdist(x, other) / LENGTHSCALE) for other in (x, z))
    factor = scipy.linalg.cholesky(k + sigma**2 * np.eye(n), lower=True)
    half = scipy.linalg.solve_triangular(factor, np.c_[c, y], lower=True)
    mean, sd = half[:, :-1].T @ half[:, -1], np.sqrt(1 - np.square(half[:, :-1]).sum(0))
    h = apviz.Hyperparameters(kernel, (LENGTHSCALE,), 1.0, sigma**2, 0.0)
    return SimpleNamespace(x=x, y=y, z=z, h=h, mean=mean, sd=sd)


def check(p, **settings):
    """Fit and predict without a warning, compare mean and deviation with the exact ones, and return the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        gp = apviz.GaussianProcess(hyperparameters=p.h, scale=False, device=DEVICE, **settings).fit(p.x, p.y)
        mean, sd = gp.predict(p.z, return_std=True, include_noise=False)
    off = np.abs(mean - p.mean) / p.sd
    assert off.max() <= gp.mean_error_ + 0.01 and gp.mean_error_ <= 0.1
    assert (sd / p.sd).max() < 1.1 and (sd / p.sd).min() > 0.99
    return gp


@pytest.mark.parametrize(("n", "sigma"), [(1999, 1e-4), (2001, 1e-4), (2001, 1.0), (2500, 1e-2)])
def test_predictions_are_equally_accurate_around_two_thousand_rows(n, sigma):
    check(markov(n, sigma))


def test_predictions_are_accurate_for_two_inputs_and_little_noise_beyond_two_thousand_rows():
    check(dense(2001, 3e-3))


@pytest.fixture
def no_factor_of_k(monkeypatch):
    """Make every factor of K too expensive, also for `Automatic`."""
    monkeypatch.setattr(accuracy, "_factor_is_cheap", lambda system, tol: False)
    monkeypatch.setattr(automatic, "CHOLESKY_ROWS", 0)
    monkeypatch.setattr(automatic, "cholesky_work", lambda *args: math.inf)


@pytest.mark.parametrize(("sigma", "dtype"), [(1e-4, "float64"), (1e-2, "float64"), (0.3, "float32")])
def test_without_a_factor_of_k_the_noise_decides_the_dtype_and_the_tolerance(no_factor_of_k, sigma, dtype):
    gp = check(markov(600, sigma))
    assert str(gp.posterior_.system.dtype) == f"torch.{dtype}" and isinstance(gp.posterior_.solver, apviz.Automatic)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1e-4, 1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("n", [1999, 2000, 2001, 2500, 20_000])
def test_predictions_from_many_rows_are_as_accurate(monkeypatch, n, sigma):
    monkeypatch.setattr(accuracy, "_factor_fits", lambda system: system.n < 20_000)
    check(markov(n, sigma))
    if n < 20_000:
        check(dense(n, sigma))


def test_if_one_method_fails_the_next_one_is_used(monkeypatch, no_factor_of_k):
    monkeypatch.setattr(accuracy, "LEAST_CAP", 1)
    monkeypatch.setattr(accuracy, "CAP_OF_FACTORS", 0)
    gp = check(dense(500, 0.1, "matern32", d=5, m=10))
    assert isinstance(gp.posterior_.solver, apviz.Cholesky) and gp.posterior_.system.dtype is torch.float64


# --- the bound --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epochs", [1, 3, 8])
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern52"])
def test_no_mean_is_off_by_more_than_the_bound(kernel, epochs, dtype):
    p = dense(150, 0.1, kernel, seed=epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Posterior(
            p.x, p.y, p.h, apviz.ConjugateGradient(tol=1e-12, max_epochs=epochs), dtype=dtype, device=DEVICE
        )
    off = np.abs(found.mean(p.z).numpy() - p.mean) / p.sd
    assert off.max() <= found.mean_error and found.mean_error < 100 * off.max()


def test_the_bound_uses_the_noise_of_each_row():
    p, rng = dense(150, 0.1, "matern32"), np.random.default_rng(1)
    noises = 10 ** rng.uniform(-6, 0, 150)
    k, c = (CORRELATIONS["matern32"](cdist(p.x, other) / LENGTHSCALE) for other in (p.x, p.z))
    inverse = np.linalg.inv(k + np.diag(noises))
    mean, sd = c.T @ inverse @ p.y, np.sqrt(1 - np.einsum("nm,nk,km->m", c, inverse, c))
    for solver in (None, apviz.ConjugateGradient(tol=1e-2)):
        with warnings.catch_warnings():
            warnings.simplefilter("error" if solver is None else "ignore")
            found = Posterior(p.x, p.y, p.h, solver, noises=noises, device=DEVICE)
        assert (np.abs(found.mean(p.z).numpy() - mean) / sd).max() <= found.mean_error + 1e-6
        assert (found.mean_error <= 0.1) == (solver is None)


def test_a_solve_that_hits_its_epoch_limit_warns_how_far_off_means_may_be():
    p = dense(200, 3e-2, "matern32")
    with pytest.warns(apviz.NotConverged, match="predicted means may be off by up to") as said:
        gp = apviz.GaussianProcess(
            solver=apviz.AlternatingProjection(block_size=50, tol=1e-9, max_epochs=2), hyperparameters=p.h, scale=False
        ).fit(p.x, p.y)
    (told,) = re.findall(r"up to (\S+) posterior standard deviations", str(said[0].message))
    assert float(told) == pytest.approx(gp.mean_error_, rel=0.05)
    assert 0.1 < (np.abs(gp.predict(p.z) - p.mean) / p.sd).max() <= gp.mean_error_


def test_a_given_loose_tolerance_is_kept_and_the_warning_states_the_needed_one():
    p = dense(200, 3e-2, "matern32")
    with pytest.warns(UserWarning, match="predicted means may be off by up to") as said:
        gp = apviz.GaussianProcess(solver=apviz.ConjugateGradient(tol=1e-2), hyperparameters=p.h, scale=False).fit(
            p.x, p.y
        )
    assert gp.solution_.converged and (np.abs(gp.predict(p.z) - p.mean) / p.sd).max() > 0.1
    (needed,) = re.findall(r"use tol=(\S+),", str(said[0].message))
    check(p, solver=apviz.ConjugateGradient(tol=float(needed)))


# --- rounding ---------------------------------------------------------------------------------------------------------


def test_predictions_in_a_float32_model_are_computed_in_float64():
    p = dense(200, 1e-3)
    k = CORRELATIONS["rbf"](cdist(p.x, p.x) / LENGTHSCALE) + 1e-6 * np.eye(200)
    found = Posterior(p.x, p.y, p.h, weights=np.linalg.solve(k, p.y), dtype=torch.float32, device=DEVICE)
    assert (np.abs(found.mean(p.z).numpy() - p.mean) < 1e-3 * p.sd).all()


def test_a_saved_or_pickled_model_predicts_bitwise_the_same(tmp_path, no_factor_of_k):
    p = dense(300, 0.3)
    gp = check(p)
    assert gp.posterior_.system.dtype is torch.float32
    gp.save(tmp_path / "gp.npz")
    for again in (apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE), pickle.loads(pickle.dumps(gp))):
        np.testing.assert_array_equal(again.predict(p.z), gp.predict(p.z))
        assert again.mean_error_ == gp.mean_error_ and again.posterior_.system.dtype is torch.float32
        _, sd = again.predict(p.z, return_std=True, include_noise=False)
        np.testing.assert_allclose(sd, p.sd, rtol=0.1)


def test_a_float32_gpytorch_model_predicts_to_a_tenth_of_its_deviation():
    p = dense(300, 1e-2)

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            x, y = (torch.tensor(values, dtype=torch.float32) for values in (p.x, p.y))
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.RBFKernel()
            self.covar_module.lengthscale, self.likelihood.noise = LENGTHSCALE, 1e-4

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().eval()
    noise = float(model.likelihood.noise)
    k, c = (CORRELATIONS["rbf"](cdist(p.x, other) / float(model.covar_module.lengthscale)) for other in (p.x, p.z))
    solved = np.linalg.solve(k + noise * np.eye(300), np.c_[c, p.y])
    sd = np.sqrt(1 - (c * solved[:, :-1]).sum(0))
    with apviz.gpytorch.alternating_projection(), torch.no_grad():
        found = model(torch.tensor(p.z, dtype=torch.float32))
        mean, variance = found.mean.double().numpy(), found.variance.double().numpy()
    assert (np.abs(mean - c.T @ solved[:, -1]) <= 0.1 * sd).all()
    np.testing.assert_allclose(np.sqrt(variance), sd, rtol=0.1)


@only_on_the_cpu("the Fourier operator runs there")
def test_after_a_solve_by_fourier_products_the_residual_is_by_these_too_and_within_its_bound():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (3_000, 2))
    y = np.sin(9 * x.sum(1)) + 0.3 * rng.standard_normal(len(x))
    h = apviz.Hyperparameters("matern52", (0.2,), outputscale=1.0, noise=0.1)
    solver = apviz.ColouredProjection(products="fourier", tol=1e-4)
    posterior = apviz.Posterior(x, y, h, solver, device="cpu", operator="tiled")
    assert posterior.solution.certificate.kind != "exact"
    entries = []
    with pytest.MonkeyPatch.context() as patch:
        exact = apviz.operators.TiledOperator.matmul
        patch.setattr(
            apviz.operators.TiledOperator, "matmul", lambda self, v: (entries.append(self.n), exact(self, v))[1]
        )
        found = posterior._mean_solve.residual()
    assert not entries
    r = cdist(x, x) / 0.2 * 5**0.5
    k = (1 + r + r * r / 3) * np.exp(-r) + 0.1 * np.eye(len(x))
    left = y - k @ posterior.weights.double().numpy()
    assert np.linalg.norm(found.r.numpy() - left) <= found.rounding
    assert found.rounding < 0.1 * np.linalg.norm(left)


@only_on_the_cpu("the Fourier operator runs there")
def test_after_solves_by_fourier_products_variances_are_by_these_too_and_within_their_bound(monkeypatch):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 1, (3_000, 2)), rng.uniform(0, 1, (20, 2))
    h = apviz.Hyperparameters("matern52", (0.2,), outputscale=1.0, noise=0.1)
    solver, entries = apviz.ColouredProjection(products="fourier", tol=1e-4), []
    posterior = apviz.Posterior(x, x[:, 0], h, solver, variance_solver=solver, device="cpu", operator="tiled")
    exact = apviz.operators.TiledOperator.matmul
    monkeypatch.setattr(
        apviz.operators.TiledOperator, "matmul", lambda self, v: (entries.append(self.n), exact(self, v))[1]
    )
    variance = posterior.variance(z, method="solves").numpy()
    rows = torch.arange(0, 3_000, 300)
    diagonal = posterior.inverse_diagonal(rows).numpy()
    assert not entries

    def k(other):
        r = cdist(x, other) / 0.2 * 5**0.5
        return (1 + r + r * r / 3) * np.exp(-r)

    c = k(z)
    of_rows = k(x) + 0.1 * np.eye(len(x))
    truth = 1 - np.einsum("ij,ij->j", c, np.linalg.solve(of_rows, c))
    excess = posterior.variance_solves[0].excess.numpy()
    assert (np.abs(variance - truth) <= excess + 1e-12).all()
    assert (excess < 0.05 * truth).all()
    exact_diagonal = np.linalg.inv(of_rows).diagonal()[rows]
    assert (diagonal <= exact_diagonal * (1 + 1e-9)).all() and (diagonal > 0.999 * exact_diagonal).all()
