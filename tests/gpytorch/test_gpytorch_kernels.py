"""GPyTorch models of all kernels in apviz, and of their sums and products, against Cholesky in float64."""

from __future__ import annotations

import warnings

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import (
    AdditiveStructureKernel,
    ConstantKernel,
    CosineKernel,
    IndexKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    PiecewisePolynomialKernel,
    PolynomialKernel,
    ProductStructureKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
    SpectralMixtureKernel,
)

import apviz
from apviz.gpytorch.kernels import convert
from tests.device import DEVICE

N = 120


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, modules, covariance=None):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.LinearMean(3)
        self.covar_module, self.covariance = modules, covariance

    def forward(self, x):
        covariance = self.covar_module(x) if self.covariance is None else self.covariance(self.covar_module, x)
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), covariance)


def mixture(**given):
    kernel = SpectralMixtureKernel(num_mixtures=2, **given)
    kernel.mixture_means = torch.linspace(0.2, 1.0, kernel.mixture_means.numel()).reshape(kernel.mixture_means.shape)
    return kernel


#: modules, and the covariance that forward makes of them if it does more than call them
MODELS = {
    "rbf": lambda: (ScaleKernel(RBFKernel(ard_num_dims=3)),),
    "rational quadratic": lambda: (ScaleKernel(RQKernel(ard_num_dims=3)),),
    "periodic": lambda: (ScaleKernel(PeriodicKernel(ard_num_dims=2, active_dims=(0, 1))),),
    "linear": lambda: (LinearKernel(ard_num_dims=3),),
    "polynomial": lambda: (ScaleKernel(PolynomialKernel(power=3)),),
    "piecewise polynomial": lambda: (ScaleKernel(PiecewisePolynomialKernel(q=1)),),
    "mixture": lambda: (mixture(active_dims=(1,)),),
    "mixture of two inputs": lambda: (ScaleKernel(mixture(ard_num_dims=2, active_dims=(0, 1))),),
    "sum on columns": lambda: (
        ScaleKernel(RBFKernel(active_dims=(0,))) + ScaleKernel(LinearKernel(active_dims=(1,))) + ConstantKernel(),
    ),
    "product": lambda: (ScaleKernel(PeriodicKernel(active_dims=(0,)) * RBFKernel(active_dims=(1,))),),
    "cosine": lambda: (ScaleKernel(CosineKernel(active_dims=(0,)) * RBFKernel()),),
    "scaled in one another": lambda: (
        ScaleKernel(ScaleKernel(ScaleKernel(RBFKernel())) + MaternKernel(nu=1.5)) * LinearKernel(ard_num_dims=3),
    ),
    "additive": lambda: (AdditiveStructureKernel(ScaleKernel(RBFKernel()), num_dims=3),),
    "product of structure": lambda: (ScaleKernel(ProductStructureKernel(MaternKernel(nu=0.5), num_dims=3)),),
    "hadamard multitask": lambda: (
        torch.nn.ModuleList([ScaleKernel(RBFKernel()), IndexKernel(num_tasks=3, rank=2)]),
        lambda k, x: k[0](x[:, :2]).mul(k[1](x[:, 2:].long())),
    ),
    "sum of covariances": lambda: (
        torch.nn.ModuleList([ScaleKernel(RBFKernel()), LinearKernel()]),
        lambda k, x: k[0](x[:, :2]) + 2.0 * k[1](x[:, 1:]),
    ),
    "sum and multiple of covariances, multiplied": lambda: (
        torch.nn.ModuleList([ScaleKernel(MaternKernel(0.5)), PeriodicKernel(), MaternKernel(0.5)]),
        lambda k, x: (k[0](x[:, :2]) + k[1](x[:, 1:2])) * (0.5 * k[2](x[:, 1:])),
    ),
    "deep": lambda: (
        torch.nn.ModuleList([ScaleKernel(RBFKernel()), torch.nn.Linear(3, 2)]),
        lambda k, x: k[0](torch.tanh(k[1](x))),
    ),
}
EVERY = pytest.mark.parametrize("name", MODELS)
warnings.filterwarnings("ignore", category=DeprecationWarning, module="gpytorch")


def data():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(0, 1, (N, 2)), rng.integers(0, 3, N)])
    y = np.sin(4 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=N)
    z = np.column_stack([rng.uniform(0, 1, (20, 2)), rng.integers(0, 3, 20)])
    return tuple(torch.tensor(values).to(DEVICE) for values in (x, y, z))


def made(name):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # structure kernels are deprecated, but still used
        x, y, z = data()
        model = Model(x, y, *MODELS[name]()).to(DEVICE, torch.float64)
    model.likelihood.noise = 0.05
    return model, z


