"""Scores of predictions: proper ones of Gaussian forecasts, intervals, and the distance from the exact posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.referee.task import Array, Prediction

#: half the width of a 95% interval, in standard deviations
HALF = float(norm.ppf(0.975))


def scores(prediction: Prediction, y: Array) -> dict[str, float]:
    """Return the scores of a Gaussian forecast of observations y: (t,).

    The CRPS is that of Gneiting and Raftery (2007), equation 21 with the sign of an error: σ (z (2Φ(z) − 1) + 2φ(z) −
    1/√π) for z = (y − μ)/σ.

    Raises:
        ValueError: a prediction is not finite, or its variance is not positive.
    """
    mean, variance = prediction.mean, prediction.variance + prediction.noise
    if mean.shape != y.shape or variance.shape != y.shape:
        raise ValueError(f"predictions must have shape {y.shape}, got {mean.shape} and {variance.shape}")
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise ValueError("predictions are not finite")
    if not (variance > 0).all():
        raise ValueError("a variance of an observation is not positive")
    sd, error = np.sqrt(variance), y - mean
    z = error / sd
    crps = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nll": float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * z**2)),
        "coverage": float(np.mean(np.abs(z) <= HALF)),
        "width": float(np.mean(2 * HALF * sd)),
        "crps": float(np.mean(crps)),
    }


def distance(prediction: Prediction, exact: Prediction) -> dict[str, Any]:
    """Return how far predictions of f are from the exact posterior's.

    Returns:
        `mean`: median and 95% quantile of |mean − exact mean| in exact posterior standard deviations of f; `sd`: 5%
        quantile, median and 95% quantile of the ratio of standard deviations of f.
    """
    sd = np.sqrt(exact.variance)
    off = np.abs(prediction.mean - exact.mean) / sd
    ratio = np.sqrt(np.maximum(prediction.variance, 0.0)) / sd
    return {
        "mean": [float(value) for value in np.quantile(off, (0.5, 0.95))],
        "sd": [float(value) for value in np.quantile(ratio, (0.05, 0.5, 0.95))],
    }
