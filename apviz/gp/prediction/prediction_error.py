"""A hook that measures after each epoch how far predictions are from the exact posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from apviz.gp.prediction.posterior import Posterior
from apviz.settings import require, require_kind, require_whole
from apviz.solvers import Hook, Run

#: share of the test points whose errors are at most the measured one
SHARE = 0.95
# largest difference of targets, relative to their size, that rounding to float32 explains
SAME_TARGETS = 1e-6


class PredictionErrorHook(Hook):
    """Measure the error of predicted means in posterior standard deviations after each epoch.

    A residual tells how well the system is solved; this tells how much that matters to predictions. Recorded is the
    error that 95% of the test points do not exceed. Its kernel entries, in float64, do not count as the solve's.

    Args:
        posterior: the posterior of the same rows, targets and hyperparameters, solved well: its remaining error at the
            test points is found by solves for their variances, and corrected.
        x_star: (m, d) test inputs, such as a few hundred at random.
        every: epochs between evaluations.

    Raises:
        ValueError: the test inputs are invalid, or the posterior is of other rows, targets or hyperparameters.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=1e-2)
        >>> posterior = apviz.Posterior(x, torch.sin(6 * x), h, device="cpu")
        >>> recorder, hook = apviz.Recorder(), apviz.PredictionErrorHook(posterior, torch.rand(50))
        >>> solution = apviz.solve(posterior.system, apviz.ConjugateGradient(tol=1e-3), hooks=[hook, recorder])
        >>> error = recorder.trace["epoch"]["prediction_error"].values
        >>> bool(error[-1] < 0.1 < error[0])
        True
    """

    def __init__(self, posterior: Posterior, x_star: Any, *, every: int = 1) -> None:
        require_kind("posterior", posterior, Posterior, "an apviz.Posterior")
        require_whole("every", every, 1)
        self.posterior, self.every = posterior, every
        chunks = [chunk for _, chunk in posterior.chunks(x_star)]
        require(len(chunks) > 0, "x_star", "no rows", "at least one test point")
        self._points = torch.cat(chunks)
        variance = posterior.variance(self._points)
        errors = [each.errors for each in posterior.variance_solves]
        known, self._sd = (torch.cat([getattr(each, name) for each in errors]) for name in ("known", "least_sd"))
        self._exact = posterior.mean(self._points).cpu() + known - posterior.hyperparameters.mean
        self._sd = torch.where(self._sd > 0, self._sd, variance.cpu().sqrt())

    def on_start(self, run: Run) -> None:
        mine, theirs = self.posterior.system, run.system
        b, other = mine.given_b[:, 0].double().cpu(), theirs.given_b.double().cpu().reshape(theirs.n, -1)[:, 0]
        same = (mine.n, mine.d) == (theirs.n, theirs.d) and all(
            bool(torch.linalg.vector_norm(one - another) <= SAME_TARGETS * torch.linalg.vector_norm(one))
            for one, another in ((b, other), (mine.operator.given.double().cpu(), theirs.operator.given.double().cpu()))
        )
        require(same, "posterior", "one of other rows or targets", "the posterior of the system that is solved")
        noises = (torch.as_tensor(each.operator.noise_of()).double().cpu().expand(each.n) for each in (mine, theirs))
        same = mine.kernel == theirs.kernel and torch.equal(*noises)
        require(same, "posterior", "one of another kernel or noise", "the posterior of the system that is solved")
        self._operator = theirs.operator.exact()

    def measure(self, run: Run) -> Mapping[str, float]:
        if run.epoch_number % self.every:
            return {}
        mean = self._operator.cross_matmul(self._points, run.weights[:, :1].contiguous())[:, 0].double().cpu()
        # a test point without any deviation has no error in its units
        off = ((mean - self._exact).abs() / self._sd)[self._sd > 0].numpy()
        return {"prediction_error": float(np.quantile(off, SHARE, method="inverted_cdf")) if len(off) else math.nan}
