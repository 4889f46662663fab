"""Models of GPyTorch's notebooks and issues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gpytorch
import torch
from gpytorch import kernels as k
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood, MultitaskGaussianLikelihood
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase
from gpytorch.likelihoods.noise_models import HeteroskedasticNoise
from torch import Tensor

N, TEST = 90, 12


class Model(gpytorch.models.ExactGP):
    """A model of modules, whose prior is a function of them.

    Args:
        covariance: of the model and inputs; None: the module `kernel` of the inputs.
        modules: by name; `mean` and `kernel` at least.
    """

    def __init__(self, x, y, likelihood, covariance=None, outputs=False, **modules):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        for name, module in modules.items():
            setattr(self, name, module)
        self.covariance, self.outputs = covariance, outputs

    def forward(self, x, *more):
        covariance = self.kernel(x) if self.covariance is None else self.covariance(self, x, *more)
        return (MultitaskMultivariateNormal if self.outputs else MultivariateNormal)(self.mean(x), covariance)


@dataclass(frozen=True)
class Case:
    """A model, and the test inputs it is asked at."""

    make: Callable[[], tuple[torch.nn.Module, torch.nn.Module]]
    test: tuple[Tensor, ...]


def data(d: int, n: int = N) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (n, d), targets (n,) and test inputs (12, d)."""
    generator = torch.Generator().manual_seed(d)
    x, z = (torch.rand(rows, d, generator=generator, dtype=torch.float64) for rows in (n, TEST))
    y = torch.sin(6 * x[:, 0]) + x.sum(1) + 0.2 * torch.randn(n, generator=generator, dtype=torch.float64)
    return x, y, z


def simple(d: int = 2, noise: Callable[[], torch.nn.Module] = GaussianLikelihood, **modules: Callable) -> Case:
    """A model with one output of d inputs."""
    x, y, z = data(d)

    def make():
        likelihood = noise()
        made = {name: build if name == "covariance" else build() for name, build in modules.items()}
        return Model(x, y, likelihood, **made), likelihood

    return Case(make, (z,))


def mixture(**settings):
    kernel = k.SpectralMixtureKernel(num_mixtures=3, **settings)
    kernel.mixture_means = torch.linspace(0.2, 1.0, kernel.mixture_means.numel()).reshape(kernel.mixture_means.shape)
    return kernel


