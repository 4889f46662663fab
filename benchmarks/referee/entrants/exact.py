"""The exact GP by apviz, with the defaults of its users.

Without given hyperparameters they are fitted to 250 rows, 500, and so on; each fit predicts with all rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import apviz
from apviz.hyperparameters import Hyperparameters
from benchmarks.referee.task import Clock, Prediction, Task

FIRST = 250


class Exact:
    """Predictions with all rows, at given or fitted hyperparameters."""

    operator = "auto"

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        if task.hyperparameters is not None:
            yield self.given(task, task.hyperparameters)
            return
        order, rows = np.random.default_rng(task.seed).permutation(len(task.y)), FIRST
        while True:
            few = order[:rows]
            gp = apviz.GaussianProcess(scale=False, device="cpu").fit(task.x[few], task.y[few])
            yield self.given(task, gp.hyperparameters_)
            if rows >= len(task.y):
                return
            rows *= 2

    def given(self, task: Task, h: Hyperparameters) -> Prediction:
        """Predict with hyperparameters."""
        posterior = apviz.Posterior(task.x, task.y, h, dtype="auto", device="cpu", operator=self.operator)
        mean, variance = posterior.mean_and_variance(task.z)
        return Prediction(mean.numpy(), variance.numpy(), h.noise)
