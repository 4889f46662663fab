"""The exact posterior of a task, with the certificate of its accuracy."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

import apviz
from benchmarks.referee.task import Prediction, Task, built

#: largest error of a mean, in posterior standard deviations of f; test points of the certificate
ACCURACY, SAMPLE = 1e-4, 64


def exact(task: Task) -> tuple[Prediction, dict[str, Any]]:
    """Return the exact posterior of f at the test inputs, and how its accuracy is known.

    Returns:
        The prediction, and its certificate: `mean` (95% of the means are within this of the exact ones, in posterior
        standard deviations of f, with 95% confidence), `sd` (relative excess of 95% of the standard deviations),
        `proven` (bound on every mean), `residual` and `solver`.

    Raises:
        RuntimeError: the solve or its certificate misses the accuracy.
    """
    h = task.hyperparameters
    assert h is not None  # the task is of the track `same`
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a reference that misses its accuracy is none
        posterior = apviz.Posterior(task.x, task.y, h, dtype=torch.float64, device="cpu", accuracy=ACCURACY)
        mean, variance = posterior.mean_and_variance(task.z, "solves")
        known = posterior.accuracy(task.z, SAMPLE)
    assert posterior.solution is not None  # no weights were given
    certificate = {
        "mean": known.mean_error(), "sd": known.sd_error(), "proven": posterior.mean_error,
        "residual": posterior.solution.residual, "solver": posterior.solver.method.name,
    }  # fmt: skip
    return Prediction(mean.numpy(), variance.numpy(), h.noise), certificate


@functools.lru_cache(maxsize=1)
def reference(data: str, n: int, seed: int) -> tuple[Prediction, dict[str, Any]]:
    """Return the exact posterior of a data set, cached for the next entrants."""
    return exact(built(data, n, seed).task)
