"""Iterates: points with their residuals, for methods whose next point is a combination of earlier ones.

R = B − KW is affine in W: where the coefficients of points sum to 1, the residual of their combination is that of their
residuals. So a method with momentum or averages, which its paper writes with rows K[I, :] of K at one of its points,
knows the residuals of all of them for as many entries, by the columns K[:, I] that its update needs; B − KW, which
decides when to stop, costs nothing beside.
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

# rows of the block by which λmax is estimated
SUBSAMPLE_ROWS = 500


@dataclass(eq=False)
class Iterate:
    """A point W, or a direction, for which B is 0.

    Args:
        w: (n, l+1) float64.
        r: (n, l+1) its residual B − KW, in the dtype of the operator.
    """

    w: Tensor
    r: Tensor

    def copy(self) -> Iterate:
        """Returns the same in memory of its own."""
        return Iterate(self.w.clone(), self.r.clone())

    def direction(self) -> Iterate:
        """Returns a direction 0 of this shape."""
        return Iterate(torch.zeros_like(self.w), torch.zeros_like(self.r))

    def add_(self, other: Iterate, factor: float | Tensor = 1.0) -> Iterate:
        """Adds a direction, times a number, or one for every right-hand side, (l+1,)."""
        self.w += other.w * factor
        self.r += other.r * _as(factor, self.r)
        return self

    def scale_(self, factor: float | Tensor) -> Iterate:
        """Multiplies a direction by a number, or one for every right-hand side, (l+1,)."""
        self.w *= factor
        self.r *= _as(factor, self.r)
        return self

    def mix_(self, share: float, other: Iterate) -> Iterate:
        """Becomes `share` of itself and the rest of `other`, both points."""
        self.w.mul_(share).add_(other.w, alpha=1 - share)
        self.r.mul_(share).add_(other.r, alpha=1 - share)
        return self

    def step_(self, rows: Tensor, u: Tensor, ku: Tensor, factor: float = 1.0) -> Iterate:
        """Adds factor·u, (|I|, l+1), on the distinct rows I, where ku is K[:, I]u."""
        self.w[rows] += factor * u.to(self.w)
        self.r.sub_(ku, alpha=factor)
        return self


def _as(factor: float | Tensor, like: Tensor) -> float | Tensor:
    return factor.to(like) if isinstance(factor, Tensor) else factor


@dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver):
    """The settings that say when to end, of the methods here.

    Args:
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in epochs of n rows.
        check_every: epochs between recomputations of the residual; convergence is always checked.
        seed: of all that is drawn.
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
        """Has the state make its updates, an epoch of them after another."""
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
    """The state of a solve whose updates give `point`, the iterate that counts, its next value.

    Args:
        start: at the weights to start from.
        seed: of what is drawn.
        updates: in an epoch.
    """

    def __init__(self, start: State, seed: int, updates: int = 1) -> None:
        super().__init__(**vars(start))
        self.updates, self.point = updates, Iterate(self.w, self.r)
        self.generator = torch.Generator().manual_seed(int(seed))

    @abstractmethod
    def update(self) -> None:
        """Takes `point` to its next value."""

    def sampled(self, size: int) -> Tensor:
        """Draws distinct rows, each equally likely."""
        return torch.randperm(len(self.b), generator=self.generator)[:size].to(self.b.device)


def updates_of(n: int, size: int) -> int:
    """Counts the updates on so many rows that take n rows."""
    return math.ceil(n / size)


def estimated_largest_eigenvalue(operator: CountingOperator, seed: int) -> float:
    """Estimates λmax(K) by that of a block of 500 random rows, scaled by n/500."""
    n = operator.n
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(int(seed)))[:SUBSAMPLE_ROWS].to(operator.x.device)
    k = operator.part(rows, rows).double()
    return float(torch.linalg.eigvalsh(k)[-1]) * n / len(rows) + operator.noise
