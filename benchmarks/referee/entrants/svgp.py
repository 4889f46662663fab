"""SVGP by GPyTorch (Hensman, Fusi & Lawrence, UAI 2013), with the batches and inducing points of its tutorial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpytorch
import torch
from torch import Tensor

from benchmarks.referee.entrants.torch_models import parts, prediction, trained
from benchmarks.referee.task import Clock, Prediction, Task

# of steps of 0.01, the tutorial's, 0.03 and 0.1 the last predict best in ten seconds
INDUCING, BATCH, RATE, STEPS = 500, 1024, 0.1, 3_000


class SVGP:
    """Inducing points and a Gaussian on them, trained on minibatches in float32."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        torch.manual_seed(task.seed)
        x, y, z = (torch.tensor(each, dtype=torch.float32) for each in (task.x, task.y, task.z))
        mean, kernel, likelihood = parts(task)
        model = Model(x[torch.randperm(len(x))[:INDUCING]].clone(), mean, kernel).train()
        bound = gpytorch.mlls.VariationalELBO(likelihood.train(), model, num_data=len(x))

        def losses() -> Iterator[Tensor]:
            while True:
                for rows in torch.split(torch.randperm(len(x)), BATCH):
                    yield -bound(model(x[rows]), y[rows])

        everything = [*model.parameters(), *likelihood.parameters()]
        yield from trained(
            everything, losses, clock, lambda: prediction(model, likelihood, z), rate=RATE, steps=STEPS
        )  # fmt: skip


class Model(gpytorch.models.ApproximateGP):
    """The model of GPyTorch's tutorial."""

    def __init__(self, inducing: Tensor, mean: Any, kernel: Any) -> None:
        q = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, q, learn_inducing_locations=True))
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
