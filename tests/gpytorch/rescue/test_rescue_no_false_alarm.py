"""GPyTorch's tutorials in the order of its documentation, rebuilt and trained in the same way: `diagnose` finds nothing
wrong with any of them, before or after the training."""

from __future__ import annotations

import math
import warnings

import gpytorch
import pytest
import torch

import apviz
from apviz.analysis import Limit
from tests.gpytorch.test_gpytorch_examples import ExactGP, kernels, means

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
MVN = gpytorch.distributions.MultivariateNormal
GaussianLikelihood = gpytorch.likelihoods.GaussianLikelihood


def wave(n=100):
    x = torch.linspace(0, 1, n)
    return x, torch.sin(2 * math.pi * x) + 0.2 * torch.randn(n)


def simple():
    """Simple GP regression; also saving and loading, and metrics."""
    return ExactGP(*wave(), GaussianLikelihood()), 50, 0.1


def hyperparameters():
    """Working with hyperparameters: priors, constraints, and set values."""
    likelihood = GaussianLikelihood(noise_prior=gpytorch.priors.NormalPrior(0, 1))
    base = kernels.RBFKernel(
        lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 6.0),
        lengthscale_constraint=gpytorch.constraints.Interval(0.01, 0.5),
    )
    model = ExactGP(*wave(), likelihood, kernel=kernels.ScaleKernel(base))
    model.initialize(
        **{"likelihood.noise": 1.0, "covar_module.base_kernel.lengthscale": 0.4, "covar_module.outputscale": 2.0}
    )
    return model, 50, 0.1


def structure():
    """Kernels with additive or product structure, of ten inputs."""
    x = torch.rand(200, 10)
    y = torch.sin(2 * math.pi * x).sum(1) + 0.2 * torch.randn(200)
    base = kernels.AdditiveStructureKernel(kernels.ScaleKernel(kernels.MaternKernel(2.5)), num_dims=10)
    return ExactGP(x, y, GaussianLikelihood(), kernel=base), 50, 0.1


class Sinc(kernels.Kernel):
    """From "Implementing a custom kernel": stationary, with the lengthscale as its only hyperparameter."""

    has_lengthscale = True

    def forward(self, x1, x2, **params):
        return torch.sinc(self.covar_dist(x1.div(self.lengthscale), x2.div(self.lengthscale), **params))


def custom_kernel():
    return ExactGP(*wave(), GaussianLikelihood(), kernel=kernels.ScaleKernel(Sinc())), 50, 0.1


def metrics():
    """Metrics: 20 training points of 100, and an RBF kernel."""
    x, y = wave(20)
    return ExactGP(x, y, GaussianLikelihood()), 50, 0.1


def spectral_mixture():
    """Spectral mixture regression: 15 points without noise."""
    x = torch.linspace(0, 1, 15)
    y = torch.sin(2 * math.pi * x)
    mixture = kernels.SpectralMixtureKernel(num_mixtures=4)
    mixture.initialize_from_data(x, y)
    return ExactGP(x, y, GaussianLikelihood(), kernel=mixture), 100, 0.1


def distributional():
    """Distributional regression: each input is a mean and the logarithm of a variance."""
    mean, deviation = torch.linspace(0, 1, 20), torch.linspace(0.03, 0.01, 20)
    y = torch.sin(2 * math.pi * mean) + 0.2 * torch.randn(20)
    x = torch.stack([mean, (deviation**2).log()], dim=1)
    return (
        ExactGP(x, y, GaussianLikelihood(), kernel=kernels.ScaleKernel(kernels.GaussianSymmetrizedKLKernel())),
        100,
        0.25,
    )


def dirichlet_classification():
    """Classification by regression on transformed labels: three outputs as a batch, one noise per point."""
    x = torch.randn(100, 2)
    labels = (torch.sin(0.15 * 0.7 * math.pi * x.sum(1)) + 1).round().long()
    likelihood = gpytorch.likelihoods.DirichletClassificationLikelihood(labels, learn_additional_noise=True)
    shape = torch.Size([likelihood.num_classes])
    kernel = kernels.ScaleKernel(kernels.RBFKernel(batch_shape=shape), batch_shape=shape)
    return (
        ExactGP(x, likelihood.transformed_targets, likelihood, means.ConstantMean(batch_shape=shape), kernel),
        50,
        0.1,
    )


