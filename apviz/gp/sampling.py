"""Samples of a posterior at test points: from their covariance where they are few, else from functions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from apviz.gp.posterior import Posterior
from apviz.solvers import Hook

#: test points up to which samples are drawn from the covariance, (m, m), exactly
COVARIANCE_POINTS = 2_000
# rounding may leave eigenvalues of a covariance so far below 0, of the largest
ROUNDED = 1e-4


def sampled(
    posterior: Posterior, points: Any, count: int, random: np.random.RandomState, hooks: Iterable[Hook] = ()
) -> NDArray[np.float64]:
    """Draw samples of f at test points: (m, d), to (m, count).

    Of up to 2,000 points by the eigenvalues of the covariance; of more by `Posterior.samples`, whose prior is of random
    features.

    Raises:
        ValueError: more points, and a kernel whose spectrum is not known.
    """
    if len(points) > COVARIANCE_POINTS:
        drawn = posterior.samples(count, int(random.randint(2**31)), hooks=hooks)
        functions: NDArray[np.float64] = drawn(points).cpu().double().numpy().T
        return functions
    mean = posterior.mean(points).cpu().double().numpy()
    covariance = posterior.covariance(points, hooks=hooks).cpu().double().numpy()
    eigenvalues, vectors = scipy.linalg.eigh(covariance)
    if eigenvalues[0] < -ROUNDED * max(eigenvalues[-1], 0.0):
        warnings.warn(
            f"the covariance of the test points has an eigenvalue of {eigenvalues[0]:.1e}, where its largest is "
            f"{eigenvalues[-1]:.1e}: samples are off by as much; take float64, or a solver with a smaller tol",
            stacklevel=3,
        )
    weights = np.sqrt(eigenvalues.clip(0))[:, None] * random.standard_normal((len(mean), count))
    samples: NDArray[np.float64] = mean[:, None] + vectors @ weights
    return samples
