"""Several outputs with one kernel and noise: the set-up, the variances and a solve serve them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.gp.prediction.posterior import Posterior
from apviz.solvers import Hook, Solution


@dataclass(frozen=True, eq=False)
class Outputs:
    """Means of p outputs; `first` is the posterior of the first and has the variances of all, in scaled units.

    Args:
        first: posterior of the first output.
        weights: (n, p) float64, K⁻¹ times the targets minus the mean.
        solution: result of the solve for the output with the largest error.
        mean_error: largest bound on the error of a predicted mean, in posterior standard deviations.
    """

    first: Posterior
    weights: Tensor
    solution: Solution
    mean_error: float

    @classmethod
    def of(cls, first: Posterior, targets: Tensor, hooks: Iterable[Hook] = ()) -> Outputs:
        """Solve for the outputs after the first, all at once, then each to the tolerance that its means need.

        Args:
            first: posterior of the first column of `targets`.
            targets: (n, p), on the CPU.
            hooks: hooks of the solves.
        """
        hooks, others = list(hooks), targets[:, 1:].to(first.system.device)
        # with a factor of K, a solve for each output takes no longer
        start: list[Tensor | None] = [None] * others.shape[1]
        if not first.has_factor:
            start = list(first.attempt(others - first.hyperparameters.mean, first.solver, hooks).weights.T)
        each = [first]
        for y, guess in zip(others.T, start, strict=True):
            is_finite = guess is not None and bool(torch.isfinite(guess).all())
            each.append(first.with_targets(y, hooks, guess if is_finite else None))
        worst = max(each, key=lambda one: one.mean_error)
        assert worst.solution is not None  # just solved
        return cls(first, torch.stack([one.weights for one in each], 1), worst.solution, worst.mean_error)

    def mean(self, x_star: object) -> Tensor:
        """Predict the means at x_star: (m, d), to (m, p)."""
        parts = [data for _, _, data in self.first.products(x_star, self.weights)]
        return torch.cat([self.weights[:0], *parts]) + self.first.hyperparameters.mean
