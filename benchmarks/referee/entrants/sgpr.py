"""SGPR by GPyTorch (Titsias, AISTATS 2009): all rows, and inducing points that are trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpytorch
import torch
from torch import Tensor

from benchmarks.referee.entrants.torch_models import parts, prediction, trained
from benchmarks.referee.task import Clock, Prediction, Task

INDUCING, RATE, STEPS = 500, 0.1, 150


class SGPR:
    """Inducing points, in float64, which its Cholesky factors need."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        torch.manual_seed(task.seed)
        x, y, z = (torch.tensor(each) for each in (task.x, task.y, task.z))
        mean, kernel, likelihood = (each.double() for each in parts(task))
        inducing = x[torch.randperm(len(x))[:INDUCING]].clone()
        model = Model(x, y, likelihood, mean, gpytorch.kernels.InducingPointKernel(kernel, inducing, likelihood))
        bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood.double().train(), model.double().train())
        if task.hyperparameters is not None:
            yield prediction(model, likelihood, z)

        def losses() -> Iterator[Tensor]:
            while True:
                yield -bound(model(x), y)

        yield from trained(
            model.parameters(), losses, clock, lambda: prediction(model, likelihood, z), rate=RATE, steps=STEPS
        )


class Model(gpytorch.models.ExactGP):
    """The model of GPyTorch's tutorial."""

    def __init__(self, x: Tensor, y: Tensor, likelihood: Any, mean: Any, kernel: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
