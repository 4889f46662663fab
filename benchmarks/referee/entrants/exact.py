"""The exact GP by apviz, with the defaults of its users.

Without given hyperparameters they are fitted to 250 rows, 500, and so on. A fit to some of the rows counts only if it
predicts other rows better than the fit before, as a likelihood of few rows may be largest without any noise. A fit
predicts with all rows if the next one, of twice the rows and four times the work, would not leave half of the budget.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import apviz
from apviz.hyperparameters import Hyperparameters
from benchmarks.referee.task import Clock, Prediction, Task

FIRST, TIMES, WORK = 250, 2, 4
#: rows that judge a fit to others
JUDGING = 500
#: share of the budget that is left for predicting
PREDICTING = 0.5


class Exact:
    """Predictions with all rows, at given or fitted hyperparameters."""

    operator = "auto"

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        if task.hyperparameters is not None:
            yield self.given(task, task.hyperparameters)
            return
        order, rows = np.random.default_rng(task.seed).permutation(len(task.y)), FIRST
        best, is_new = None, False
        while True:
            few, others, began = order[:rows], order[rows : rows + JUDGING], clock.used()
            gp = apviz.GaussianProcess(scale=False, device="cpu").fit(task.x[few], task.y[few])
            next_ends = clock.used() + WORK * (clock.used() - began)
            if best is None or rows >= len(task.y) or _predicts_better(task, gp, best, few, others):
                best, is_new = gp.hyperparameters_, True
            if is_new and (rows >= len(task.y) or next_ends > PREDICTING * clock.budget):
                yield self.given(task, best)
                is_new = False
            if rows >= len(task.y):
                return
            rows *= TIMES

    def given(self, task: Task, h: Hyperparameters) -> Prediction:
        """Predict with hyperparameters."""
        posterior = apviz.Posterior(task.x, task.y, h, dtype="auto", device="cpu", operator=self.operator)
        # errors of standard deviations matter as far as the noise of an observation does not hide them
        mean, variance = posterior.mean_and_variance(task.z, "auto", include_noise=True)
        return Prediction(mean.numpy(), (variance - h.noise).numpy(), h.noise)


def _predicts_better(
    task: Task, gp: apviz.GaussianProcess, before: Hyperparameters, few: NDArray[np.intp], others: NDArray[np.intp]
) -> bool:
    """Compare the fit with the one before, both given the same rows, by the likelihood of other rows."""
    same = apviz.GaussianProcess(scale=False, device="cpu", hyperparameters=before).fit(task.x[few], task.y[few])
    x, y = task.x[others], task.y[others]
    return gp.negative_log_likelihood(x, y) < same.negative_log_likelihood(x, y)
