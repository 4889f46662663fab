"""Sums over a batch of kernels and independent outputs, as GPyTorch's documentation writes them, against GPyTorch."""

from contextlib import nullcontext

import gpytorch
import pytest
import torch
from gpytorch import distributions, kernels, likelihoods

import apviz

N, OUTPUTS = 30, 2


def data():
    generator = torch.Generator().manual_seed(0)
    x, z = (torch.rand(n, 3, generator=generator, dtype=torch.float64) for n in (N, 5))
    y = torch.sin(6 * x[:, 0]) + 0.1 * torch.randn(N, generator=generator, dtype=torch.float64)
    return x, torch.stack([y, x[:, 1] - 2 * y], -1), z


class Additive(gpytorch.models.ExactGP):
    """A sum of one-dimensional kernels with their own lengthscales."""

    def __init__(self):
        x, y, _ = data()
        super().__init__(x, y[:, 0], likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernels.ScaleKernel(kernels.RBFKernel(batch_shape=torch.Size([3])))
        self.covar_module.base_kernel.lengthscale = torch.tensor([0.3, 0.6, 0.9]).reshape(3, 1, 1)
        self.double()

    def forward(self, x):
        covariance = self.covar_module(x.mT.unsqueeze(-1)).sum(dim=-3)
        return distributions.MultivariateNormal(self.mean_module(x), covariance)


class Outputs(gpytorch.models.ExactGP):
    """Independent outputs, each with its own mean, kernel and noise."""

    def __init__(self):
        x, y, _ = data()
        super().__init__(x, y, likelihoods.MultitaskGaussianLikelihood(num_tasks=OUTPUTS))
        batch = torch.Size([OUTPUTS])
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        self.covar_module = kernels.ScaleKernel(kernels.MaternKernel(batch_shape=batch), batch_shape=batch)
        self.covar_module.base_kernel.lengthscale = torch.tensor([0.3, 0.6]).reshape(OUTPUTS, 1, 1)
        self.covar_module.outputscale = torch.tensor([1.0, 3.0])
        self.likelihood.task_noises = torch.tensor([0.1, 0.3])
        self.double()

    def forward(self, x):
        normal = distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
        return distributions.MultitaskMultivariateNormal.from_batch_mvn(normal)


class AdditiveOutputs(Outputs):
    """Independent outputs, whose kernels are sums over inputs: both at once."""

    def __init__(self):
        super().__init__()
        self.covar_module = kernels.RBFKernel(batch_shape=torch.Size([OUTPUTS, 3])).double()

    def forward(self, x):
        covariance = self.covar_module(x.mT.unsqueeze(-1).expand(OUTPUTS, 3, -1, 1)).sum(dim=-3)
        normal = distributions.MultivariateNormal(self.mean_module(x), covariance)
        return distributions.MultitaskMultivariateNormal.from_batch_mvn(normal)


class Count(apviz.Hook):
    """Counts solves."""

    number = 0

    def on_start(self, run):
        self.number += 1


def results(kind, context):
    """Return value and gradient of the marginal likelihood, and predictions."""
    model, z = kind(), data()[2]
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with context:
        value = likelihood(model(*model.train_inputs), model.train_targets)
        value.backward()
        model.eval(), model.likelihood.eval()
        with torch.no_grad():
            found = model(z)
            predictions = found.mean, found.variance, found.covariance_matrix, model.likelihood(found).variance
    return [value.detach(), *(each.grad for each in model.parameters()), *predictions]


@pytest.mark.parametrize("kind", [Additive, Outputs, AdditiveOutputs])
def test_likelihood_gradients_and_predictions_equal_those_of_gpytorch(kind):
    count = Count()
    expected = results(kind, nullcontext())
    found = results(kind, apviz.gpytorch.alternating_projection(solver=apviz.Cholesky(), hooks=[count]))
    assert count.number >= 2
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)


def test_jitter_on_independent_outputs_is_refused():
    class Jittered(Outputs):
        def forward(self, x):
            covariance = self.covar_module(x).add_jitter(1e-3)
            normal = distributions.MultivariateNormal(self.mean_module(x), covariance)
            return distributions.MultitaskMultivariateNormal.from_batch_mvn(normal)

    model = Jittered()
    with apviz.gpytorch.alternating_projection(), pytest.raises(TypeError, match="adds jitter to independent outputs"):
        model(*model.train_inputs)
