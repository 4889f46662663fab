"""An exact GP by scikit-learn on a random subset of the rows: 100, 200, and so on, to all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from benchmarks.referee.task import Clock, Prediction, Task

FIRST = 100
NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


class Subset:
    """`GaussianProcessRegressor`, with its own optimiser or given hyperparameters."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        h, d = task.hyperparameters, task.x.shape[1]
        order, rows = np.random.default_rng(task.seed).permutation(len(task.y)), FIRST
        if h is None:
            kernel = ConstantKernel(1.0) * Matern([1.0] * d, nu=2.5) + WhiteKernel(0.1)
        else:
            scales, name = list(np.broadcast_to(np.asarray(h.lengthscale), (d,))), str(h.kernel)
            kernel = ConstantKernel(h.outputscale) * (Matern(scales, nu=NU[name]) if name in NU else RBF(scales))
        while True:
            few = order[:rows]
            if h is None:
                gp = GaussianProcessRegressor(kernel, normalize_y=True).fit(task.x[few], task.y[few])
                kernel = gp.kernel_  # the next fit starts from here
                noise = gp.kernel_.k2.noise_level * task.y[few].var()
                mean, sd = gp.predict(task.z, return_std=True)
                yield Prediction(mean, np.maximum(sd**2 - noise, 0.0), noise)
            else:
                gp = GaussianProcessRegressor(kernel, alpha=h.noise, optimizer=None)
                gp.fit(task.x[few], task.y[few] - h.mean)
                mean, sd = gp.predict(task.z, return_std=True)
                yield Prediction(mean + h.mean, sd**2, h.noise)
            if rows >= len(task.y):
                return
            rows *= 2
