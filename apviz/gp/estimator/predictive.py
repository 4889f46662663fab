"""Predictions of an estimator in the target's units, from its posterior in scaled units or, before a fit, its prior."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from torch import Tensor

from apviz.gp.estimator.posteriors import Outputs
from apviz.gp.estimator.prior import Prior
from apviz.gp.kriging.drift import FittedDrift
from apviz.gp.prediction.pathwise import PosteriorSamples, PriorSamples
from apviz.gp.prediction.posterior import Posterior
from apviz.gp.prediction.prediction_accuracy import PredictionAccuracy, how_known
from apviz.gp.prediction.variance_methods import Method
from apviz.gp.scaling import Scaling
from apviz.solvers import Hook, Solution

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Array = NDArray[np.float64]

#: largest number of test points for exact samples, from the (m, m) covariance
COVARIANCE_POINTS = 2_000
#: points at which standard deviations of samples are compared with exact ones, and the ratio that warns
COMPARED, LARGEST_RATIO = 32, 1.1
# share of the compared points that may be beyond it
BEYOND = 0.1
# rounding may make eigenvalues of a covariance negative by up to this share of the largest
ROUNDED = 1e-4


@dataclass(frozen=True, eq=False)
class Predictive:
    """The distribution of f, or of observations, at scaled points (m, d): arrays in the units of one or p targets.

    Args:
        model: the posterior of the first output, or of what the drift leaves, or the prior.
        scaling: its units.
        outputs: means of several outputs, or None.
        drift: the drift, or None.
    """

    model: Posterior | Prior
    scaling: Scaling
    outputs: Outputs | None = None
    drift: FittedDrift | None = None

    @classmethod
    def of(cls, gp: GaussianProcess) -> Predictive:
        """Return the predictions of a fitted estimator."""
        return cls(gp.posterior_, gp.scaling_, gp._outputs, gp.drift_)

    def mean(self, points: Array, found: Tensor | None = None) -> Array:
        """Return means, (m,) or (m, p); `found` are those of the model, if they are known."""
        if self.outputs is not None:
            found = self.outputs.mean(points)
        elif found is None:
            found = self.model.mean(points)
        if self.drift is not None:
            found = found.cpu() + self.drift.mean(points)
        means: Array = self.scaling.mean + self.scaling.std * _float64(found)
        return means

    def mean_and_std(
        self, points: Array, method: Method, rank: int, include_noise: bool, hooks: Iterable[Hook]
    ) -> tuple[Array, Array]:
        """Return means and standard deviations, (m,) or (m, p)."""
        mean, variance = self.model.mean_and_variance(points, method, rank, include_noise=include_noise, hooks=hooks)
        deviations = np.sqrt(_float64(variance) + np.square(self._of_drift(points)).sum(1))
        return self.mean(points, mean), np.multiply.outer(deviations, self.scaling.std)

    def mean_and_covariance(self, points: Array, include_noise: bool, hooks: Iterable[Hook]) -> tuple[Array, Array]:
        """Return means, (m,) or (m, p), and covariances, (m, m) or (m, m, p), in squared units."""
        means, of_drift = self.mean(points), self._of_drift(points)
        covariance = _float64(self.model.covariance(points, include_noise=include_noise, hooks=hooks))
        return means, np.multiply.outer(covariance + of_drift @ of_drift.T, self.scaling.std**2)

    def samples(
        self, points: Array, count: int, random: np.random.RandomState, include_noise: bool, hooks: Iterable[Hook]
    ) -> Array:
        """Draw samples, (m, count) or (m, p, count)."""
        outputs = np.shape(self.scaling.std)
        drawn = _sampled(self.model, points, count * math.prod(outputs), random, hooks)
        drawn = drawn - _float64(self.model.mean(points))[:, None]
        if self.drift is not None:
            of_drift = self._of_drift(points)
            drawn = drawn + of_drift @ random.standard_normal((of_drift.shape[1], count))
        if include_noise:
            drawn = drawn + np.sqrt(self.model.hyperparameters.noise) * random.standard_normal(drawn.shape)
        scaled = drawn.reshape(len(drawn), *outputs, count) * np.reshape(self.scaling.std, (*outputs, 1))
        samples: Array = self.mean(points)[..., None] + scaled
        return samples

    def accuracy(self, found: PredictionAccuracy, solution: Solution, mean_error: float) -> PredictionAccuracy:
        """Return the accuracy of all outputs, and with the drift, from that of the posterior, and the solve for all."""
        if self.outputs is not None or self.drift is not None:
            found = found.with_means_of(solution, mean_error)
        if self.drift is not None:
            found = replace(found, sd_errors=found.sd_errors + self.drift.error + found.product_error)
        # a loaded model knows its solve, but its posterior does not
        return replace(found, proven=mean_error, how=how_known(solution))

    def _of_drift(self, points: Array) -> Array:
        """Return the deviations that the drift adds in scaled units, (m, q); q is 0 without one."""
        if self.drift is None:
            return np.empty((len(points), 0))
        assert isinstance(self.model, Posterior)  # a prior has no drift
        return _float64(self.drift.deviations(self.model, points))


def _float64(values: Tensor) -> Array:
    return values.cpu().double().numpy()


# --- samples ----------------------------------------------------------------------------------------------------------


def _sampled(
    posterior: Posterior | Prior, points: Any, count: int, random: np.random.RandomState, hooks: Iterable[Hook] = ()
) -> Array:
    """Draw samples of f at test points: (m, d), to (m, count).

    Up to 2,000 points use an eigendecomposition of the covariance. More use `Posterior.samples`, whose prior samples
    come from a Fourier series around these points, or from random features; the latter warn if that changes
    standard deviations at some of the points.
    """
    if len(points) > COVARIANCE_POINTS:
        drawn = posterior.samples(count, int(random.randint(2**31)), around=points, hooks=hooks)
        _warn_of_deviations(drawn, points, hooks)
        functions: Array = drawn(points).cpu().double().numpy().T
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
    samples: Array = mean[:, None] + vectors @ weights
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
