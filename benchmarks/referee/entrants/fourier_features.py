"""Random Fourier features by scikit-learn (Rahimi & Recht, NIPS 2007), and linear regression on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from benchmarks.referee.entrants.features import SIZES, by_ridge, with_prior
from benchmarks.referee.task import Array, Clock, Prediction, Task

NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


class FourierFeatures:
    """`RBFSampler`; for a given Matérn kernel its frequencies get the tails of Student's t."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        h = task.hyperparameters
        if h is None:
            yield from by_ridge(
                task, clock, lambda m, gamma: RBFSampler(gamma=gamma, n_components=m, random_state=task.seed)
            )
            return
        x, z = task.x / h.lengthscale, task.z / h.lengthscale
        for m in SIZES:
            features = sampler(str(h.kernel), x, m, task.seed)
            mean, variance = with_prior(
                features.transform(x), task.y - h.mean, features.transform(z), h.outputscale, h.noise
            )
            yield Prediction(mean + h.mean, variance, h.noise)


def sampler(kernel: str, x: Array, m: int, seed: int) -> Any:
    """Return m features of a kernel with lengthscale 1 and outputscale 1."""
    features = RBFSampler(gamma=0.5, n_components=m, random_state=seed).fit(x)
    if kernel in NU:
        chi = np.random.default_rng(seed).chisquare(2 * NU[kernel], m)
        features.random_weights_ *= np.sqrt(2 * NU[kernel] / chi)
    return features
