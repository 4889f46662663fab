"""Vecchia's approximation by GPBoost (Sigrist, JMLR 2022), with its default number of neighbours.

Without given hyperparameters they are fitted to 250 rows, 500, and so on; each fit predicts with all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpboost
import numpy as np

from benchmarks.referee.task import Array, Clock, Prediction, Task

NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
FIRST = 250


class Vecchia:
    """Each row given its nearest neighbours among the rows before it."""

    approximation = "vecchia"

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        h, n, d = task.hyperparameters, len(task.y), task.x.shape[1]
        if h is not None:
            scales = np.broadcast_to(np.asarray(h.lengthscale), (d,))
            yield self.given(task, h.mean, np.array([h.noise, h.outputscale, *scales]))
            return
        order, rows = np.random.default_rng(task.seed).permutation(n), FIRST
        found: dict[str, Any] = {}
        while True:
            few = order[:rows]
            model = self.model(task, task.x[few])
            model.fit(y=task.y[few], X=np.ones((len(few), 1)), params=found)
            covariance, mean = (np.asarray(each).ravel() for each in (model.get_cov_pars(), model.get_coef()))
            yield self.given(task, mean[0], covariance)
            if rows >= n:
                return
            rows, found = 2 * rows, {"init_cov_pars": covariance}

    def model(self, task: Task, x: Array) -> Any:
        """Return the model of some rows."""
        nu = 2.5 if task.hyperparameters is None else NU[str(task.hyperparameters.kernel)]
        return gpboost.GPModel(
            gp_coords=x, cov_function="matern_ard", cov_fct_shape=nu, gp_approx=self.approximation,
            likelihood="gaussian", num_parallel_threads=1, seed=task.seed, **self.settings(len(x)),
        )  # fmt: skip

    def settings(self, rows: int) -> dict[str, Any]:
        """Return further settings of a model with this number of rows."""
        return {}

    def given(self, task: Task, mean: float, covariance: Array) -> Prediction:
        """Predict with all rows at given numbers: noise, outputscale, lengthscales."""
        found = self.model(task, task.x).predict(
            y=task.y - mean, gp_coords_pred=task.z, cov_pars=covariance, predict_var=True, predict_response=False
        )
        return Prediction(np.asarray(found["mu"]) + mean, np.asarray(found["var"]), float(covariance[0]))
