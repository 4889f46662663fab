"""Twins: few rows of a system that are solved as all of it is, in about as many epochs, for a hundredth of the cost.

Of m random rows the large eigenvalues of k are about m/n of those of all. With m/n of the noise the twin so has about
the same κ, and blocks of m/n of the rows cover the same regions. What is so local that m rows are too far apart for it
a twin does not show: there the epochs grow with the rows, and how fast is seen from a twin of half the size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from apviz.preconditioners.base import Preconditioner
from apviz.solvers import AlternatingProjection, ConjugateGradient, Epoch, Hook, Solver, StopReason, attempt
from apviz.solvers.refinement import Pass
from apviz.system import KernelSystem
from apviz.tracing import StopHook

#: right-hand sides of a twin: the mean over them is hardly another one with more
MOST_SIDES = 4


@dataclass(frozen=True)
class Rehearsal:
    """What the solve of a twin took.

    Attributes:
        rows: of the twin.
        work: of all, in the twin's n².
        setup_work, passes: of it, that of the set-up, and the evaluations of B − KW.
        epochs: or iterations; of the last one the share, on a logarithmic scale, in which the tolerance was reached.
        residual: in which it ended.
        reason: why it ended.
    """

    rows: int
    work: float
    setup_work: float
    passes: int
    epochs: float
    residual: float
    reason: StopReason

    @property
    def converged(self) -> bool:
        """Whether it reached the tolerance."""
        return self.reason is StopReason.CONVERGED

    @property
    def projected(self) -> float:
        """The work of its epochs: what is neither set-up nor pass."""
        return max(0.0, self.work - self.setup_work - self.passes)


class Twin:
    """m random rows of a system, with m/n of its noise, held densely.

    Args:
        rows: m; all where there are no more.
        seed: of the draw.
    """

    def __init__(self, system: KernelSystem, rows: int, seed: int = 0) -> None:
        self.rows = min(rows, system.n)
        self.share = self.rows / system.n
        drawn = torch.randperm(system.n, generator=torch.Generator().manual_seed(seed))[: self.rows]
        drawn = drawn.sort().values.to(system.device)
        self.system = KernelSystem(
            system.operator.given[drawn], system.given_b[drawn, :MOST_SIDES], system.kernel,
            noise=system.operator.noise_of(drawn) * self.share, operator="dense", dtype=system.dtype,
            device=system.device,
        )  # fmt: skip

    def rehearse(self, solver: Solver, most_work: float) -> Rehearsal:
        """Solves it as a `solver` without `auto` would all rows; stops after so much work, in the twin's n²."""
        curve = _Curve()
        smaller = on_fewer_rows(solver, self.share)
        solution = attempt(self.system, smaller, [curve, StopHook(max_work=most_work)])
        epochs = float(solution.epochs)
        if solution.converged and isinstance(smaller, ConjugateGradient):
            epochs = curve.fractional_epochs(smaller.tol)
        return Rehearsal(
            rows=self.rows, work=solution.work, setup_work=solution.setup_work, passes=curve.passes, epochs=epochs,
            residual=solution.residual, reason=solution.stop_reason,
        )  # fmt: skip


class _Curve(Hook):
    """The residual after every epoch, and the number of passes."""

    def __init__(self) -> None:
        self._residuals: list[float] = []
        self.passes = 0

    def on_epoch(self, epoch: Epoch) -> None:
        self._residuals.append(epoch.residual)

    def on_pass(self, found: Pass) -> None:
        self.passes += 1

    def fractional_epochs(self, tol: float) -> float:
        """The last epoch counts as far as the tolerance is from the residual before it."""
        *_, before, last = self._residuals
        whole = len(self._residuals) - 2.0
        if not 0 < last < tol < before:
            return whole + 1.0
        return whole + math.log(before / tol) / math.log(before / last)


def on_fewer_rows(solver: Solver, share: float) -> Solver:
    """The solver for a share of the rows: blocks take their share of theirs, and what is of low rank stays."""
    if isinstance(solver, AlternatingProjection):
        # a twin has too few rows for skeletons, and is to tell how the projections go
        size = _share_of(solver.block_size, share)
        return replace(solver, block_size=size, skeleton_rank=0, near_rows=0, fallback_rank=0)
    if isinstance(solver, ConjugateGradient) and solver.preconditioner is not None:
        return replace(solver, preconditioner=_of_fewer(solver.preconditioner, share))
    return solver


def _of_fewer(preconditioner: Preconditioner, share: float) -> Preconditioner:
    if not hasattr(preconditioner, "block_size"):
        return preconditioner
    size = _share_of(preconditioner.block_size, share)
    return replace(preconditioner, block_size=size)  # type: ignore[type-var]


def _share_of(size: int | str, share: float) -> int:
    assert isinstance(size, int)  # nothing says `auto` any more
    return max(2, round(size * share))


def growth_to(n: int, half: Rehearsal, whole: Rehearsal) -> float:
    """How many times the epochs of a twin n rows take if they go on growing as from half of its rows; from 1 on."""
    if not (half.converged and whole.converged):
        return 1.0
    return float(max(1.0, whole.epochs / half.epochs) ** math.log2(max(1.0, n / whole.rows)))
