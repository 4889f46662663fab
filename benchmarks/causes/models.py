"""GPyTorch models and trainings with one thing wrong, or nothing, drawn from a seed."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch import kernels, likelihoods
from scipy.spatial import cKDTree

import apviz
from benchmarks.causes.drawn import Rng, size
from benchmarks.causes.systems import HEALTHY


class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A constant mean and one kernel."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any, kernel: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernel

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass(frozen=True)
class ModelCase:
    """A model, the call that is diagnosed, and the trouble with it."""

    cause: str
    why: str
    model: Any
    test_inputs: torch.Tensor | None = None
    losses: list[float] = field(default_factory=list)
    fast_variances: bool = False

    def diagnosed(self) -> apviz.analysis.Diagnosis:
        fast = gpytorch.settings.fast_pred_var() if self.fast_variances else contextlib.nullcontext()
        with warnings.catch_warnings(), fast:
            warnings.simplefilter("ignore")
            return apviz.gpytorch.diagnose(self.model, test_inputs=self.test_inputs, losses=self.losses)


@dataclass(frozen=True)
class TrainingCase:
    """A training by apviz, and the cause that limited it."""

    cause: str
    why: str
    x: np.ndarray
    y: np.ndarray
    settings: apviz.TrainingSettings
    initial: apviz.Hyperparameters | None = None

    def diagnosed(self) -> apviz.analysis.Diagnosis:
        return apviz.diagnose(self.trained())

    def trained(self) -> apviz.Trace:
        """Return the trace of the training."""
        x, y = torch.tensor(self.x), torch.tensor(self.y)
        training = apviz.Training(x, y, self.settings, device="cpu", initial=self.initial)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            training.run()
        return training.trace


def kernel_of(lengthscale: float, kind: type = kernels.RBFKernel) -> Any:
    made = kernels.ScaleKernel(kind())
    made.base_kernel.lengthscale = lengthscale
    return made


def table(rng: Rng, deviation: float = 0.1, n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    n, d = n or int(rng.integers(120, 250)), int(rng.integers(1, 3))
    x = rng.uniform(-1, 1, (n, d))
    return x, np.sin(rng.uniform(2, 4) * x).sum(1) / d**0.5 + deviation * rng.standard_normal(n)


def model_of(x: np.ndarray, y: np.ndarray, noise: float = 0.01, lengthscale: float = 0.5, dtype: Any = None) -> Model:
    likelihood = likelihoods.GaussianLikelihood()
    made: Model = Model(torch.tensor(x), torch.tensor(y), likelihood, kernel_of(lengthscale)).double()
    made.likelihood.noise = noise
    if dtype is torch.float32:
        made = Model(torch.tensor(x).float(), torch.tensor(y).float(), likelihood, made.covar_module).float()
    return made


def negative_variances(rng: Rng) -> ModelCase:
    """Draw until GPyTorch itself predicts a negative variance."""
    while True:
        n = int(rng.integers(250, 400))
        x = np.sort(rng.uniform(0, 1, n))[:, None]
        s2 = 10 ** (-6 * rng.uniform(size=n))
        y = np.sin(6 * x[:, 0]) + np.sqrt(s2) * rng.standard_normal(n)
        z = torch.linspace(0, 1, int(rng.integers(100, 200)))[:, None]
        x32, y32, s32 = (torch.tensor(each).float() for each in (x, y, s2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            likelihood = likelihoods.FixedNoiseGaussianLikelihood(s32)
            model = Model(x32, y32, likelihood, kernel_of(float(rng.uniform(0.4, 0.7)))).float().eval()
            with gpytorch.settings.fast_pred_var(), torch.no_grad():
                variance = model(z).lazy_covariance_matrix.diagonal()
        if (variance < 0).any():
            return ModelCase("VARIANCES", "fast variances in float32", model.train(), z, fast_variances=True)


def extrapolated(rng: Rng) -> ModelCase:
    x, y = table(rng)
    times = float(rng.uniform(15, 60))
    z = torch.tensor(rng.uniform(-1, 1, (40, x.shape[1])) + 2 + times * 0.5)
    return ModelCase("EXTRAPOLATION", f"test rows {times:.0f} lengthscales away", model_of(x, y), z)


def independent(rng: Rng) -> ModelCase:
    x, y = table(rng)
    times = float(rng.uniform(5, 9))
    apart = float(np.median(cKDTree(x).query(x, k=2)[0][:, 1]))
    return ModelCase("INDEPENDENT", f"rows {times:.1f} lengthscales apart", model_of(x, y, lengthscale=apart / times))


def targets_scaled(rng: Rng) -> ModelCase:
    x, y = table(rng)
    factor = size(rng, 1.5, 3)
    return ModelCase("SCALE", f"targets {factor:.0f} times the prior's spread", model_of(x, factor * (y - y.mean())))


def at_the_floor(rng: Rng) -> ModelCase:
    x, y = table(rng, deviation=0.0)
    return ModelCase("FLOOR", "no noise in the data, σ² at its bound of 1e-4", model_of(x, y, noise=1.03e-4))


def collapsed(rng: Rng) -> ModelCase:
    x, y = table(rng)
    raw = -float(rng.uniform(40, 400))
    model = model_of(x, y)
    model.covar_module.base_kernel.raw_lengthscale.data.fill_(raw)
    return ModelCase("COLLAPSED", f"a raw lengthscale of {raw:.0f}", model)


def exploded(rng: Rng) -> ModelCase:
    x, y = table(rng)
    value = size(rng, 5, 8)
    return ModelCase("COLLAPSED", f"a lengthscale of {value:.1g}", model_of(x, y, lengthscale=value))


def stepped(rng: Rng) -> ModelCase:
    x, y = table(rng)
    losses = [1.3, 0.6, 0.2, -0.1, float(rng.uniform(4, 60))]
    return ModelCase("STEP", f"the loss rose to {losses[-1]:.2g}", model_of(x, y), losses=losses)


def floor_of_training(rng: Rng) -> TrainingCase:
    x = np.linspace(0, 1, 40)[:, None]
    floor = float(rng.uniform(0.05, 0.1))
    settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=120, probes=2, noise_floor=floor)
    return TrainingCase("FLOOR", "no noise in the data, a floor far above", x, np.sin(3 * x[:, 0]), settings)


def short_training(rng: Rng) -> TrainingCase:
    steps = int(rng.integers(6, 10))
    settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=steps, probes=2)
    return TrainingCase("STEPS", f"{steps} steps", *_noisy(rng), settings)


def loose_training(rng: Rng) -> TrainingCase:
    solver = apviz.AlternatingProjection(block_size=20, tol=1.0)
    settings = apviz.TrainingSettings(solver=solver, steps=4, probes=4, noise_floor=1e-4)
    initial = apviz.Hyperparameters("matern52", (1.0,), 1.0, 1e-3, 0.0)
    return TrainingCase("LOOSE", "every step solved to a residual of 1", *_noisy(rng), settings, initial)


def _noisy(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-2, 2, (60, 1))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(60)


def settled_training(rng: Rng) -> TrainingCase:
    settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=150, probes=50)
    return TrainingCase(HEALTHY, "a training that has settled", *_noisy(rng), settings)


def settled_model(rng: Rng) -> ModelCase:
    x, y = table(rng)
    low = -float(rng.uniform(500, 3000))
    losses = [500.0, 0.95 * low, 0.998 * low, low, low + 4]
    return ModelCase(HEALTHY, "summed losses that settled", model_of(x, y), losses=losses)


def fast_model(rng: Rng) -> ModelCase:
    x, y = table(rng)
    z = torch.tensor(rng.uniform(-1, 1, (50, x.shape[1])))
    return ModelCase(HEALTHY, "fast variances in float64", model_of(x, y, noise=0.02), z, fast_variances=True)


def single_model(rng: Rng) -> ModelCase:
    x, y = table(rng, deviation=0.3)
    return ModelCase(HEALTHY, "a usual model in float32", model_of(x, y, noise=0.09, dtype=torch.float32))


MAKERS: tuple[Callable[[Rng], ModelCase | TrainingCase], ...] = (
    *(negative_variances,) * 2, *(extrapolated,) * 2, *(targets_scaled,) * 2, *(at_the_floor,) * 2, independent,
    collapsed, exploded, stepped, floor_of_training, short_training, loose_training,
    settled_training, settled_model, fast_model, single_model,
)  # fmt: skip
