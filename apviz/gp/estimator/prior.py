"""Predictions before a fit: those of the prior, as in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from torch import Tensor

from apviz.gp.estimator.sklearn_kernels import SklearnModel
from apviz.gp.prediction.pathwise import prior_functions
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, Kernel, centre_of
from apviz.operators import make_operator

# σ² of a prior whose kernel has no noise term
PRIOR_NOISE = 0.1


class Prior:
    """The prior of f, with the methods of `apviz.Posterior` that the estimator uses."""

    def __init__(self, hyperparameters: Hyperparameters) -> None:
        self.hyperparameters, self._kernel = hyperparameters, hyperparameters.build_kernel()

    @classmethod
    def of(cls, kernel: str | Kernel | SklearnKernel, given: Hyperparameters | None, d: int) -> Prior:
        """Return the prior of an estimator: with its hyperparameters, or its kernel as given and mean 0.

        A kernel by name has lengthscale and outputscale 1.
        """
        if given is not None:
            return cls(given)
        if isinstance(kernel, SklearnKernel):
            model = SklearnModel(kernel, d)
            return cls(Hyperparameters.of(model.start, PRIOR_NOISE if model.noise is None else model.noise))
        return cls(Hyperparameters.of(KERNELS[kernel]() if isinstance(kernel, str) else kernel, PRIOR_NOISE))

    def mean(self, x_star: Any) -> Tensor:
        """Return the prior mean at x_star: (m, d), to (m,)."""
        return torch.full((len(x_star),), float(self.hyperparameters.mean), dtype=torch.float64)

    def mean_and_variance(self, x_star: Any, *_: Any, include_noise: bool = False, **__: Any) -> tuple[Tensor, Tensor]:
        """Return the prior's mean and variance, (m,) each."""
        points = torch.as_tensor(x_star, dtype=torch.float64)
        lowered = self._kernel.lowered(points.shape[1])
        features = lowered.features(points, centre_of(points))
        formula = lowered.formula([part.shape[1] for part in features])
        variance = formula.diagonal(torch.cat(features, 1))
        return self.mean(points), variance + self.hyperparameters.noise if include_noise else variance

    def covariance(self, x_star: Any, *, include_noise: bool = False, **_: Any) -> Tensor:
        """Return the prior's covariance, (m, m)."""
        out = self._kernel(torch.as_tensor(x_star, dtype=torch.float64))
        out.diagonal().add_(self.hyperparameters.noise if include_noise else 0.0)
        return out

    def samples(self, count: int, seed: int = 0, *, around: Any, **_: Any) -> Callable[[Any], Tensor]:
        """Draw functions of the prior in a box around points (m, d): a map from points (k, d) to (count, k).

        For 30,000 points or more of up to three inputs, by a Fourier series where that is possible, whose covariance
        errs by at most 1e-3 of the variance; else by 2,000 random features.
        """
        points = torch.as_tensor(around, dtype=torch.float64)
        operator = make_operator("tiled", points, self._kernel, self.hyperparameters.noise)
        functions = prior_functions(operator, count, (2 * seed, 2 * seed + 1))
        return lambda at: (functions(torch.as_tensor(at, dtype=torch.float64)) + self.hyperparameters.mean).T
