"""Small versions of GPyTorch's regression examples, and their results by Cholesky in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import pytest
import scipy.stats
import torch

from tests.device import DEVICE

kernels, means = gpytorch.kernels, gpytorch.means


class ExactGP(gpytorch.models.ExactGP):
    """The model of GPyTorch's "Simple GP Regression"."""

    def __init__(self, x, y, likelihood, mean=None, kernel=None):
        super().__init__(x, y, likelihood)
        self.mean_module = mean or means.ConstantMean()
        self.covar_module = kernel or kernels.ScaleKernel(kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass
class Example:
    model: Any
    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor

    @property
    def likelihood(self):
        return self.model.likelihood

    def loss(self):
        """Return −log marginal likelihood ÷ n, as in training code."""
        self.model.train()
        self.likelihood.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        return -mll(self.model(self.x), self.y)

    def gradients(self, loss=None):
        self.model.zero_grad()
        (self.loss() if loss is None else loss).backward()
        return {name: p.grad.clone() for name, p in self.model.named_parameters()}

    def train(self, steps=15):
        adam = torch.optim.Adam(self.model.parameters(), lr=0.1)
        for _ in range(steps):
            adam.zero_grad()
            self.loss().backward()
            adam.step()
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def predict(self):
        self.model.eval()
        self.likelihood.eval()
        with torch.no_grad():
            return self.likelihood(self.model(self.test_x))


def example(n=100, d=1, kernel=None, mean=None, dtype=torch.float64, likelihood=None, model=ExactGP):
    """Return sin(2π·) with noise of 0.2 at n points of the unit cube, and GPyTorch's initial hyperparameters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, d))
    y = np.sin(2 * math.pi * x.sum(1)) + 0.2 * rng.standard_normal(n)
    x, y, z = (torch.tensor(v, dtype=dtype).to(DEVICE) for v in (x, y, rng.uniform(size=(20, d))))
    likelihood = likelihood or gpytorch.likelihoods.GaussianLikelihood()
    made = model(x, y, likelihood, mean, kernel).to(DEVICE, dtype)
    return Example(made, x, y, z)


def simple():
    return example(100)


def ard():
    return example(150, 3, kernels.ScaleKernel(kernels.MaternKernel(2.5, ard_num_dims=3)))


EXAMPLES = pytest.mark.parametrize("make", [simple, ard])


def exactly():
    """Make GPyTorch use Cholesky."""
    return gpytorch.settings.max_cholesky_size(10**6)


def exact_probes(n):
    """Return the probes √n·eᵢ, whose mean of zzᵀ is the identity, so that the trace estimate is exact."""
    return math.sqrt(n) * torch.eye(n, dtype=torch.float64, device=DEVICE)


def close(ours, theirs, **tolerance):
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], **tolerance, err_msg=name)


def test_the_loss_of_the_reference_equals_the_density_of_scipy():
    e = simple()
    with torch.no_grad():
        k = e.likelihood(e.model(e.x)).covariance_matrix
        loss = e.loss()
    density = scipy.stats.multivariate_normal.logpdf(e.y.numpy(), np.zeros(100), k.numpy())
    np.testing.assert_allclose(loss, -density / 100, rtol=1e-10)
