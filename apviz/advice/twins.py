"""Twins: few rows of a system that are solved as all of it is, in about as many epochs, for a hundredth of the cost.

Of m random rows the large eigenvalues of k are about m/n of those of all. With m/n of the noise the twin so has about
the same κ, and blocks of m/n of the rows cover the same regions. What is so local that m rows are too far apart for it
a twin does not show: there the epochs grow with the rows, and how fast is seen from a twin of half the size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from apviz.preconditioners.base import Preconditioner
from apviz.solvers import AlternatingProjection, ConjugateGradient, Epoch, Exact, Hook, Solver, StopReason, attempt
from apviz.solvers.refinement import Pass
from apviz.solvers.run import Run
from apviz.system import KernelSystem

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
        curve: the residual before the first epoch and after each.
        first: the same of the first right-hand side alone.
        passes_by: how many passes there had been by then.
        in_fractions: whether epochs are counted in fractions.
    """

    rows: int
    work: float
    setup_work: float
    passes: int
    epochs: float
    residual: float
    reason: StopReason
    curve: tuple[float, ...] = ()
    first: tuple[float, ...] = ()
    passes_by: tuple[int, ...] = ()
    in_fractions: bool = False

    @property
    def converged(self) -> bool:
        """Whether it reached the tolerance."""
        return self.reason is StopReason.CONVERGED

    @property
    def projected(self) -> float:
        """The work of its epochs: what is neither set-up nor pass."""
        return max(0.0, self.work - self.setup_work - self.passes)

    def to(self, tol: float, *, alone: bool = False) -> Rehearsal | None:
        """The same as it would have ended at another tolerance, by its curve; None where that does not get there.

        Args:
            alone: for the first right-hand side alone.
        """
        curve = self.first if alone else self.curve
        last = next((number for number, residual in enumerate(curve) if residual < tol), 0)
        if not last:
            return None
        epochs, passes = _fractional(curve, last, tol), 1 + self.passes_by[last - 1]
        # an iteration is made whole, an epoch may end within it
        projected = self.projected / max(self.epochs, 1.0) * (last if self.in_fractions else epochs)
        work = self.setup_work + passes + projected
        return replace(
            self, work=work, passes=passes, epochs=epochs, residual=curve[last], reason=StopReason.CONVERGED
        )  # fmt: skip


class Twin:
    """m random rows of a system, with m/n of its noise, held densely.

    Args:
        rows: m; all where there are no more.
        seed: of the draw.
        probes: random right-hand sides in place of those of the system beyond its first; None: those that it has.
        dtype: in place of that of the system.
    """

    def __init__(
        self,
        system: KernelSystem,
        rows: int,
        seed: int = 0,
        probes: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.rows = min(rows, system.n)
        self.share = self.rows / system.n
        generator = torch.Generator().manual_seed(int(seed))
        drawn = torch.randperm(system.n, generator=generator)[: self.rows]
        drawn = drawn.sort().values.to(system.device)
        b = system.given_b[drawn, : MOST_SIDES if probes is None else 1]
        if probes:
            signs = torch.randint(0, 2, (self.rows, probes), generator=generator) * 2 - 1
            b = torch.cat([b, signs.to(b)], dim=1)
        self.system = KernelSystem(
            system.operator.given[drawn], b, system.kernel, noise=system.operator.noise_of(drawn) * self.share,
            operator="dense", dtype=dtype or system.dtype, device=system.device,
        )  # fmt: skip

    def rehearse(self, solver: Solver, most_work: float, hooks: Sequence[Hook] = ()) -> Rehearsal:
        """Solve it as a `solver` without `auto` would all rows; stops after so much work, in the twin's n²."""
        smaller: Any = on_fewer_rows(solver, self.share)
        watch = _Watch(most_work)
        solution = attempt(self.system, smaller, [watch, *hooks])
        ended = Rehearsal(
            rows=self.rows, work=solution.work, setup_work=solution.setup_work, passes=watch.passes,
            epochs=float(solution.epochs), residual=solution.residual, reason=solution.stop_reason,
            curve=tuple(watch.curve), first=tuple(watch.first), passes_by=tuple(watch.passes_by),
            in_fractions=isinstance(smaller, ConjugateGradient),
        )  # fmt: skip
        if not (ended.converged and ended.in_fractions):
            return ended
        return replace(ended, epochs=_fractional(ended.curve, len(ended.curve) - 1, smaller.tol))


def _fractional(curve: Sequence[float], last: int, tol: float) -> float:
    """Epochs to the tolerance, of which the last counts as far as the tolerance is from the residual before it."""
    before, after = curve[last - 1], curve[last]
    if not 0 < after < tol < before:
        return float(last)
    return last - 1 + math.log(before / tol) / math.log(before / after)


class _Watch(Hook):
    """The residual after every epoch, and the number of passes; stops a solve after so much work."""

    def __init__(self, most_work: float) -> None:
        self._most = most_work
        self.curve: list[float] = []
        self.first: list[float] = []
        self.passes_by: list[int] = []
        self.passes = 0

    def on_start(self, run: Run) -> None:
        self._run = run

    def on_epoch(self, epoch: Epoch) -> None:
        self.curve.append(epoch.residual)
        self.first.append(float(epoch.residual_per_rhs[0]))
        self.passes_by.append(self.passes)
        if epoch.work > self._most:
            self._run.request_stop("it takes more than others")

    def on_pass(self, found: Pass) -> None:
        self.passes += 1


def on_fewer_rows(solver: Solver, share: float) -> Solver:
    """The solver for a share of the rows: blocks take their share of theirs, and what is of low rank stays."""
    if isinstance(solver, AlternatingProjection):
        # a twin has too few rows for skeletons, and is to tell how the projections go
        size = _share_of(solver.block_size, share)
        return replace(solver, block_size=size, columns=Exact(), fallback_rank=0)
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
