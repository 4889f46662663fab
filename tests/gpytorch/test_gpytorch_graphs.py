"""Features with equal values and gradients of their own, and tensors that no parameter list names."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch

import apviz
from tests.trust import gradients

K = gpytorch.kernels
N = 12


def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(N, 2, generator=generator, dtype=torch.float64)
    return x, torch.sin(6 * x[:, 0]) + 0.1 * torch.randn(N, generator=generator, dtype=torch.float64)


class Base(gpytorch.models.ExactGP):
    def __init__(self):
        x, y = data()
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean, self.first, self.second = gpytorch.means.ConstantMean(), K.RBFKernel(), K.MaternKernel(1.5)
        self.first.lengthscale, self.second.lengthscale = 0.4, 0.9

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))


class TwoFactors(Base):
    """Each kernel has features of its own, which are equal before the first step."""

    def __init__(self):
        super().__init__()
        self.one, self.other = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))

    def covariance(self, x):
        return self.first(x * self.one) + self.second(x * self.other)


class TwoFactorsMultiplied(TwoFactors):
    def covariance(self, x):
        return self.first(x * self.one).mul(self.second(x * self.other))


class EqualColumns(Base):
    """The last layer of a network is zero, so that its two features are equal, and each kernel takes one."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 2)
        torch.nn.init.zeros_(self.net.weight)
        torch.nn.init.zeros_(self.net.bias)
        self.first.active_dims, self.second.active_dims = torch.tensor([0]), torch.tensor([1])

    def covariance(self, x):
        f = x[:, :1] + self.net(x)
        return self.first(f) + self.second(f)


class SameColumn(Base):
    """Both kernels take the same column, each by a selection of its own."""

    def __init__(self):
        super().__init__()
        self.first.active_dims = self.second.active_dims = torch.tensor([1])

    def covariance(self, x):
        return self.first(x) + self.second(x)


@pytest.mark.parametrize("kind", [TwoFactors, TwoFactorsMultiplied, EqualColumns, SameColumn])
def test_features_with_equal_values_have_the_gradients_of_finite_differences(kind):
    torch.manual_seed(0)
    model = kind().double().train()
    case = gradients.Case(model, model.train_targets, "auto", 1024)
    found = gradients.gradients(case)
    scale = max(np.abs(each).max(initial=0.0) for each in found.values())
    for name, (expected, _) in gradients.differences(case, scale).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7 * scale, err_msg=name)


@pytest.mark.parametrize("kind", [TwoFactors, EqualColumns, SameColumn])
def test_their_predictions_have_the_gradients_of_gpytorch_in_test_inputs(kind):
    torch.manual_seed(0)
    model, z = kind().double().eval(), data()[0][:5] + 0.03

    def gradient():
        at = z.clone().requires_grad_()
        found = model(at)
        (found.mean.sum() + found.variance.sum()).backward()
        return at.grad

    with gpytorch.settings.max_cholesky_size(100):
        expected = gradient()
    model.train(), model.eval()
    with apviz.gpytorch.alternating_projection():
        torch.testing.assert_close(gradient(), expected, rtol=1e-6, atol=1e-8)


class Detached(Base):
    """One side of the kernel has no gradient."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 2)

    def covariance(self, x):
        f = self.net(x)
        return self.first(f, f.detach())


def test_a_covariance_whose_sides_depend_on_different_parameters_is_refused():
    model = Detached().double().train()
    with apviz.gpytorch.alternating_projection(), pytest.raises(ValueError, match="of which one is detached"):
        model(*model.train_inputs)


class OfAnother(K.Kernel):
    """A kernel that takes a number from elsewhere."""

    number = torch.tensor(1.5)

    def forward(self, x1, x2, diag=False, **params):
        values = torch.exp(-(x1[..., :, None, :] - x2[..., None, :, :]).square().sum(-1) * self.number)
        return values.diagonal(dim1=-1, dim2=-2) if diag else values


class Conditioned(Base):
    """A network gives a number of the kernel, which is no parameter of the kernel."""

    def __init__(self):
        super().__init__()
        self.first, self.net = OfAnother(), torch.nn.Linear(2, 1)

    def covariance(self, x):
        self.first.number = self.net(x).mean().exp()
        return self.first(x)


@pytest.mark.filterwarnings("ignore:apviz does not implement")
def test_a_kernel_with_a_gradient_in_a_tensor_that_it_does_not_own_is_refused():
    model = Conditioned().double().train()
    with apviz.gpytorch.alternating_projection():
        with torch.no_grad():
            assert model(*model.train_inputs).mean.shape == (N,)
        with pytest.raises(TypeError, match="a tensor that is neither an input nor a parameter"):
            model(*model.train_inputs)
