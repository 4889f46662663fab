"""The log marginal likelihood against scikit-learn, SciPy and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, ExpSineSquared, Matern, WhiteKernel

import apviz
from apviz.factors import NotPositiveDefinite
from apviz.gp.training.likelihood import estimated_marginal_likelihood, exact_marginal_likelihood
from apviz.gp.training.parametrisation import Parametrisation
from tests.device import DEVICE

NOISE, MEAN = 0.05, 0.3


def data(n=70):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (n, 2))
    return torch.tensor(x), torch.tensor(np.sin(4 * x[:, 0]) + 0.2 * rng.standard_normal(n))


def test_value_and_gradient_equal_those_of_scikit_learn():
    x, y = data()
    theirs = ConstantKernel(1.7) * Matern([0.4, 0.9], nu=2.5) + WhiteKernel(NOISE)
    model = GaussianProcessRegressor(theirs, alpha=0, optimizer=None).fit(x.numpy(), y.numpy() - MEAN)
    value, gradient = model.log_marginal_likelihood(theirs.theta, eval_gradient=True)
    kernel = apviz.Matern52(lengthscale=(0.4, 0.9), outputscale=1.7)
    h = apviz.Hyperparameters.of(kernel, NOISE, MEAN)
    found = exact_marginal_likelihood(x, y, h)
    assert found.value == pytest.approx(value, rel=1e-10) and found.standard_error == 0.0
    logarithmic = Parametrisation(kernel, 0.0, transform="log")
    mine = dict(zip(logarithmic.names, -logarithmic.chain(logarithmic.raw(h), found.gradient), strict=True))
    np.testing.assert_allclose(
        [mine[name] for name in ("outputscale", "lengthscale[0]", "lengthscale[1]", "noise")], gradient, rtol=1e-7
    )


@pytest.mark.parametrize(
    "kernel",
    [
        0.5 * apviz.Matern52(lengthscale=0.4).on(0) + apviz.Periodic(lengthscale=0.8, period=0.7).on(1),
        apviz.RationalQuadratic(lengthscale=(0.4, 0.9), alpha=0.6) * apviz.Linear(lengthscale=0.7),
        apviz.Groups(factor=[[1.0], [-0.5]], variances=[0.4, 0.2]).on(1) * apviz.RBF(lengthscale=0.5).on(0),
    ],
    ids=repr,
)
def test_for_any_kernel_the_value_equals_scipys_and_the_gradient_that_of_differences(kernel):
    x, y = data()
    if "Groups" in repr(kernel):
        x[:, 1] = (x[:, 1] > 0).double()
    of = Parametrisation(kernel, 0.0, transform="log")

    def value(raw):
        h = of.hyperparameters(raw)
        k = h.build_kernel()(x).numpy() + h.noise * np.eye(len(x))
        return -scipy.stats.multivariate_normal(np.full(len(x), h.mean), k).logpdf(y.numpy())

    raw = of.raw(apviz.Hyperparameters.of(kernel, NOISE, MEAN))
    found = exact_marginal_likelihood(x, y, of.hyperparameters(raw))
    assert -found.value == pytest.approx(value(raw), rel=1e-9)
    step = 1e-5 * torch.eye(len(raw), dtype=torch.float64)
    expected = [(value(raw + each) - value(raw - each)) / 2e-5 for each in step]
    np.testing.assert_allclose(of.chain(raw, found.gradient), expected, rtol=1e-5, atol=1e-5)


def test_an_estimate_is_within_a_few_standard_errors_which_it_states_correctly():
    x, y = data(300)
    h = apviz.Hyperparameters.of(apviz.Matern32(lengthscale=0.4), NOISE, MEAN)
    exact = exact_marginal_likelihood(x, y, h)
    system = apviz.KernelSystem(x, y - MEAN, h.build_kernel(), noise=NOISE, device=DEVICE)
    found = [estimated_marginal_likelihood(system, apviz.ConjugateGradient(), 10, seed) for seed in range(12)]
    off = np.array([each.value - exact.value for each in found])
    errors = np.array([each.standard_error for each in found])
    # the stated error is right, as far as a dozen estimates by ten probes can tell
    assert abs(off.mean()) < 3.5 * errors.mean() / math.sqrt(len(found))
    assert 0.5 < off.std(ddof=1) / errors.mean() < 2.0 and errors.max() < 10
    mean_gradient = np.mean([float(each.gradient.noise) for each in found])
    spread = np.std([float(each.gradient.noise) for each in found], ddof=1) / math.sqrt(len(found))
    assert abs(mean_gradient - exact.gradient.noise) < 4.5 * spread


def test_with_the_n_scaled_unit_vectors_nothing_is_estimated(monkeypatch):
    x, y = data(40)
    h = apviz.Hyperparameters.of(apviz.Matern32(lengthscale=0.4), NOISE, MEAN)
    exact = exact_marginal_likelihood(x, y, h)
    identity = apviz.gp.Probes(*[math.sqrt(40) * torch.eye(40, dtype=torch.float64, device=DEVICE)] * 2)
    monkeypatch.setattr("apviz.gp.training.likelihood.rademacher", lambda *_: identity)
    system = apviz.KernelSystem(x, y - MEAN, h.build_kernel(), noise=NOISE, device=DEVICE)
    found = estimated_marginal_likelihood(system, apviz.Cholesky(), 40, 0)
    assert found.value == pytest.approx(exact.value, rel=1e-9)
    assert found.gradient.noise == pytest.approx(exact.gradient.noise, rel=1e-7)
    torch.testing.assert_close(
        found.gradient.kernel["lengthscale"], exact.gradient.kernel["lengthscale"], rtol=1e-6, atol=1e-8
    )


def test_a_matrix_that_needs_jitter_has_no_likelihood():
    x = torch.zeros(30, 1, dtype=torch.float64) + torch.linspace(0, 1e-3, 30, dtype=torch.float64)[:, None]
    h = apviz.Hyperparameters.of(apviz.RBF(lengthscale=1.0), 1e-18)
    with pytest.raises(
        NotPositiveDefinite, match="no Cholesky factor in float64 without jitter, .* larger noise_floor"
    ):
        exact_marginal_likelihood(x, x[:, 0], h)


def test_periodic_and_linear_kernels_agree_with_scikit_learn_too():
    x, y = data()
    x = x[:, :1]
    theirs = ExpSineSquared(0.8, 0.7) + DotProduct(0.5) + WhiteKernel(NOISE)
    kernel, noise = apviz.kernels.from_sklearn(theirs)
    model = GaussianProcessRegressor(theirs, alpha=0, optimizer=None).fit(x.numpy(), y.numpy())
    found = exact_marginal_likelihood(x, y, apviz.Hyperparameters.of(kernel, noise))
    assert found.value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)