def fast_variances():
    """Fast variances and samples (LOVE), without the deep kernel: 400 points of two inputs."""
    x = torch.rand(400, 2)
    y = torch.sin(2 * math.pi * x[:, 0]) * x[:, 1] + 0.1 * torch.randn(400)
    return ExactGP(x, y, GaussianLikelihood()), 50, 0.1


class Hadamard(gpytorch.models.ExactGP):
    """From "Hadamard multitask GP regression"."""

    def __init__(self, inputs, y, likelihood):
        super().__init__(inputs, y, likelihood)
        self.mean_module, self.covar_module = means.ConstantMean(), kernels.RBFKernel()
        self.task_covar_module = kernels.IndexKernel(num_tasks=2, rank=1)

    def forward(self, x, i):
        return MVN(self.mean_module(x), self.covar_module(x).mul(self.task_covar_module(i)))


def hadamard_multitask():
    x1, x2 = torch.rand(50), torch.rand(50)
    y = torch.cat([torch.sin(2 * math.pi * x1), torch.cos(2 * math.pi * x2)]) + 0.2 * torch.randn(100)
    task = torch.full((100, 1), 0, dtype=torch.long)
    task[50:] = 1
    return Hadamard((torch.cat([x1, x2]), task), y, GaussianLikelihood()), 50, 0.1


class Multitask(gpytorch.models.ExactGP):
    """From "Multitask GP regression"."""

    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = means.MultitaskMean(means.ConstantMean(), num_tasks=2)
        self.covar_module = kernels.MultitaskKernel(kernels.RBFKernel(), num_tasks=2, rank=1)

    def forward(self, x):
        return gpytorch.distributions.MultitaskMultivariateNormal(self.mean_module(x), self.covar_module(x))


def multitask():
    x = torch.linspace(0, 1, 100)
    y = torch.stack([torch.sin(2 * math.pi * x), torch.cos(2 * math.pi * x)], -1) + 0.2 * torch.randn(100, 2)
    return Multitask(x, y, gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)), 50, 0.1


class Independent(gpytorch.models.ExactGP):
    """From "Batch independent multioutput GP"."""

    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        shape = torch.Size([2])
        self.mean_module = means.ConstantMean(batch_shape=shape)
        self.covar_module = kernels.ScaleKernel(kernels.RBFKernel(batch_shape=shape), batch_shape=shape)

    def forward(self, x):
        batch = MVN(self.mean_module(x), self.covar_module(x))
        return gpytorch.distributions.MultitaskMultivariateNormal.from_batch_mvn(batch)


def batch_independent():
    x = torch.linspace(0, 1, 100)
    y = torch.stack([torch.sin(2 * math.pi * x), torch.cos(2 * math.pi * x)], -1) + 0.2 * torch.randn(100, 2)
    return Independent(x, y, gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)), 50, 0.1


TUTORIALS = [
    hyperparameters, structure, custom_kernel, metrics, simple, spectral_mixture, distributional,
    dirichlet_classification, fast_variances, hadamard_multitask, multitask, batch_independent,
]  # fmt: skip


#: nats per row
SPIKE = 0.5


@pytest.mark.parametrize("make", TUTORIALS, ids=[make.__name__ for make in TUTORIALS])
def test_nothing_is_wrong_with_a_tutorial(make):
    torch.manual_seed(0)
    model, steps, rate = make()
    before = apviz.gpytorch.diagnose(model)
    assert before.limit is Limit.NOTHING and before.before.is_good, str(before)
    model.train()
    model.likelihood.train()
    adam, losses = torch.optim.Adam(model.parameters(), lr=rate), []
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    # with other rounding, step 100 may be at a spike of Adam, where "step too large" is no false alarm
    while True:
        adam.zero_grad()
        loss = -mll(model(*model.train_inputs), model.train_targets).sum()
        losses.append(loss.item())
        if len(losses) > steps and (losses[-1] <= min(losses) + SPIKE or len(losses) > 2 * steps):
            break
        loss.backward()
        adam.step()
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(*model.train_inputs)  # caches of a prediction do not interfere
        found = apviz.gpytorch.diagnose(model, model.likelihood, losses=losses)
    assert found.limit is Limit.NOTHING and found.before.is_good, str(found)
