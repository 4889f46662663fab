"""Metrics of predictions: root mean squared error and negative log likelihood."""

from __future__ import annotations

import math
from typing import Any

import scipy.linalg
import torch
from torch import Tensor

from apviz.system import check_finite, tensor_of


def rmse(mean: Any, y: Any) -> float:
    """Compute the root mean squared error √(mean of (y − mean)²), in the units of y; both (m,).

    Raises:
        ValueError: the shapes differ, or there are no rows.

    Examples:
        >>> from apviz.gp import rmse
        >>> rmse([0.0, 0.0], [1.0, 7.0])  # √((1 + 49)/2)
        5.0
    """
    mean, y = _vectors(mean=mean, y=y)
    # BLAS scales, so that no square underflows or overflows
    error = float(scipy.linalg.norm((y - mean).numpy()))
    return error / math.sqrt(len(y))


def negative_log_likelihood(mean: Any, variance: Any, y: Any) -> float:
    """Average −log N(y; mean, variance) over test points, in nats; all (m,).

    Args:
        variance: variance of the observation y, including σ²: `Posterior.variance(x_star, include_noise=True)`.

    Raises:
        ValueError: the shapes differ, there are no rows, or a variance is not positive.

    Examples:
        >>> from apviz.gp import negative_log_likelihood
        >>> round(negative_log_likelihood([0.0], [1.0], [0.0]), 4)  # ½ log 2π
        0.9189
    """
    mean, variance, y = _vectors(mean=mean, variance=variance, y=y)
    bad = ~(variance > 0)
    if bad.any():
        first = int(bad.nonzero()[0, 0])
        raise ValueError(
            f"{int(bad.sum())} of {len(variance)} variances are not positive, the first in row {first}: "
            f"{float(variance[first]):g}; the variance of an observation includes σ² (include_noise=True)"
        )
    return float((0.5 * torch.log(2 * math.pi * variance) + ((y - mean) / variance.sqrt()).square() / 2).mean())


def _vectors(**given: Any) -> list[Tensor]:
    """Return all values as (m,) float64 on the CPU."""
    vectors = [tensor_of(values, name).to("cpu", torch.float64) for name, values in given.items()]
    shapes = {tuple(vector.shape) for vector in vectors}
    if len(shapes) > 1 or vectors[0].ndim != 1 or len(vectors[0]) == 0:
        found = ", ".join(f"{name} {tuple(vector.shape)}" for name, vector in zip(given, vectors, strict=True))
        raise ValueError(f"{' and '.join(given)} must have the same shape (m,) with m ≥ 1, got {found}")
    for name, vector in zip(given, vectors, strict=True):
        if name != "variance":  # the caller checks that variances are positive
            check_finite(vector[:, None], name)
    return vectors
