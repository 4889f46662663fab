"""What the entrants by GPyTorch share: kernel, likelihood, and a training that ends with the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gpytorch
import torch
from torch import Tensor

from benchmarks.referee.task import Clock, Prediction, Task

NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
#: GPyTorch's own lower bound of the noise
NOISE_FLOOR = 1e-4


def parts(task: Task, base: Any = None) -> tuple[Any, Any, Any]:
    """Return mean, scaled kernel and likelihood, fixed at the task's hyperparameters if it has any."""
    h, d = task.hyperparameters, task.x.shape[1]
    if base is None:
        name = "matern52" if h is None else h.kernel
        settings: dict[str, Any] = {"ard_num_dims": d}
        base = gpytorch.kernels.RBFKernel(**settings)
        if name in NU:
            base = gpytorch.kernels.MaternKernel(NU[name], **settings)
    mean, kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(base)
    floor = gpytorch.constraints.GreaterThan(NOISE_FLOOR if h is None else 0.1 * h.noise)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor)
    if h is not None:
        mean.constant.data.fill_(h.mean)
        base.lengthscale, kernel.outputscale, likelihood.noise = torch.tensor([h.lengthscale]), h.outputscale, h.noise
        for module in (mean, kernel, likelihood):
            module.requires_grad_(False)
    return mean, kernel, likelihood


def trained(
    parameters: Any, losses: Callable[[], Iterator[Tensor]], clock: Clock, predicted: Callable[[], Prediction],
    *, rate: float, steps: int,
) -> Iterator[Prediction]:  # fmt: skip
    """Take Adam steps, the last of them with a tenth of the rate, and predict after 8, 16, 32, … steps, and at the end.

    Args:
        parameters: those to train; the ones that are fixed are left out.
        losses: yields the loss of each step.
        rate, steps: step size, and largest number of steps.
    """
    free = [each for each in parameters if each.requires_grad]
    adam = torch.optim.Adam(free, lr=rate)
    for step, loss in enumerate(losses(), 1):
        adam.zero_grad()
        loss.backward()
        adam.step()
        if clock.is_up(0.5) or step >= 0.7 * steps:
            adam.param_groups[0]["lr"] = 0.1 * rate
        is_last = clock.is_up() or step == steps
        if is_last or (step >= 8 and step & (step - 1) == 0):
            yield predicted()
        if is_last:
            return


def prediction(model: Any, likelihood: Any, z: Tensor) -> Prediction:
    """Predict f with a model, which then returns to training."""
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = model(z)
        mean, variance = found.mean.double().numpy(), found.variance.double().numpy()
    model.train()
    likelihood.train()
    return Prediction(mean, variance, likelihood.noise.item())
