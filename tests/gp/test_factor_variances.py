"""Variances by a kept Cholesky factor are those of dense linear algebra, and their bound contains the error."""

import warnings

import mpmath
import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.prediction.factor_variances import FactorVariances
from apviz.operators import CountingOperator


def rows(n=40, m=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, 2)), rng.normal(size=n), rng.uniform(-0.5, 1.5, size=(m, 2))


def posterior(noise, **settings):
    x, y, _ = rows()
    h = apviz.Hyperparameters("rbf", (0.4,), 1.3, noise)
    return apviz.Posterior(x, y, h, dtype=torch.float64, device="cpu", **settings)


def exact_variance(noise, digits=40):
    """Return the variances in 40 digits, with the kernel written out again."""
    x, _, z = rows()
    with mpmath.workdps(digits):
        x, z = (np.vectorize(mpmath.mpf)(each) for each in (x, z))
        kernel = np.vectorize(lambda square: mpmath.mpf(1.3) * mpmath.exp(-square / (2 * mpmath.mpf(0.4) ** 2)))
        k, c = (kernel(((x[:, None] - other) ** 2).sum(2)) for other in (x, z))
        k = mpmath.matrix(k.tolist())
        for i in range(len(x)):
            k[i, i] += mpmath.mpf(noise)
        lower = mpmath.cholesky(k)
        found = []
        for column in c.T:
            v: list = []
            for i, value in enumerate(column):  # forward substitution
                v.append((value - sum(lower[i, j] * v[j] for j in range(i))) / lower[i, i])
            found.append(mpmath.mpf(1.3) - sum(each**2 for each in v))
        return np.array([float(each) for each in found])


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_the_bound_contains_the_error_against_forty_digits(noise):
    model = posterior(noise)
    found = model.variance(rows()[2]).numpy()
    (solve,) = model.variance_solves
    assert solve.converged and solve.epochs == 0 and solve.residual < 1e-8
    error = np.abs(found - exact_variance(noise))
    assert (error <= solve.excess.numpy() + 1e-15).all()
    assert (solve.excess.numpy() <= 0.01 * (found + noise)).all()


def test_a_factor_that_is_too_coarse_is_refined_by_solves():
    """At training rows the variance is at most σ², here 1e-13 of k(0): near the rounding of the factor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = posterior(1.3e-13)
        model.variance(rows()[0][:5])
    assert all(solve.epochs > 0 for solve in model.variance_solves)


def test_means_with_variances_are_those_without():
    x, y, z = rows()
    model = posterior(1e-3)
    mean, variance = model.mean_and_variance(z, include_noise=True)
    k, c = (1.3 * np.exp(-(cdist(x, other) ** 2) / (2 * 0.4**2)) for other in (x, z))
    weights = np.linalg.solve(k + 1e-3 * np.eye(len(x)), np.column_stack([y, c]))
    np.testing.assert_allclose(mean, c.T @ weights[:, 0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(mean, model.mean(z), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(variance, 1.3 + 1e-3 - (c * weights[:, 1:]).sum(0), rtol=1e-6)


def test_no_means_are_left_out_if_variances_come_from_lanczos():
    z, model = rows()[2], posterior(1e-3)
    torch.testing.assert_close(model.mean_and_variance(z, "lanczos", 40)[0], model.mean(z))


def test_a_jitter_on_the_diagonal_counts_as_an_error_of_the_factor():
    x, y, _ = rows()
    system = apviz.KernelSystem(
        torch.from_numpy(x), torch.from_numpy(y), apviz.RBF(lengthscale=0.4), noise=0.01, device="cpu"
    )
    k = system.operator.block(slice(0, len(x)))
    shifted = k + 1e-6 * torch.eye(len(x), dtype=k.dtype)
    by_factor = FactorVariances(torch.linalg.cholesky(shifted), CountingOperator(system.operator))
    assert 1e-6 * np.sqrt(len(x)) < by_factor.error < 1e-5 * np.sqrt(len(x))


def test_a_factor_in_float32_is_not_used():
    model = posterior(1e-2)
    factored = model._methods.by_solves.prepared[0]
    coarse = type(factored)(
        solver=factored.solver, given=factored.given, operator=factored.operator, factor=factored.factor.float()
    )
    assert FactorVariances.of(coarse, model.double) is None
