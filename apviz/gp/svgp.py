"""Stochastic variational GPs by GPyTorch (Hensman, Fusi & Lawrence, UAI 2013): the paper's baseline."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, centre_of
from apviz.operators.keops import find_cache
from apviz.settings import require, require_number, require_whole
from apviz.system import KernelSystem, tensor_of

find_cache()  # GPyTorch imports KeOps if it is installed
try:
    import gpytorch
except ImportError as error:
    raise ImportError(f"apviz.gp.svgp needs GPyTorch: pip install 'apviz[gpytorch]' ({error})") from error

log = logging.getLogger("apviz")

# test points in a chunk
CHUNK = 8192


@dataclass(frozen=True, kw_only=True)
class SVGPSettings:
    """Settings of SVGP training; the defaults are the paper's (appendix, SVGP training).

    Args:
        kernel: the name of one of `apviz.kernels.KERNELS`, scaled, with a constant mean; all its numbers are trained.
        inducing_points: m, initially a random subset of the inputs, then trained; at most n are used.
        batch_size: number of rows in a minibatch.
        schedule: pairs of a number of epochs and Adam's step size; on gas sensors the paper uses 350 instead of 150.
        noise_floor: σ² stays above this.
        ard: one lengthscale per input, else one for all.
        seed: seed of inducing points, initial variational mean and minibatches.

    Raises:
        ValueError: a setting is out of range; the message says what is accepted.
    """

    kernel: str = "matern52"
    inducing_points: int = 1024
    batch_size: int = 4096
    schedule: tuple[tuple[int, float], ...] = ((50, 0.01), (150, 0.001))
    noise_floor: float = 1e-4
    ard: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        offered = [name for name, kind in KERNELS.items() if kind.gpytorch]
        require(self.kernel in offered, "kernel", self.kernel, f"one of {', '.join(offered)}")
        require_whole("inducing_points", self.inducing_points, 1)
        require_whole("batch_size", self.batch_size, 1)
        require(len(self.schedule) > 0, "schedule", self.schedule, "pairs of epochs and a step size")
        for epochs, step_size in self.schedule:
            require_whole("the epochs of schedule", epochs, 1)
            require_number("the step size of schedule", step_size, 0.0, "a positive number", strictly=True)
        require_number("noise_floor", self.noise_floor, 0.0, "a number, at least 0")
        require_whole("seed", self.seed, 0)


class SVGP:
    """A variational GP on m inducing points: a whitened Gaussian with full covariance, trained on minibatches.

    `run` takes the remaining epochs; run it again to resume after an interruption.

    Args:
        x: (n, d) inputs.
        y: (n,) targets.
        settings: settings of the training.
        dtype, device: as in `KernelSystem`.

    Attributes:
        elbo: evidence lower bound of every epoch, the mean over its minibatches, in nats a row.
        seconds: time spent in `run`.

    Raises:
        ValueError: the data are invalid, as in `KernelSystem`.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        settings: SVGPSettings | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        self.settings = s = settings or SVGPSettings()
        y = tensor_of(y, "y")
        if y.ndim != 1:
            raise ValueError(f"y must have shape (n,), got {tuple(y.shape)}")
        checked = KernelSystem(x, y, KERNELS[s.kernel](), noise=1.0, operator="tiled", dtype=dtype, device=device)
        # GPyTorch takes differences in the dtype of the inputs
        self._centre = centre_of(checked.operator.given)
        self._x, self._y = self._centred(checked.operator.given, checked.dtype), checked.b[:, 0]
        self._generator = torch.Generator().manual_seed(int(s.seed))
        chosen = torch.randperm(checked.n, generator=self._generator)[: s.inducing_points]
        self._inducing = len(chosen)
        self._model = _Model(self._x[chosen.to(self._x.device)].clone(), s.kernel, s.ard).to(self._x)
        constraint = gpytorch.constraints.GreaterThan(s.noise_floor)
        self._likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=constraint).to(self._x)
        self._elbo = gpytorch.mlls.VariationalELBO(self._likelihood, self._model, num_data=checked.n)
        parameters = [*self._model.parameters(), *self._likelihood.parameters()]
        self._adam = torch.optim.Adam(parameters, lr=s.schedule[0][1])
        self.elbo: list[float] = []
        self.seconds = 0.0
        self._initialise()

    def _centred(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return (x.to(self._centre.device, torch.float64) - self._centre).to(dtype)

    def _initialise(self) -> None:
        """Initialise the variational distribution to the prior with a perturbed mean, by the seed of the settings."""
        with torch.random.fork_rng(devices=[self._x.device] if self._x.is_cuda else []), torch.no_grad():
            torch.manual_seed(int(self.settings.seed))
            self._model.train()
            self._model(self._x[:2])

    @property
    def epochs_done(self) -> int:
        """Number of epochs done."""
        return len(self.elbo)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Hyperparameters after the last finished epoch."""
        kernel, name = self._model.covar_module, self.settings.kernel
        base = kernel.base_kernel
        return Hyperparameters(
            name,
            tuple(base.lengthscale.detach().flatten().tolist()),
            kernel.outputscale.item(),
            self._likelihood.noise.item(),
            self._model.mean_module.constant.item(),
            f"{self.epochs_done} epochs of SVGP with {self._inducing} inducing points",
            {parameter: getattr(base, parameter).item() for parameter in KERNELS[name].parameter_names()},
        )

    def run(self) -> Hyperparameters:
        """Run the remaining epochs.

        Raises:
            RuntimeError: the bound is not finite; the message names the epoch.
        """
        self._model.train()
        self._likelihood.train()
        step_sizes = [step_size for epochs, step_size in self.settings.schedule for _ in range(epochs)]
        for step_size in step_sizes[self.epochs_done :]:
            started = time.perf_counter()
            bound = self._epoch(step_size)
            if not math.isfinite(bound):
                raise RuntimeError(
                    f"SVGP epoch {self.epochs_done + 1}: the bound is {bound}; use float64, a larger noise_floor or a "
                    "smaller step size"
                )
            self.elbo.append(bound)
            self.seconds += time.perf_counter() - started
            log.debug("SVGP epoch %d of %d: ELBO %.4f", self.epochs_done, len(step_sizes), bound)
        return self.hyperparameters

    def _epoch(self, step_size: float) -> float:
        for group in self._adam.param_groups:
            group["lr"] = step_size
        order = torch.randperm(len(self._x), generator=self._generator).to(self._x.device)
        total = torch.zeros((), dtype=torch.float64, device=self._x.device)
        for rows in torch.split(order, self.settings.batch_size):
            self._adam.zero_grad()
            bound = self._elbo(self._model(self._x[rows]), self._y[rows])
            (-bound).backward()
            self._adam.step()
            total += bound.detach().double() * len(rows)
        return float(total) / len(self._x)

    def predict(self, x_star: Any, *, include_noise: bool = False) -> tuple[Tensor, Tensor]:
        """Predict mean and variance of f at x_star, or of y with `include_noise`: (m, d), to (m,) each, in chunks.

        Raises:
            ValueError: x_star has another width.
        """
        x_star = tensor_of(x_star, "x_star")
        x_star = x_star[:, None] if x_star.ndim == 1 else x_star
        if x_star.ndim != 2 or x_star.shape[1] != self._x.shape[1]:
            raise ValueError(f"x_star must have shape (m, {self._x.shape[1]}), got {tuple(x_star.shape)}")
        self._model.eval()
        means, variances = [self._x.new_empty(0)], [self._x.new_empty(0)]
        with torch.no_grad():
            for chunk in torch.split(x_star, CHUNK):
                found = self._model(self._centred(chunk, self._x.dtype))
                means.append(found.mean)
                variances.append(found.variance)
        added = self._likelihood.noise.item() if include_noise else 0.0
        return torch.cat(means), torch.cat(variances) + added


class _Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """A model with q(u) = N(m, S) at trained inducing points, a constant mean and a scaled kernel."""

    def __init__(self, inducing_points: Tensor, kernel: str, ard: bool) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing_points))
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing_points, distribution, learn_inducing_locations=True
        )
        super().__init__(strategy)
        dims = inducing_points.shape[1] if ard else None
        found = KERNELS[kernel].gpytorch
        assert found is not None  # the settings were checked
        base = getattr(gpytorch.kernels, found[0])(**found[1], ard_num_dims=dims)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(base)

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
