"""Samples of a posterior at test points: from the covariance of few points, as functions for many."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from torch import Tensor

from apviz.gp.estimator.prior import Prior
from apviz.gp.prediction.pathwise import PosteriorSamples, PriorSamples
from apviz.gp.prediction.posterior import Posterior
from apviz.solvers import Hook

#: largest number of test points for exact samples, from the (m, m) covariance
COVARIANCE_POINTS = 2_000
#: points at which standard deviations of samples are compared with exact ones, and the ratio that warns
COMPARED, LARGEST_RATIO = 32, 1.1
# share of the compared points that may be beyond it
BEYOND = 0.1
# rounding may make eigenvalues of a covariance negative by up to this share of the largest
ROUNDED = 1e-4


def sampled(
    posterior: Posterior | Prior, points: Any, count: int, random: np.random.RandomState, hooks: Iterable[Hook] = ()
) -> NDArray[np.float64]:
    """Draw samples of f at test points: (m, d), to (m, count).

    Up to 2,000 points use an eigendecomposition of the covariance. More use `Posterior.samples`, whose prior samples
    come from a Fourier series around these points, or from random features; the latter warn if that changes
    standard deviations at some of the points.
    """
    if len(points) > COVARIANCE_POINTS:
        drawn = posterior.samples(count, int(random.randint(2**31)), around=points, hooks=hooks)
        _warn_of_deviations(drawn, points, hooks)
        functions: NDArray[np.float64] = drawn(points).cpu().double().numpy().T
        return functions
    mean = posterior.mean(points).cpu().double().numpy()
    covariance = posterior.covariance(points, hooks=hooks).cpu().double().numpy()
    eigenvalues, vectors = scipy.linalg.eigh(covariance)
    if eigenvalues[0] < -ROUNDED * max(eigenvalues[-1], 0.0):
        warnings.warn(
            f"the covariance of the test points has an eigenvalue of {eigenvalues[0]:.1e} (the largest is "
            f"{eigenvalues[-1]:.1e}); samples have an error of that size; use float64, or a solver with a "
            "smaller tol",
            stacklevel=4,
        )
    weights = np.sqrt(eigenvalues.clip(0))[:, None] * random.standard_normal((len(mean), count))
    samples: NDArray[np.float64] = mean[:, None] + vectors @ weights
    return samples


def _warn_of_deviations(drawn: Callable[[Any], Tensor], points: Any, hooks: Iterable[Hook]) -> None:
    """Warn if random features change standard deviations by a tenth or more, at a tenth or more of some points."""
    if (
        not (isinstance(drawn, PosteriorSamples) and isinstance(drawn.prior, PriorSamples))
        or drawn.prior.features.is_white
    ):
        return
    some = np.random.default_rng(0).permutation(len(points))[:COMPARED]
    ratios = drawn.deviation_ratios(points[some], hooks).numpy()
    off = np.quantile(np.maximum(ratios, 1 / ratios), 1 - BEYOND)
    if off > LARGEST_RATIO:
        warnings.warn(
            f"the prior is drawn with random features: at {1 - BEYOND:.0%} of {len(some)} points the sd of these "
            f"samples is off by a factor of up to {off:.2g}; at up to {COVARIANCE_POINTS:,} points in a call samples "
            "are exact",
            stacklevel=5,
        )
