"""Samples of the posterior as functions, by pathwise conditioning (Wilson et al., ICML 2020).

A sample f of the prior gives the posterior sample f(x*) + μ + k(x*, X) K⁻¹(y − μ − f(X) − ε), where ε is a sample of
the noise (Matheron's rule). The solve does not depend on x*, so a test point costs n kernel entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Generator, Tensor

from apviz.gp.prediction.accuracy import weighted_norms
from apviz.gp.prediction.variances import to_tolerance
from apviz.kernels import RandomFeatures
from apviz.memory import require_memory
from apviz.operators import Operator
from apviz.operators.fourier.engine import LEAST_ROWS
from apviz.operators.fourier.prior_series import PriorSeries
from apviz.settings import require, require_seed, require_whole
from apviz.solvers import Hook, NotConverged

if TYPE_CHECKING:
    from apviz.gp.prediction.posterior import Posterior

#: how samples of the prior are drawn
PriorBy = Literal["auto", "features", "series"]
# largest number of functions or features; no machine has memory for more
MOST = 2**53
#: largest error of a sample without a warning, in posterior standard deviations
LARGEST_ERROR = 0.1
#: number of random cosines and sines for each term of the kernel
FEATURES = 2_000
# rows whose features are in memory at a time
FEATURE_ROWS = 1_024


class PriorSamples:
    """Functions drawn from a Gaussian process with mean 0 and the covariance of random features.

    The seed of their weights must differ from that of the features.
    """

    def __init__(self, features: RandomFeatures, count: int, seed: int) -> None:
        self.features, self.count, self.seed = features, count, seed
        self._weights = torch.randn(
            features.size, count, dtype=torch.float64, generator=Generator().manual_seed(int(seed))
        )

    def __call__(self, x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Evaluate the functions at x: (n, d), in chunks, to (n, count) in `dtype`. Equal x gives equal values."""
        values = self.features.combined(x, self._weights.to(x.device, dtype))
        return values + self.features.white(x, self.count, self.seed).to(dtype) if self.features.is_white else values