def noises(n: int = N) -> Tensor:
    return 0.02 + 0.2 * torch.rand(n, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def heteroskedastic():
    x, _, _ = data(2)
    of_noise = Model(x, noises().log(), GaussianLikelihood(), kernel=k.ScaleKernel(k.RBFKernel())).double()
    constraint = gpytorch.constraints.GreaterThan(1e-4, transform=torch.exp, inv_transform=torch.log)
    return _GaussianLikelihoodBase(HeteroskedasticNoise(of_noise, noise_constraint=constraint))


class Sinc(k.Kernel):
    """The kernel that GPyTorch's notebook on own kernels writes."""

    has_lengthscale = True

    def forward(self, x1, x2, **params):
        distance = self.covar_dist(x1.div(self.lengthscale), x2.div(self.lengthscale), **params)
        return torch.where(distance == 0, 1.0, torch.sin(distance) / distance.where(distance != 0, 1.0))


class Halved(k.RBFKernel):
    """A subclass that changes what its kernel computes."""

    def covar_dist(self, x1, x2, **params):
        return 0.5 * super().covar_dist(x1, x2, **params)


class Network(torch.nn.Sequential):
    """The features of a deep kernel."""

    def __init__(self, d):
        torch.manual_seed(3)
        super().__init__(torch.nn.Linear(d, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def deep(model, x):
    return model.kernel(model.features(x))


def inside(model, x):
    return model.kernel(0.7 * x)  # in the unit ball


def jitter(model, x):
    return model.kernel(x).add_jitter(1e-2)


def tasks(outputs: int, build: Callable[[], k.Kernel], mean=gpytorch.means.ConstantMean) -> Case:
    x, y, z = data(2)
    targets = torch.stack([y * (1 + place) + 0.3 * place for place in range(outputs)], 1)

    def make():
        likelihood = MultitaskGaussianLikelihood(num_tasks=outputs)
        means = gpytorch.means.MultitaskMean(mean(), num_tasks=outputs)
        return Model(x, targets, likelihood, outputs=True, mean=means, kernel=build()), likelihood

    return Case(make, (z,))


def derivatives(build: Callable[[int], k.Kernel]) -> Case:
    x, y, z = data(2, 40)
    slopes = torch.stack([6 * torch.cos(6 * x[:, 0]) + 1, torch.ones(len(x), dtype=torch.float64)], 1)

    def make():
        likelihood = MultitaskGaussianLikelihood(num_tasks=3)
        kernel, mean = k.ScaleKernel(build()), gpytorch.means.ConstantMeanGrad()
        return Model(
            x, torch.cat([y[:, None], slopes], 1), likelihood, outputs=True, mean=mean, kernel=kernel
        ), likelihood

    return Case(make, (z,))


def hadamard(model, x, group):
    return model.kernel(x).mul(model.group(group))


def grouped() -> Case:
    x, y, z = data(2)
    which, at = torch.arange(N)[:, None] % 3, torch.arange(TEST)[:, None] % 3

    def make():
        likelihood, groups = GaussianLikelihood(), k.IndexKernel(num_tasks=3, rank=2)
        model = Model((x, which), y + which[:, 0], likelihood, hadamard, kernel=k.RBFKernel(), group=groups)
        return model, likelihood

    return Case(make, (z, at))


def batch(size: int, shared: bool = False) -> Case:
    x, y, z = data(2)
    shape = torch.Size([size])
    targets = torch.stack([y * (1 + place) for place in range(size)])

    def make():
        likelihood = GaussianLikelihood(batch_shape=shape)
        own = torch.Size() if shared else shape
        kernel = k.ScaleKernel(k.MaternKernel(2.5, ard_num_dims=2, batch_shape=own), batch_shape=own)
        mean = gpytorch.means.ConstantMean(batch_shape=shape)
        return Model(x.expand(size, -1, -1), targets, likelihood, mean=mean, kernel=kernel), likelihood

    return Case(make, (z.expand(size, -1, -1),))


def samples_of_hyperparameters() -> Case:
    """A fully Bayesian model as it predicts: a batch of what was sampled, for the same data."""
    case = batch(4)

    def make():
        model, likelihood = case.make()
        model.set_train_data(model.train_inputs, model.train_targets[:1].expand(4, -1), strict=False)
        scales = torch.tensor([0.2, 0.4, 0.8, 1.6])
        model.kernel.base_kernel.lengthscale = scales[:, None, None].expand(4, 1, 2)
        return model, likelihood

    return Case(make, case.test)


def distributions() -> Case:
    """Inputs that are distributions: means, then log variances."""
    x, y, z = data(4)

    def make():
        likelihood = GaussianLikelihood()
        return Model(x, y, likelihood, kernel=k.ScaleKernel(k.GaussianSymmetrizedKLKernel())), likelihood

    return Case(make, (z,))


def weeks(model, x):
    return model.smooth(x) + model.season(x) * model.decay(x) + model.short(x)


MODELS: dict[str, Case] = {
    "RBF (first tutorial)": simple(1, kernel=lambda: k.ScaleKernel(k.RBFKernel())),
    "RBF, ARD": simple(3, kernel=lambda: k.ScaleKernel(k.RBFKernel(ard_num_dims=3))),
    "Matérn-1/2": simple(2, kernel=lambda: k.ScaleKernel(k.MaternKernel(0.5))),
    "Matérn-3/2, linear mean": simple(
        2, kernel=lambda: k.ScaleKernel(k.MaternKernel(1.5)), mean=lambda: gpytorch.means.LinearMean(2)
    ),
    "Matérn-5/2, ARD": simple(2, kernel=lambda: k.ScaleKernel(k.MaternKernel(2.5, ard_num_dims=2))),
    "rational quadratic": simple(2, kernel=lambda: k.ScaleKernel(k.RQKernel(ard_num_dims=2))),
    "periodic": simple(1, kernel=lambda: k.ScaleKernel(k.PeriodicKernel())),
    "linear": simple(3, kernel=lambda: k.LinearKernel(ard_num_dims=3)),
    "polynomial": simple(2, kernel=lambda: k.ScaleKernel(k.PolynomialKernel(power=3))),
    "cosine": simple(1, kernel=lambda: k.ScaleKernel(k.CosineKernel())),
    "spectral mixture": simple(1, kernel=mixture),
    "spectral mixture of two inputs": simple(2, kernel=lambda: mixture(ard_num_dims=2)),
    "spectral delta": simple(1, kernel=lambda: k.ScaleKernel(k.SpectralDeltaKernel(num_dims=1, num_deltas=40))),
    "piecewise polynomial, q = 1": simple(2, kernel=lambda: k.ScaleKernel(k.PiecewisePolynomialKernel(q=1))),
    "piecewise polynomial, q = 2": simple(2, kernel=lambda: k.ScaleKernel(k.PiecewisePolynomialKernel(q=2))),
    "sum: RBF + linear": simple(2, kernel=lambda: k.ScaleKernel(k.RBFKernel()) + k.LinearKernel()),
    "product: RBF × periodic": simple(1, kernel=lambda: k.ScaleKernel(k.RBFKernel() * k.PeriodicKernel())),
    "Mauna Loa: four kernels in forward": simple(
        1, covariance=weeks, smooth=lambda: k.ScaleKernel(k.RBFKernel()), season=lambda: k.PeriodicKernel(),
        decay=lambda: k.ScaleKernel(k.RBFKernel()), short=lambda: k.ScaleKernel(k.RQKernel()),
    ),
    "active_dims": simple(
        3, kernel=lambda: k.ScaleKernel(k.RBFKernel(active_dims=(0, 2))) * k.MaternKernel(2.5, active_dims=(1,))
    ),
    "additive structure": simple(3, kernel=lambda: k.ScaleKernel(k.AdditiveStructureKernel(k.RBFKernel(), 3))),
    "additive, Newton–Girard": simple(
        3, kernel=lambda: k.ScaleKernel(k.NewtonGirardAdditiveKernel(k.RBFKernel(ard_num_dims=3), 3, max_degree=2))
    ),
    "product structure": simple(3, kernel=lambda: k.ScaleKernel(k.ProductStructureKernel(k.RBFKernel(), 3))),
    "deep kernel": simple(
        3, covariance=deep, kernel=lambda: k.ScaleKernel(k.RBFKernel(ard_num_dims=2)), features=lambda: Network(3)
    ),
    "deep kernel with a spectral mixture": simple(
        3, covariance=deep, kernel=lambda: mixture(ard_num_dims=2), features=lambda: Network(3)
    ),
    "KISS-GP (grid interpolation)": simple(
        1, kernel=lambda: k.ScaleKernel(k.GridInterpolationKernel(k.RBFKernel(), grid_size=40, grid_bounds=[(0, 1)]))
    ),
    "SGPR (inducing points)": simple(
        2, kernel=lambda: k.InducingPointKernel(
            k.ScaleKernel(k.RBFKernel()), inducing_points=data(2)[0][:20].clone(), likelihood=GaussianLikelihood()
        ),
    ),
    "random Fourier features": simple(2, kernel=lambda: k.ScaleKernel(k.RFFKernel(num_samples=40, num_dims=2))),
    "arc kernel": simple(2, kernel=lambda: k.ScaleKernel(k.ArcKernel(k.MaternKernel(2.5), ard_num_dims=2))),
    "cylindrical kernel": simple(
        2, covariance=inside, kernel=lambda: k.ScaleKernel(k.CylindricalKernel(3, k.MaternKernel(2.5)))),
    "own kernel, from the notebook": simple(1, kernel=lambda: k.ScaleKernel(Sinc())),
    "subclass that overrides covar_dist": simple(2, kernel=lambda: k.ScaleKernel(Halved())),
    "jitter added in forward": simple(2, covariance=jitter, kernel=lambda: k.ScaleKernel(k.RBFKernel())),
    "inputs that are distributions": distributions(),
    "fixed noises": simple(
        2, lambda: FixedNoiseGaussianLikelihood(noises()), kernel=lambda: k.ScaleKernel(k.RBFKernel())
    ),
    "fixed noises and a learned one": simple(
        2, lambda: FixedNoiseGaussianLikelihood(noises(), learn_additional_noise=True),
        kernel=lambda: k.ScaleKernel(k.RBFKernel()),
    ),
    "heteroskedastic: a GP of the noise": simple(2, heteroskedastic, kernel=lambda: k.ScaleKernel(k.RBFKernel())),
    "multitask, Hadamard": grouped(),
    "multitask, Kronecker": tasks(2, lambda: k.MultitaskKernel(k.RBFKernel(), num_tasks=2, rank=1)),
    "multitask, linear coregionalisation": tasks(
        2, lambda: k.LCMKernel([k.RBFKernel(), k.MaternKernel(1.5)], num_tasks=2, rank=1)
    ),
    "batch of models": batch(3),
    "fully Bayesian: a batch of hyperparameters": samples_of_hyperparameters(),
    "function and its derivatives": derivatives(lambda: k.RBFKernelGrad(ard_num_dims=2)),
}  # fmt: skip
