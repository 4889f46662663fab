"""Converted kernels of scikit-learn, against the entries by scikit-learn."""

import doctest
import math

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

import apviz
from apviz.kernels import from_sklearn
from tests.device import DEVICE

EVERY = [
    kernels.RBF(0.4), kernels.RBF([0.4, 2.0]), 2.0 * kernels.Matern(0.5, nu=0.5), kernels.Matern(0.5, nu=1.5),
    kernels.Matern([0.5, 1.0], nu=2.5), kernels.Matern(0.5, nu=math.inf), kernels.RationalQuadratic(0.5, alpha=0.3),
    kernels.DotProduct(0.7), kernels.DotProduct(0.0), kernels.DotProduct(0.7) ** 3, kernels.RBF(0.4) ** 2,
    kernels.ConstantKernel(0.3) + kernels.RBF(), 3.0 * (kernels.RBF(0.2) + 0.5 * kernels.DotProduct(1.0)),
    kernels.RBF(0.4) * kernels.DotProduct() + kernels.Matern(nu=1.5),
]  # fmt: skip


@pytest.mark.parametrize("theirs", EVERY, ids=str)
def test_entries_equal_those_of_scikit_learn(theirs):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, (30, 2)), rng.uniform(-1, 1, (10, 2))
    kernel, noise = from_sklearn(theirs, d=2)
    assert noise == 0
    np.testing.assert_allclose(kernel(torch.tensor(x)), theirs(x), atol=1e-12)
    np.testing.assert_allclose(kernel(torch.tensor(x), torch.tensor(z)), theirs(x, z), atol=1e-12)


def test_a_periodic_kernel_of_one_input_equals_that_of_scikit_learn():
    x, theirs = np.linspace(0, 3, 40)[:, None], kernels.ExpSineSquared(0.7, 1.3)
    np.testing.assert_allclose(from_sklearn(theirs)[0](torch.tensor(x)), theirs(x), atol=1e-12)
    with pytest.raises(ValueError, match="ExpSineSquared of 2 inputs .* need not be positive definite"):
        from_sklearn(theirs, d=2)


def test_white_kernels_become_the_noise_and_predictions_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (10, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=60)
    theirs = kernels.WhiteKernel(0.02) + 0.7 * kernels.RBF(0.5) + kernels.WhiteKernel(0.01) + kernels.DotProduct(0.5)
    kernel, noise = from_sklearn(theirs, d=2)
    assert noise == pytest.approx(0.03)
    mean, deviation = GaussianProcessRegressor(theirs, optimizer=None).fit(x, y).predict(z, return_std=True)
    h = apviz.Hyperparameters.of(kernel, noise)
    posterior = apviz.Posterior(x, torch.tensor(y), h, apviz.Cholesky(), device=DEVICE)
    np.testing.assert_allclose(posterior.mean(z), mean, atol=1e-8)
    np.testing.assert_allclose(posterior.variance(z, include_noise=True).sqrt(), deviation, atol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (kernels.WhiteKernel(), ValueError, "is only noise"),
        (kernels.RBF() * kernels.WhiteKernel(), ValueError, "here it is a factor"),
        (kernels.Matern(nu=0.7), ValueError, "Matern has ν = 0.5, 1.5, 2.5, inf here, got 0.7"),
        (kernels.PairwiseKernel(), TypeError, "which apviz does not have"),
        (kernels.RBF() ** 0.5, TypeError, "which apviz does not have"),
    ],
    ids=str,
)
def test_kernels_that_apviz_lacks_are_rejected_by_name(kernel, error, words):
    with pytest.raises(error, match=words):
        from_sklearn(kernel)


def test_its_example_runs():
    (found,) = doctest.DocTestFinder(recurse=False).find(from_sklearn, "from_sklearn", globs={"apviz": apviz})
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found).failed == 0