class PosteriorSamples:
    """Functions drawn from a posterior. They can be evaluated anywhere, any number of times.

    The random features approximate the prior's covariance, with an error that falls with the root of their number.
    With 2,000 features it is up to about 3% of the prior's variance, far from data. Near data most of it cancels, but
    the variance is small there too. For Matérn-5/2, a variance of 1% of the prior's is off by a quarter of itself
    (standard deviation over seeds). A Fourier series, for many rows of few inputs, errs by at most 1e-3 of the prior's
    variance. `Posterior.covariance`, for fewer test points, has no such error. The data term is exact to the tolerance
    of the solve. One solve serves all samples.

    Args:
        posterior: the posterior; its rows may have different noises.
        count, seed, features, prior, around, hooks: as in `Posterior.samples`.
        may_tighten: use a smaller tolerance than that of the posterior's `variance_solver` if it is needed.

    Attributes:
        prior: functions of the prior, `PriorSamples` or `apviz.operators.fourier.prior_series.PriorSeries`.
        solution: result of the solve.
        error: (count,) float64, ‖r‖/σ of the residual: a bound on the error of each sample due to the solve, in
            posterior standard deviations of f, at any input.
    """

    prior: PriorSamples | PriorSeries

    def __init__(
        self,
        posterior: Posterior,
        count: int,
        seed: int = 0,
        features: int = FEATURES,
        *,
        prior: PriorBy = "auto",
        around: Tensor | None = None,
        hooks: Iterable[Hook] = (),
        may_tighten: bool = True,
    ) -> None:
        require_whole("count", count, 1, MOST)
        require_seed(seed)
        require_whole("features", features, 1, MOST)
        require(prior in get_args(PriorBy), "prior", prior, f"one of {', '.join(get_args(PriorBy))}")
        s = posterior.system
        # several copies of the weights of functions and features, and of the values at the rows
        numbers = 4.0 * float(count) * (float(s.n) + 2.0 * float(features))
        require_memory(8 * numbers, s.device, f"{count:,} samples need", "use fewer samples, or fewer features")
        self._posterior = posterior
        x = s.operator.given
        seeds = [3 * int(seed) + k for k in range(3)]  # independent draws need different seeds
        self.prior = prior_functions(s.operator, count, seeds, prior, features, around)
        generator = Generator().manual_seed(seeds[2])
        deviation = torch.as_tensor(s.operator.noise_of(), dtype=torch.float64).sqrt().reshape(-1, 1).to(s.device)
        noise = deviation * torch.randn(s.n, int(count), dtype=torch.float64, generator=generator).to(s.device)
        observed = self.prior(x) + noise
        norms = weighted_norms(observed, s.noise)
        solver = posterior.variance_solver
        if may_tighten:
            # A solve bounds the mean over samples. Half the tolerance keeps the worst, up to twice the mean, below it.
            solver = to_tolerance(solver, LARGEST_ERROR / (2 * float(norms.max())))
        self.solution = posterior.attempt(observed, solver, hooks)
        self.error = self.solution.residual_per_rhs.cpu() * norms
        self._of_observed = self.solution.weights.to(posterior.weights)

    def warn(self, stacklevel: int) -> None:
        """Warn if the solve did not converge, or its error is not small."""
        solution, worst = self.solution, float(self.error.max())
        off = f"samples may be off by up to {worst:.2g} posterior standard deviations"
        if not solution.converged:
            end = f"residual {solution.residual:.2e} after {solution.epochs} epochs"
            message = f"the solve for samples did not converge ({end}): {off}; it {solution.stop_message}"
            warnings.warn(NotConverged(message, solution), stacklevel=stacklevel)
        elif worst > LARGEST_ERROR:
            warnings.warn(f"{off}; use a variance_solver with a smaller tol, or none", stacklevel=stacklevel)

    def deviation_ratios(self, x_star: Any, hooks: Iterable[Hook] = ()) -> Tensor:
        """Return the standard deviation of the samples ÷ that of the posterior at x_star: (m, d), to (m,).

        With z = K⁻¹k(X, x*) and features φ the variance of a sample is ‖φ(x*) − Σᵢ zᵢ φ(xᵢ)‖² + zᵀDz. Costs a solve
        for m right-hand sides.
        """
        if not isinstance(self.prior, PriorSamples):
            raise TypeError("the prior is a Fourier series, whose error is known: there are no random features")
        posterior, features = self._posterior, self.prior.features
        system = posterior.system
        variance, z = posterior.covariance_of_groups(x_star, 1, hooks)
        at = torch.cat([features(chunk) for _, chunk in posterior.chunks(x_star)])
        for start in range(0, system.n, FEATURE_ROWS):
            rows = slice(start, start + FEATURE_ROWS)
            at -= z[rows].T @ features(system.operator.given[rows])
        noises = torch.as_tensor(system.operator.noise_of(), dtype=torch.float64, device=z.device).reshape(-1, 1)
        drawn = at.square().sum(1) + torch.sum(z.square() * noises, 0)
        exact = variance.flatten().to(drawn)
        # a point without any deviation has no ratio
        return torch.where(exact > 0, drawn / exact, 1.0).sqrt().cpu()

    def __call__(self, x_star: Any) -> Tensor:
        """Evaluate the samples at x_star: (m, d), to (count, m).

        Costs mn kernel entries, or Fourier products where means take them (`Posterior.mean`), in chunks of points.

        Raises:
            ValueError: x_star has another width, or NaN or infinite values; the message says where. Or it is outside
                of the box of a Fourier series.
        """
        mean = self._posterior.hyperparameters.mean
        weights = self._posterior.weights[:, None] - self._of_observed
        chunks = self._posterior.products(x_star, weights)
        found = [(data + self.prior(chunk) + mean).T for _, chunk, data in chunks]
        return torch.cat([weights[:0].T, *found], 1)

    def variance(self, x_star: Any) -> Tensor:
        """Estimate the variance of f(x*) from the samples: (m, d), to (m,); the mean is not estimated.

        For any number of points, at the cost of evaluating the samples there. The relative standard error is
        √(2 ÷ count), 18% for 64 samples; that of the standard deviation is half of it. The errors of the prior's
        samples and of the solve add.
        """
        chunks = self._posterior.products(x_star, self._of_observed)
        found = [(self.prior(chunk) - data).square().mean(1) for _, chunk, data in chunks]
        return torch.cat([self._of_observed[:0, 0], *found])


def prior_functions(
    operator: Operator, count: int, seeds: Sequence[int], prior: PriorBy = "auto", features: int = FEATURES,
    around: Tensor | None = None,
) -> PriorSamples | PriorSeries:  # fmt: skip
    """Draw functions from an operator's prior, as `Posterior.samples`; seeds: of frequencies, and of weights."""
    if prior == "series" or (prior == "auto" and operator.n >= LEAST_ROWS):
        try:
            return PriorSeries(operator, int(count), seeds[1], around)
        except (ValueError, ImportError, MemoryError):
            if prior == "series":
                raise
    random = operator.kernel.random_features(operator.given, int(features), seeds[0])
    return PriorSamples(random, int(count), seeds[1])
