"""KISS-GP by GPyTorch (Wilson & Nickisch, ICML 2015): a grid of inducing points, for up to three inputs."""

from __future__ import annotations

from collections.abc import Iterator

import gpytorch
import torch
from torch import Tensor

from benchmarks.referee.entrants.sgpr import Model
from benchmarks.referee.entrants.torch_models import parts, prediction, trained
from benchmarks.referee.task import Clock, DoesNotApply, Prediction, Task

MOST_INPUTS, RATE, STEPS = 3, 0.1, 50


class KISS:
    """A grid of about as many points as rows. With several inputs its kernel is a product of kernels of one input."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        task.need(most_inputs=MOST_INPUTS)
        d, h = task.x.shape[1], task.hyperparameters
        if h is not None and d > 1 and h.kernel != "rbf":
            raise DoesNotApply(f"its grid takes products of kernels of one input, and {h.kernel} is not one")
        torch.manual_seed(task.seed)
        x, y, z = (torch.tensor(each, dtype=torch.float32) for each in (task.x, task.y, task.z))
        everywhere = torch.cat([x, z])
        bounds = list(zip(everywhere.amin(0).tolist(), everywhere.amax(0).tolist(), strict=True))
        base = gpytorch.kernels.MaternKernel(2.5) if d == 1 else gpytorch.kernels.RBFKernel(ard_num_dims=d)
        mean, kernel, likelihood = parts(task, base)
        size = max(10, round(gpytorch.utils.grid.choose_grid_size(x, 1.0)))
        kernel.base_kernel = gpytorch.kernels.GridInterpolationKernel(base, size, d, bounds)
        model = Model(x, y, likelihood, mean, kernel)
        bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood.train(), model.train())

        def losses() -> Iterator[Tensor]:
            while True:
                yield -bound(model(x), y)

        with gpytorch.settings.fast_pred_var():
            if h is not None:
                yield prediction(model, likelihood, z)
                return
            yield from trained(
                model.parameters(), losses, clock, lambda: prediction(model, likelihood, z), rate=RATE, steps=STEPS
            )