def natively():
    return gpytorch.settings.fast_computations(False, False, False)


def loss_and_gradients(model, context):
    model.train()
    model.zero_grad()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with context:
        loss = -mll(model(*model.train_inputs), model.train_targets)
        loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@EVERY
def test_value_and_gradients_agree_with_cholesky(name):
    model, _ = made(name)
    expected, theirs = loss_and_gradients(model, natively())
    found, ours = loss_and_gradients(model, apviz.gpytorch.alternating_projection())
    assert found == pytest.approx(expected, rel=1e-9)
    assert ours.keys() == theirs.keys()
    for parameter, gradient in theirs.items():
        torch.testing.assert_close(ours[parameter], gradient, rtol=1e-6, atol=1e-9)


@EVERY
def test_means_variances_and_covariances_agree_with_cholesky(name):
    model, z = made(name)
    model.eval()
    with torch.no_grad(), natively():
        theirs = model(z)
        mean, covariance = theirs.mean, theirs.covariance_matrix
    model.train()  # clears the caches of a prediction
    model.eval()
    with torch.no_grad(), apviz.gpytorch.alternating_projection(solver=apviz.Automatic(tol=1e-8)):
        ours = model(z)
        torch.testing.assert_close(ours.mean, mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.variance, covariance.diagonal(), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(ours.covariance_matrix, covariance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["sum on columns", "deep", "hadamard multitask"])
def test_training_by_projections_ends_like_training_by_cholesky(name):
    ends = []
    for context in (natively, lambda: apviz.gpytorch.alternating_projection(solver=apviz.Cholesky())):
        model, _ = made(name)
        model.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        with context():
            for _ in range(15):
                optimizer.zero_grad()
                loss = -mll(model(*model.train_inputs), model.train_targets)
                loss.backward()
                optimizer.step()
        ends.append(loss.item())
    assert ends[1] == pytest.approx(ends[0], rel=1e-6)


def test_estimated_gradients_have_the_exact_gradient_as_their_mean():
    """With √n·I as probes there is no randomness, only the tolerance of the solver."""
    model, _ = made("deep")
    _, theirs = loss_and_gradients(model, natively())
    probes = N**0.5 * torch.eye(N, dtype=torch.float64, device=DEVICE)
    context = apviz.gpytorch.alternating_projection(
        solver=apviz.ConjugateGradient(tol=1e-10), probes=probes, log_determinant="lanczos"
    )
    _, ours = loss_and_gradients(model, context)
    for parameter, gradient in theirs.items():
        torch.testing.assert_close(ours[parameter], gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [MaternKernel(nu=0.5), ScaleKernel(RBFKernel(active_dims=(2, 0))), LinearKernel(), mixture(ard_num_dims=3)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_a_converted_kernel_has_the_entries_of_gpytorch_and_its_parameters_in_order(kernel):
    x, _, z = data()
    ours, tensors = convert(kernel.to(DEVICE, torch.float64), 3)
    torch.testing.assert_close(ours(x, z), kernel(x, z).to_dense().detach(), rtol=1e-6, atol=1e-7)
    numbers = [torch.as_tensor(value, dtype=torch.float64).reshape(-1) for value in ours.hyperparameters.values()]
    assert len(numbers) == len(tensors)
    for value, tensor in zip(numbers, tensors, strict=True):
        torch.testing.assert_close(value, tensor.detach().double(), rtol=1e-6, atol=0)


def test_a_product_of_covariances_inside_the_context_agrees_with_gpytorch():
    x = torch.rand(10, 2, dtype=torch.float64)
    with apviz.gpytorch.alternating_projection():
        inside = RBFKernel()(x).mul(LinearKernel()(x))
    torch.testing.assert_close(
        inside.to_dense(), RBFKernel()(x).mul(LinearKernel()(x)).to_dense(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "kernel",
    [
        gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(1.5)),
        gpytorch.kernels.RQKernel() + gpytorch.kernels.LinearKernel(),
        gpytorch.kernels.RBFKernel(active_dims=[0]) * gpytorch.kernels.PeriodicKernel(active_dims=[2]),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_a_converted_kernel_has_the_values_of_gpytorch(kernel):
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    converted = apviz.gpytorch.from_gpytorch(kernel, d=3)
    torch.testing.assert_close(converted(x), kernel.double()(x).to_dense().detach(), rtol=1e-6, atol=1e-9)


def test_an_unsupported_kernel_is_named():
    class Own(gpytorch.kernels.RBFKernel):
        def forward(self, x1, x2, diag=False, **params):
            return 2.0 * super().forward(x1, x2, diag=diag, **params)

    with pytest.raises(TypeError, match="Own"):
        apviz.gpytorch.from_gpytorch(Own(), d=1)
