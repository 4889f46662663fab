"""Samples of the posterior as functions, by pathwise conditioning (Wilson et al., ICML 2020).

A function f drawn from the prior becomes one of the posterior, f(x*) + μ + k(x*, X) K⁻¹(y − μ − f(X) − ε) with ε drawn
from the noise (Matheron's rule). The solve is for training inputs alone, so that a test point costs n kernel entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from apviz.gp.accuracy import MEAN_ERROR, weighted_norms
from apviz.gp.variances import to_tolerance
from apviz.kernels import RandomFeatures
from apviz.memory import require_memory
from apviz.settings import require_seed, require_whole
from apviz.solvers import Hook, NotConverged

if TYPE_CHECKING:
    from apviz.gp.posterior import Posterior

# functions and features: beyond, no machine holds them
MOST = 2**53
#: cosines and sines of a term of the kernel, of which functions are drawn
FEATURES = 2_000


class PriorSamples:
    """Functions drawn from a Gaussian process of mean 0, whose covariance is that of random features.

    Args:
        features: of the kernel.
        count: functions.
        seed: of their weights, another than that of the features.
    """

    def __init__(self, features: RandomFeatures, count: int, seed: int) -> None:
        self.features, self.count, self.seed = features, count, seed
        self._weights = torch.randn(
            features.size, count, dtype=torch.float64, generator=Generator().manual_seed(int(seed))
        )

    def __call__(self, x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Evaluate the functions: x (n, d), in chunks, to (n, count) in `dtype`; the same where x is the same."""
        values = self.features.combined(x, self._weights.to(x.device, dtype))
        return values + self.features.white(x, self.count, self.seed).to(dtype) if self.features.is_white else values


class PosteriorSamples:
    """Functions drawn from a posterior, that can be evaluated anywhere, any number of times.

    What is drawn from the prior has its covariance up to errors of the features, which fall with the root of their
    number: 2,000 leave some 3% of the prior's variance at worst, far from data. Near data most of that cancels, but
    variances are small there too: one that is a hundredth of the prior's is off by a quarter of itself (the standard
    deviation over seeds, by Matérn-5/2; an eighth with 8,000), and one of 0.2%, at σ² = 1e-4 of the prior's, by nearly
    itself. `Posterior.covariance`, for fewer test points, has no such error. The term that the data add is exact to the
    tolerance of the solve, one for all samples together.

    Args:
        posterior: rows may have noises of their own.
        count: functions.
        seed: of all that is drawn.
        features: cosines and sines of each term of the kernel, as of `Kernel.random_features`.
        hooks: told about the solve.
        may_tighten: take a smaller tolerance than that of the posterior's `variance_solver` where it is needed.

    Attributes:
        solution: how the solve ended.
        error: (count,) float64, ‖r‖/σ of the residual: a bound on the error that the solve leaves in each sample, in
            posterior standard deviations of f, at any input.

    Raises:
        ValueError: count or features below 1; a kernel with a part whose spectrum is not known.
    """

    def __init__(
        self,
        posterior: Posterior,
        count: int,
        seed: int = 0,
        features: int = FEATURES,
        *,
        hooks: Iterable[Hook] = (),
        may_tighten: bool = True,
    ) -> None:
        require_whole("count", count, 1, MOST)
        require_seed(seed)
        require_whole("features", features, 1, MOST)
        s = posterior.system
        # weights of functions and of features, and values at the rows, a few times
        numbers = 4.0 * float(count) * (float(s.n) + 2.0 * float(features))
        require_memory(8 * numbers, s.device, "so many samples need", "take fewer, or fewer features")
        self._posterior = posterior
        x = s.operator.given
        seeds = [3 * int(seed) + k for k in range(3)]  # what is drawn from one seed twice is not independent
        self.prior = PriorSamples(s.kernel.random_features(x, int(features), seeds[0]), int(count), seeds[1])
        generator = Generator().manual_seed(seeds[2])
        deviation = torch.as_tensor(s.operator.noise_of(), dtype=torch.float64).sqrt().reshape(-1, 1).to(s.device)
        noise = deviation * torch.randn(s.n, int(count), dtype=torch.float64, generator=generator).to(s.device)
        observed = self.prior(x) + noise
        norms = weighted_norms(observed, s.noise)
        solver = posterior.variance_solver
        if may_tighten:
            # half of it: a solve keeps to the mean over samples, and the worst of them is to be below twice that
            solver = to_tolerance(solver, MEAN_ERROR / (2 * float(norms.max())))
        self.solution = posterior.attempt(observed, solver, hooks)
        self.error = self.solution.residual_per_rhs.cpu() * norms
        self._weights = posterior.weights[:, None] - self.solution.weights.to(posterior.weights)

    def warn(self, stacklevel: int) -> None:
        """Warn where the solve is not converged, or its error is not small."""
        solution, worst = self.solution, float(self.error.max())
        off = f"samples may be off by up to {worst:.2g} posterior standard deviations"
        if not solution.converged:
            end = f"residual {solution.residual:.2e} after {solution.epochs} epochs"
            message = f"the solve for samples is not converged, {end}: {off}; {solution.stop_message}"
            warnings.warn(NotConverged(message, solution), stacklevel=stacklevel)
        elif worst > MEAN_ERROR:
            warnings.warn(f"{off}; take a variance_solver with a smaller tol, or none", stacklevel=stacklevel)

    def __call__(self, x_star: Any) -> Tensor:
        """Evaluate the samples: x_star (m, d), to (count, m). Evaluates mn kernel entries, in chunks of test points.

        Raises:
            ValueError: test inputs of another width, NaN or infinite values (which column, how many).
        """
        posterior = self._posterior
        out: Tensor = self._weights.new_empty(self.prior.count, len(x_star))
        for rows, chunk in posterior.chunks(x_star):
            data = posterior.double.cross_matmul(chunk, self._weights)
            out[:, rows] = (data + self.prior(chunk) + posterior.hyperparameters.mean).T
        return out
