"""Bayesian linear regression on features: with a given prior, or scikit-learn's `BayesianRidge`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, solve_triangular
from sklearn.linear_model import BayesianRidge

from benchmarks.referee.task import Array, Clock, Prediction, Task

#: numbers of features, tried in this order; the validation compares `gamma` with the first of them
SIZES = (128, 256, 512, 1024, 2048)
GAMMAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
VALIDATED, HELD_OUT = 2_000, 0.2

#: fits a map to rows, (m, d) → (m, features), for a number of features and gamma
Fit = Callable[[int, float], Any]


def with_prior(features: Array, y: Array, of_points: Array, outputscale: float, noise: float) -> tuple[Array, Array]:
    """Return mean and variance of f = φᵀw at points, w ~ N(0, outputscale I), from y = f + noise at rows."""
    a = features.T @ features
    a[np.diag_indices_from(a)] += noise / outputscale
    factor, lower = cho_factor(a, lower=True)
    half = solve_triangular(factor, of_points.T, lower=lower)
    mean = half.T @ solve_triangular(factor, features.T @ y, lower=lower)
    return mean, noise * np.square(half).sum(0)


def by_ridge(task: Task, clock: Clock, fit: Fit) -> Iterator[Prediction]:
    """Choose gamma on held-out rows, then fit with more and more features."""
    rows = np.random.default_rng(task.seed).permutation(len(task.y))[:VALIDATED]
    cut = int(HELD_OUT * len(rows))
    held, kept = rows[:cut], rows[cut:]

    def error(gamma: float) -> float:
        mapped = fit(SIZES[0], gamma).fit(task.x[kept])
        ridge = BayesianRidge().fit(mapped.transform(task.x[kept]), task.y[kept])
        return float(np.mean((ridge.predict(mapped.transform(task.x[held])) - task.y[held]) ** 2))

    gamma = min(GAMMAS, key=error)
    for size in SIZES:
        mapped = fit(size, gamma).fit(task.x)
        ridge = BayesianRidge().fit(mapped.transform(task.x), task.y)
        mean, sd = ridge.predict(mapped.transform(task.z), return_std=True)
        noise = 1 / ridge.alpha_
        yield Prediction(mean, np.maximum(sd**2 - noise, 0.0), noise)
        if size >= len(task.y):
            return
