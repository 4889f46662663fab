"""Iterates: points with their residuals, for methods whose next point is a combination of earlier ones.

R = B − KW is affine in W: if the coefficients of points sum to 1, the residual of their combination is the combination
of their residuals. A paper may write a method with momentum or averages with rows K[I, :] at one of its points. The
columns K[:, I] of the update cost the same number of entries and give the residuals of all points. So B − KW, which
decides when to stop, costs nothing more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.settings import require_seed
from apviz.solvers.interface import Solver
from apviz.solvers.state import EpochEnd, Events, State, Updated, column_inner
from apviz.solvers.stopping import Stopping

# Number of rows of the block that estimates λmax.
SUBSAMPLE_ROWS = 500


@dataclass(eq=False)
class Iterate:
    """A point W, (n, l+1) float64, or a direction, for which B is 0; with its residual B − KW."""

    w: Tensor
    r: Tensor

    def copy(self) -> Iterate:
        """Return a copy with its own memory."""
        return Iterate(self.w.clone(), self.r.clone())

    def direction(self) -> Iterate:
        """Return a zero direction of this shape."""
        return Iterate(torch.zeros_like(self.w), torch.zeros_like(self.r))

    def add_(self, other: Iterate, factor: float | Tensor = 1.0) -> Iterate:
        """Add a direction times a factor: a number, or one for every right-hand side, (l+1,)."""
        self.w += other.w * factor
        self.r += other.r * _as(factor, self.r)
        return self

    def scale_(self, factor: float | Tensor) -> Iterate:
        """Multiply a direction by a factor: a number, or one for every right-hand side, (l+1,)."""
        self.w *= factor
        self.r *= _as(factor, self.r)
        return self

    def mix_(self, share: float, other: Iterate) -> Iterate:
        """Replace this point by `share` times itself plus 1 − `share` times the point `other`."""
        self.w.mul_(share).add_(other.w, alpha=1 - share)
        self.r.mul_(share).add_(other.r, alpha=1 - share)
        return self

    def step_(self, rows: Tensor, u: Tensor, ku: Tensor, factor: float = 1.0) -> Iterate:
        """Add factor·u, (|I|, l+1), on the distinct rows I; ku is K[:, I]u."""
        self.w[rows] += factor * u.to(self.w)
        self.r.sub_(ku, alpha=factor)
        return self


def _as(factor: float | Tensor, like: Tensor) -> float | Tensor:
    return factor.to(like) if isinstance(factor, Tensor) else factor


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver):
    """Base class of the methods that iterate points, with their stopping settings.

    Args:
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in epochs of n rows.
        check_every: epochs between recomputations of the residual; convergence is always checked.
        seed: seed of all random draws.
    """

    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        Stopping.of(self)
        require_seed(self.seed)

    def epochs(self, prepared: object, state: Iteration) -> Events:
        """Make the updates of the state, one epoch after another."""
        point = state.point
        while True:
            for _ in range(state.updates):
                w, r = point.w.clone(), point.r.clone()
                state.update()
                # h is quadratic: the trapezoid rule is exact
                if (yield Updated(-1, 0.5 * column_inner(point.w - w, r + point.r))):
                    break
            yield EpochEnd()


class Iteration(State, ABC):
    """State of a solve whose updates, a number of them an epoch, move `point`, the iterate that is the solution."""

    def __init__(self, start: State, seed: int, updates: int = 1) -> None:
        super().__init__(**vars(start))
        self.updates, self.point = updates, Iterate(self.w, self.r)
        self.generator = torch.Generator().manual_seed(int(seed))

    @abstractmethod
    def update(self) -> None:
        """Move `point` to its next value."""

    def sampled(self, size: int) -> Tensor:
        """Draw `size` distinct rows uniformly."""
        return torch.randperm(len(self.b), generator=self.generator)[:size].to(self.b.device)


def updates_of(n: int, size: int) -> int:
    """Return the number of updates on `size` rows that cover n rows."""
    return math.ceil(n / size)


def estimated_largest_eigenvalue(operator: CountingOperator, seed: int) -> float:
    """Estimate λmax(K) from a block of 500 random rows, scaled by n/500."""
    n = operator.n
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(int(seed)))[:SUBSAMPLE_ROWS].to(operator.x.device)
    k = operator.part(rows, rows).double()
    return float(torch.linalg.eigvalsh(k)[-1]) * n / len(rows) + operator.noise
