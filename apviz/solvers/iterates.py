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
from apviz.settings import require_seed, require_tolerance, require_whole
from apviz.solvers.interface import Prepared, Solver, StopReason
from apviz.solvers.refinement import Limits
from apviz.solvers.run import Run
from apviz.solvers.steps import column_inner, column_squares

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
        require_tolerance(self.tol)
        require_whole("max_epochs", self.max_epochs, 1)
        require_whole("min_epochs", self.min_epochs, 0, self.max_epochs)
        require_whole("check_every", self.check_every, 1)
        require_seed(self.seed)


class Iteration(ABC):
    """The state of a solve whose updates give `point`, the iterate that counts, its next value.

    Args:
        updates: in an epoch.
    """

    def __init__(self, prepared: Prepared, run: Run, updates: int = 1) -> None:
        self.run, self.operator, self.updates = run, run.operator, updates
        settings = prepared.solver
        assert isinstance(settings, IterativeSolver)
        self._limits = Limits(settings.tol, settings.min_epochs, settings.max_epochs, settings.check_every)
        self.b = run.b
        if run.initial_weights is None:
            w, r = torch.zeros_like(self.b, dtype=torch.float64), self.b.to(self.operator.x.dtype, copy=True)
        else:
            w = run.initial_weights
            r = run.residual_of(w).to(self.operator.x.dtype)
        self.point, self.r = Iterate(w, r), r
        self.generator = torch.Generator().manual_seed(int(settings.seed))

    @abstractmethod
    def update(self) -> None:
        """Takes `point` to its next value."""

    def sampled(self, size: int) -> Tensor:
        """Draws distinct rows, each equally likely."""
        return torch.randperm(len(self.b), generator=self.generator)[:size].to(self.b.device)

    def iterate(self) -> StopReason:
        """Runs epochs until the solve is over."""
        run, point = self.run, self.point
        run.start(self, self._limits)
        while True:
            for _ in range(self.updates):
                w, r = point.w.clone(), point.r.clone()
                self.update()
                # h is quadratic: the trapezoid rule is exact
                decrease = 0.5 * column_inner(point.w - w, r + point.r)
                squared = column_squares(point.r)
                run.updated(-1, decrease, squared)
                if run.ends_inside_epoch(squared):
                    break
            reason = run.end_epoch(column_squares(point.r))
            if reason is not None:
                return reason

    # --- what the run asks for ------------------------------------------------------------------------------------

    def weights(self) -> Tensor:
        return self.point.w

    def block_norms(self) -> Tensor | None:
        return None

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """B − KW afresh becomes the residual of `point`; what has drifted of the others goes on."""
        self.point.r.copy_(fresh)
        return True


def updates_of(n: int, size: int) -> int:
    """Counts the updates on so many rows that take n rows."""
    return math.ceil(n / size)


def estimated_largest_eigenvalue(operator: CountingOperator, seed: int) -> float:
    """Estimates λmax(K) by that of a block of 500 random rows, scaled by n/500."""
    n = operator.n
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(int(seed)))[:SUBSAMPLE_ROWS].to(operator.x.device)
    k = operator.part(rows, rows).double()
    return float(torch.linalg.eigvalsh(k)[-1]) * n / len(rows) + operator.noise
