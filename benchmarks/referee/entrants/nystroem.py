"""Nyström features by scikit-learn (Williams & Seeger, NIPS 2000), and linear regression on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.kernel_approximation import Nystroem

from benchmarks.referee.entrants.features import SIZES, by_ridge, with_prior
from benchmarks.referee.task import Clock, Prediction, Task

NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


class NystroemFeatures:
    """`Nystroem` on random rows."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        h = task.hyperparameters
        if h is None:
            yield from by_ridge(
                task, clock, lambda m, gamma: Nystroem(gamma=gamma, n_components=m, random_state=task.seed)
            )
            return
        scales, name = list(np.broadcast_to(np.asarray(h.lengthscale), task.x.shape[1:])), str(h.kernel)
        kernel = Matern(scales, nu=NU[name]) if name in NU else RBF(scales)
        order = np.random.default_rng(task.seed).permutation(len(task.y))
        for m in SIZES:
            chosen = task.x[order[:m]]
            mapped = Nystroem(kernel="precomputed", n_components=len(chosen)).fit(kernel(chosen))
            mean, variance = with_prior(
                mapped.transform(kernel(task.x, chosen)), task.y - h.mean, mapped.transform(kernel(task.z, chosen)),
                h.outputscale, h.noise,
            )  # fmt: skip
            yield Prediction(mean + h.mean, variance, h.noise)
            if m >= len(task.y):
                return
